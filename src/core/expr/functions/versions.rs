//! Versions and image references.

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;
use crate::core::scalar::image::{Image, ImageDefaults};
use crate::core::scalar::semver::{self, VersionRange};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver_compare",
        takes: &["string", "string"],
        gives: "boolean",
        note: "Tells whether a version lies in a range; a text that is no version counts as 0.0.0.",
        examples: &[
            ("semver_compare('4.1.3', '>=4.1.x')", "true"),
            ("semver_compare('4.1.3', '!4.x.x')", "false"),
            ("semver_compare('1.8.6', '>1.0.0 <2.0.0')", "true"),
            ("semver_compare('2.1.5', '<2.0.0 || >=3.0.0')", "false"),
            ("semver_compare('v1.2.3', '<1.0.0')", "true"),
        ],
        call: semver_compare,
    },
    Function {
        name: "image_normalize",
        takes: &["string"],
        gives: "string",
        note: "The full image reference, with registry and tag or digest.",
        examples: &[
            ("image_normalize('nginx')", r#""docker.io/nginx:latest""#),
            ("image_normalize('docker.io/library/nginx')", r#""docker.io/library/nginx:latest""#),
            ("image_normalize('ghcr.io/nginx:1.2')", r#""ghcr.io/nginx:1.2""#),
        ],
        call: image_normalize,
    },
];

fn semver_compare<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let range = VersionRange::parse(&arguments.text(1)?).map_err(|error| arguments.fail_on(1, error.words()))?;
    let version = semver::parse(&arguments.text(0)?).unwrap_or(::semver::Version::new(0, 0, 0));
    Ok(Datum::Bool(range.contains(&version)))
}

fn image_normalize<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let image = Image::parse(&arguments.text(0)?, &ImageDefaults::default())
        .map_err(|_| arguments.fail_on(0, "is a bad image: invalid reference format"))?;
    arguments.give(image.reference())
}
