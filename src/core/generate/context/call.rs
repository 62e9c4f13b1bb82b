//! `apiCall`, read: whom to ask, and with what. Asking passes the gate.

use serde_json::{Map, Value};

use crate::core::generate::api_path::PathPattern;
use crate::core::generate::fetch::Fetch;
use crate::core::generate::gate::{Gate, Refusal};
use crate::core::shape::ValueShape;

/// A call whose variables have their values.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    target: Target,
    /// The body of a POST; a GET has none.
    body: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
enum Target {
    Path(String),
    Service { url: String, headers: Vec<(String, String)>, ca_bundle: Option<String> },
}

impl Call {
    /// Reads `{urlPath, service, method, data}`; says what cannot be read.
    pub fn read(call: &Value) -> Result<Self, String> {
        let body = match text_of(call, "method")? {
            "" | "GET" => None,
            "POST" => Some(body_of(call)?),
            _ => return Err("`method` must become GET or POST".to_owned()),
        };
        let target = match call.get("service").filter(|service| !service.is_null()) {
            Some(service) => {
                let ca_bundle = Some(text_of(service, "caBundle")?).filter(|bundle| !bundle.is_empty());
                Target::Service {
                    url: text_of(service, "url")?.to_owned(),
                    headers: headers_of(service)?,
                    ca_bundle: ca_bundle.map(str::to_owned),
                }
            }
            None => Target::Path(text_of(call, "urlPath")?.to_owned()),
        };
        Ok(Self { target, body })
    }

    /// The path of a call that has no variables, as it is written down.
    pub fn written(&self) -> PathPattern {
        match &self.target {
            Target::Path(path) => PathPattern::of(path),
            Target::Service { .. } => PathPattern::Open,
        }
    }

    /// Asks the gate. `asked` is the path as the policy writes it down.
    pub fn fetch(&self, gate: &Gate<'_>, asked: &PathPattern) -> Result<Fetch, Refusal> {
        match &self.target {
            Target::Path(path) => gate.call(path, self.body.clone(), asked),
            Target::Service { url, headers, ca_bundle } => {
                gate.service(url, headers.clone(), ca_bundle.clone(), self.body.clone())
            }
        }
    }
}

/// The response of a service comes as text.
pub(in crate::core::generate) fn decode(response: &Value) -> Result<Value, String> {
    serde_json::from_str(response.as_str().unwrap_or_default())
        .map_err(|error| format!("the response is not JSON: line {}, column {}", error.line(), error.column()))
}

/// A field that must be text; absent and null read as empty.
pub(super) fn text_of<'v>(value: &'v Value, field: &'static str) -> Result<&'v str, String> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("`{field}` must become text, but became {}", ValueShape::of(other))),
    }
}

/// `data: [{key, value}]` as the JSON object that is posted.
fn body_of(call: &Value) -> Result<String, String> {
    let mut body = Map::new();
    for pair in call.get("data").and_then(Value::as_array).into_iter().flatten() {
        body.insert(text_of(pair, "key")?.to_owned(), pair.get("value").cloned().unwrap_or_default());
    }
    Ok(format!("{}\n", Value::Object(body)))
}

fn headers_of(service: &Value) -> Result<Vec<(String, String)>, String> {
    let headers = service.get("headers").and_then(Value::as_array).into_iter().flatten();
    headers.map(|header| Ok((text_of(header, "key")?.to_owned(), text_of(header, "value")?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_no_service() {
        let call = Call::read(&json!({"urlPath": "/version", "service": null}));
        assert!(call.is_ok_and(|call| call.target == Target::Path("/version".to_owned())));
    }

    #[test]
    fn a_value_that_is_no_text_is_not_shown() {
        let header = |value: Value| json!({"service": {"url": "http://a", "headers": [{"key": "k", "value": value}]}});
        for (value, shown) in
            [(json!({"hidden": "hidden"}), "an object with 1 key"), (json!(["hidden"]), "an array of 1 element")]
        {
            let error = Call::read(&header(value)).err();
            assert_eq!(error, Some(format!("`value` must become text, but became {shown}")));
        }
    }
}
