//! Answers that are not 200.

use serde::Serialize;

use super::{InspectAnswer, JSON};
use crate::core::mesh::meta::KriError;

/// Why a request has no other answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InspectError {
    UnknownPath,
    /// With the title that clients know it by.
    NotFound(&'static str),
    UnknownInbound(String),
    PageSize(String),
    Offset(String),
    /// The mesh does not use MeshServices alone; the endpoint needs that.
    Mode(&'static str),
    Kri(KriError),
    GatewayWithoutSelectors,
}

#[derive(Serialize)]
struct ErrorBody<'e> {
    r#type: &'static str,
    status: u16,
    title: &'e str,
    detail: &'e str,
    /// The same for older clients.
    details: &'e str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    invalid_parameters: Vec<InvalidParameter<'e>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause<'e>>,
}

#[derive(Serialize)]
struct InvalidParameter<'e> {
    field: &'static str,
    reason: &'e str,
}

#[derive(Serialize)]
struct Cause<'e> {
    field: &'static str,
    message: &'e str,
}

impl InspectError {
    pub(super) fn answer(&self) -> InspectAnswer {
        let bad_request = |detail: &dyn std::fmt::Display| body(400, "Bad Request", &format!("bad request: {detail}"));
        match self {
            Self::UnknownPath => InspectAnswer {
                status: 404,
                content_type: "text/plain; charset=utf-8",
                body: "404: Page Not Found".to_owned(),
            },
            Self::NotFound(title) => body(404, title, "Not found"),
            Self::UnknownInbound(section) => {
                body(404, "Not Found", &format!("the proxy has no inbound or listener {section:?}"))
            }
            Self::PageSize(reason) => {
                body_with(400, "Could not retrieve policy", "Invalid page size", Some(("size", reason)))
            }
            Self::Offset(offset) => {
                let detail = format!("invalid: invalid offset: {offset:?} is not a number of items");
                body(400, "failed inspect", &detail)
            }
            Self::Mode(endpoint) => bad_request(&format!("can't use {endpoint} endpoint without meshService enabled")),
            Self::Kri(error) => bad_request(error),
            Self::GatewayWithoutSelectors => {
                bad_request(&"the MeshGateway has no selectors, so no proxy can be its own")
            }
        }
    }
}

fn body(status: u16, title: &str, detail: &str) -> InspectAnswer {
    body_with(status, title, detail, None)
}

fn body_with(status: u16, title: &str, detail: &str, parameter: Option<(&'static str, &str)>) -> InspectAnswer {
    let body = ErrorBody {
        r#type: "/std-errors",
        status,
        title,
        detail,
        details: detail,
        invalid_parameters: parameter.iter().map(|(field, reason)| InvalidParameter { field, reason }).collect(),
        causes: parameter.iter().map(|(field, message)| Cause { field, message }).collect(),
    };
    InspectAnswer { status, content_type: JSON, body: super::view::json(&body) }
}
