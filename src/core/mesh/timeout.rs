//! MeshTimeout: how long connections, requests and streams may take.

use super::caller::CallerMatch;
use super::target_ref::TargetRef;
use crate::core::scalar::duration::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeoutPolicy {
    pub target: TargetRef,
    /// For calls to a destination.
    pub to: Vec<(TargetRef, Timeouts)>,
    /// For calls from a source.
    pub from: Vec<(TargetRef, Timeouts)>,
    /// For incoming calls, by who calls.
    pub rules: Vec<TimeoutRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeoutRule {
    /// Any one of them is enough; an empty list holds for every caller.
    pub matches: Vec<CallerMatch>,
    pub timeouts: Timeouts,
}

/// An absent value is inherited from a less specific policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Above zero.
    pub connection: Option<Duration>,
    /// Zero switches this and the following off.
    pub idle: Option<Duration>,
    pub http: HttpTimeouts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpTimeouts {
    pub request: Option<Duration>,
    pub stream_idle: Option<Duration>,
    pub max_stream_duration: Option<Duration>,
    pub max_connection_duration: Option<Duration>,
    pub request_headers: Option<Duration>,
}
