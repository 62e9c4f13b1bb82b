//! Encodings, digests and embedded documents. Bytes that are no text survive here.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;
use crate::core::expr::error::FailReason;
use crate::core::yaml::{self, Position};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "base64_decode",
        takes: &["string"],
        gives: "string",
        note: "Decodes base64 (standard alphabet, padded). Bytes that are no text survive until the result is stored.",
        examples: &[
            ("base64_decode('SGVsbG8sIHdvcmxkIQ==')", r#""Hello, world!""#),
            ("base64_encode(base64_decode('//79'))", r#""//79""#),
        ],
        call: base64_decode,
    },
    Function {
        name: "base64_encode",
        takes: &["string"],
        gives: "string",
        note: "Encodes as base64, padded.",
        examples: &[("base64_encode('Hello, world!')", r#""SGVsbG8sIHdvcmxkIQ==""#)],
        call: base64_encode,
    },
    Function {
        name: "sha256",
        takes: &["string"],
        gives: "string",
        note: "The SHA-256 digest in hexadecimal.",
        examples: &[(
            "sha256('alertmanager-kube-prometheus-stack-alertmanager')",
            r#""75c07bb807f2d80a85d34880b8af0c5f29f7c27577076ed5d0e4b427dee7dbcc""#,
        )],
        call: digest::<sha2::Sha256>,
    },
    Function {
        name: "sha1",
        takes: &["string"],
        gives: "string",
        note: "The SHA-1 digest in hexadecimal. For names, not for security.",
        examples: &[("sha1('Alice & Bob')", r#""e3ec484930685a61b0f824cd684a68699d2b98c1""#)],
        call: digest::<sha1::Sha1>,
    },
    Function {
        name: "md5",
        takes: &["string"],
        gives: "string",
        note: "The MD5 digest in hexadecimal. For names, not for security.",
        examples: &[("md5('Alice & Bob')", r#""def42e1abd2462df1f9f0a4b3d488221""#)],
        call: digest::<md5::Md5>,
    },
    Function {
        name: "parse_json",
        takes: &["string"],
        gives: "any",
        note: "Reads a JSON document.",
        examples: &[
            (r#"parse_json('[1, 2, {"a": {"b": {"c": [1, 2]}}}]')[2].a.b.c[1]"#, "2"),
            ("parse_json('null')", "null"),
            ("parse_json('1.2')", "1.2"),
        ],
        call: parse_json,
    },
    Function {
        name: "parse_yaml",
        takes: &["string"],
        gives: "any",
        note: "Reads the first YAML document, with the scalars of YAML 1.1.",
        examples: &[
            ("parse_yaml('foo: ~\nbar: null')", r#"{"foo": null, "bar": null}"#),
            ("parse_yaml('{y: 1, n: 2}')", r#"{"true": 1, "false": 2}"#),
            ("parse_yaml('a: >\n  folded\n  text\n')", r#"{"a": "folded text\n"}"#),
            ("parse_yaml('[010, 0b11, 1_000, 12:30]')", r#"[8, 3, 1000, "12:30"]"#),
        ],
        call: parse_yaml,
    },
];

/// Go's decoder: padding is required, unused bits of the last character are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

fn base64_decode<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let mut text = arguments.bytes(0)?.to_vec();
    text.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    let bytes = BASE64.decode(&text).map_err(|_| arguments.fail_on(0, "is not base64 with padding"))?;
    arguments.runtime.produce(bytes.len())?;
    Ok(Datum::bytes(bytes))
}

fn base64_encode<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let bytes = arguments.bytes(0)?;
    arguments.runtime.produce(bytes.len())?;
    arguments.give(BASE64.encode(bytes))
}

fn digest<'a, D: sha2::Digest>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let bytes = arguments.bytes(0)?;
    // A digest reads about as fast as an evaluation copies.
    arguments.runtime.produce(bytes.len())?;
    arguments.give(hex::encode(D::digest(bytes)))
}

fn parse_json<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let text = arguments.text(0)?;
    arguments.runtime.produce(text.len())?;
    serde_json::from_str(&text).map(Datum::owned).map_err(|error| {
        let reason =
            FailReason::about(arguments.get(0).shape(), "is not JSON:").at(error.line() as u64, error.column() as u64);
        arguments.fail_with(reason)
    })
}

fn parse_yaml<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let text = arguments.text(0)?;
    // Reading YAML costs far more than copying it, and aliases may add to it.
    arguments.runtime.step(text.len())?;
    arguments.runtime.produce(text.len())?;
    yaml::read_value(&text).map(Datum::owned).map_err(|error| {
        let Position { line, column } = error.position;
        let reason = FailReason::about(arguments.get(0).shape(), "is not YAML:").at(line as u64, column as u64);
        arguments.fail_with(reason)
    })
}
