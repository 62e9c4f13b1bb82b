//! Kind selectors: `Pod`, `apps/v1/Deployment`, `batch/*/CronJob`, `Pod/status`, `*/scale`.

use std::fmt;

use super::Resource;
use crate::core::scalar::wildcard;

/// Four patterns, one per part of what a request is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindSelector {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Empty: the main resource only.
    pub subresource: String,
}

const ANY: &str = "*";

impl KindSelector {
    /// `None` if the text has more parts than there are, or none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut pieces: Vec<&str> = text.split('/').collect();
        let last = pieces.pop()?;
        pieces.extend(last.split('.'));
        let selector = |group: &str, version: &str, kind: &str, subresource: &str| Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            subresource: subresource.to_owned(),
        };
        let selector = match pieces.as_slice() {
            [kind] => selector(ANY, ANY, kind, ""),
            [ANY, ANY] => selector(ANY, ANY, ANY, ANY),
            [ANY, lower] if lower.to_lowercase() == *lower => selector(ANY, ANY, ANY, lower),
            [version, kind] if is_version(version) => selector(ANY, version, kind, ""),
            [kind, subresource] => selector(ANY, ANY, kind, subresource),
            [version, kind, subresource] if is_version(version) => selector(ANY, version, kind, subresource),
            [group, version, kind] => selector(group, version, kind, ""),
            [group, version, kind, subresource] => selector(group, version, kind, subresource),
            _ => return None,
        };
        (!selector.kind.is_empty()).then_some(selector)
    }

    pub fn matches(&self, resource: &Resource<'_>) -> bool {
        wildcard::matches(&self.kind, resource.kind)
            && wildcard::matches(&self.version, resource.version)
            && wildcard::matches(&self.group, resource.group)
            && self.matches_subresource(resource)
    }

    /// Whether it selects every kind there is.
    pub fn is_everything(&self) -> bool {
        let any = |part: &str| part == ANY;
        any(&self.group)
            && any(&self.version)
            && any(&self.kind)
            && (self.subresource.is_empty() || any(&self.subresource))
    }

    fn matches_subresource(&self, resource: &Resource<'_>) -> bool {
        // Adding a debug container is a change of the pod to everybody but the API server.
        let debug_container = self.subresource.is_empty()
            && resource.subresource == "ephemeralcontainers"
            && (resource.group, resource.version, resource.kind) == ("", "v1", "Pod");
        debug_container || wildcard::matches(&self.subresource, resource.subresource)
    }
}

impl fmt::Display for KindSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group != ANY {
            write!(f, "{}/{}/", self.group, self.version)?;
        } else if self.version != ANY {
            write!(f, "{}/", self.version)?;
        }
        f.write_str(&self.kind)?;
        if self.subresource.is_empty() { Ok(()) } else { write!(f, "/{}", self.subresource) }
    }
}

/// Splits the kind of a clone list into API version and kind: `apps/v1/Deployment` is `apps/v1` and `Deployment`.
pub fn split_api_version(text: &str) -> (&str, &str) {
    text.rsplit_once('/').unwrap_or(("", text))
}

/// `*`, `v1`, `v1beta1`, `v2alpha3`.
fn is_version(text: &str) -> bool {
    if text == ANY {
        return true;
    }
    let Some(rest) = text.strip_prefix('v').and_then(skip_digits) else {
        return false;
    };
    rest.is_empty()
        || ["alpha", "beta"]
            .iter()
            .any(|stage| rest.strip_prefix(stage).and_then(skip_digits).is_some_and(str::is_empty))
}

/// What follows at least one digit.
fn skip_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_up_to_four_parts() {
        #[track_caller]
        fn check(text: &str, expected: [&str; 4]) {
            let selector = KindSelector::parse(text).expect(text);
            assert_eq!(
                [&*selector.group, &*selector.version, &*selector.kind, &*selector.subresource],
                expected,
                "{text}"
            );
        }
        check("Pod", ["*", "*", "Pod", ""]);
        check("*", ["*", "*", "*", ""]);
        check("*/*", ["*", "*", "*", "*"]);
        check("*.*", ["*", "*", "*", "*"]);
        check("*/scale", ["*", "*", "*", "scale"]);
        check("Pod/*", ["*", "*", "Pod", "*"]);
        check("Pod.status", ["*", "*", "Pod", "status"]);
        check("Pod/status", ["*", "*", "Pod", "status"]);
        check("v1/Pod", ["*", "v1", "Pod", ""]);
        check("v1beta1/Pod", ["*", "v1beta1", "Pod", ""]);
        check("v2alpha3/Pod", ["*", "v2alpha3", "Pod", ""]);
        check("*/Pod", ["*", "*", "Pod", ""]);
        check("v1/Pod.status", ["*", "v1", "Pod", "status"]);
        check("v1/Pod/status", ["*", "v1", "Pod", "status"]);
        check("batch/*/CronJob", ["batch", "*", "CronJob", ""]);
        check("*/Deployment/scale", ["*", "*", "Deployment", "scale"]);
        check("v1.demo/v1/Demo", ["v1.demo", "v1", "Demo", ""]);
        check("apps/v1/Deployment/scale", ["apps", "v1", "Deployment", "scale"]);
        check("apps/v1/Deployment.scale", ["apps", "v1", "Deployment", "scale"]);
        check("*/v1/Pod", ["*", "*", "v1", "Pod"]);
        for text in ["*/*/*/*/*", "", "a/b/c/d/e", "v1/"] {
            assert_eq!(KindSelector::parse(text), None, "{text}");
        }
    }

    #[test]
    fn parts_match_the_request() {
        #[track_caller]
        fn check(selector: &str, resource: [&str; 4], expected: bool) {
            let [group, version, kind, subresource] = resource;
            let resource = Resource { group, version, kind, subresource };
            assert_eq!(
                KindSelector::parse(selector).expect(selector).matches(&resource),
                expected,
                "{selector} {resource:?}"
            );
        }
        check("Pod", ["", "v1", "Pod", ""], true);
        check("v1/Pod", ["", "v1", "Pod", "status"], false);
        check("Pod", ["", "v1", "Pod", "ephemeralcontainers"], true);
        check("Pod", ["x", "v1", "Pod", "ephemeralcontainers"], false);
        check("Pod/status", ["", "v1", "Pod", "status"], true);
        check("Pod/*", ["", "v1", "Pod", ""], true);
        check("*", ["apps", "v1", "Deployment", "scale"], false);
        check("*/*", ["apps", "v1", "Deployment", "scale"], true);
        check("*/scale", ["apps", "v1", "Deployment", "scale"], true);
        check("Postgresdb", ["acid", "v1", "postgresdb", ""], false);
        check("Deploy*", ["apps", "v1", "Deployment", ""], true);
        check("batch/*/CronJob", ["batch", "v1", "CronJob", ""], true);
        check("batch/*/CronJob", ["", "v1", "CronJob", ""], false);
    }

    #[test]
    fn kinds_of_clone_lists_have_an_api_version() {
        assert_eq!(split_api_version("v1/Secret"), ("v1", "Secret"));
        assert_eq!(split_api_version("apps/v1/Deployment"), ("apps/v1", "Deployment"));
        assert_eq!(split_api_version("Secret"), ("", "Secret"));
    }

    #[test]
    fn selectors_print_as_they_are_written() {
        for text in ["Pod", "*", "*/*", "v1/Pod", "apps/v1/Deployment/scale", "batch/*/CronJob", "Pod/status"] {
            assert_eq!(KindSelector::parse(text).unwrap().to_string(), text);
        }
    }
}
