//! Types that a policy may name although their messages are not known here: control planes of the mesh carry their
//! descriptors, and the Envoy that our table of messages is made from does not.

/// Full names, sorted.
const OPAQUE: &[&str] = &[
    "envoy.extensions.filters.http.gzip.v3.Gzip",
    "envoy.extensions.filters.http.kill_request.v3.KillRequest",
    "envoy.extensions.filters.network.kafka_broker.v3.KafkaBroker",
    "envoy.extensions.grpc_service.call_credentials.access_token.v3.AccessTokenCredentials",
    "envoy.extensions.grpc_service.call_credentials.file_based_metadata.v3.FileBasedMetadataCallCredentials",
    "envoy.extensions.grpc_service.call_credentials.google_compute_engine.v3.GoogleComputeEngineCredentials",
    "envoy.extensions.grpc_service.call_credentials.google_iam.v3.GoogleIamCredentials",
    "envoy.extensions.grpc_service.call_credentials.google_refresh_token.v3.GoogleRefreshTokenCredentials",
    "envoy.extensions.grpc_service.call_credentials.service_account_jwt_access.v3.ServiceAccountJwtAccessCredentials",
    "envoy.extensions.grpc_service.call_credentials.sts_service.v3.StsServiceCredentials",
    "envoy.extensions.grpc_service.channel_credentials.google_default.v3.GoogleDefaultCredentials",
    "envoy.extensions.grpc_service.channel_credentials.insecure.v3.InsecureCredentials",
    "envoy.extensions.grpc_service.channel_credentials.local.v3.LocalCredentials",
    "envoy.extensions.grpc_service.channel_credentials.tls.v3.TlsCredentials",
    "envoy.extensions.grpc_service.channel_credentials.xds.v3.XdsCredentials",
    "envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst",
    "envoy.extensions.outlier_detection_monitors.common.v3.DatabaseErrors",
    "envoy.extensions.outlier_detection_monitors.common.v3.ErrorBuckets",
    "envoy.extensions.outlier_detection_monitors.common.v3.HttpErrors",
    "envoy.extensions.outlier_detection_monitors.common.v3.LocalOriginErrors",
    "envoy.extensions.outlier_detection_monitors.consecutive_errors.v3.ConsecutiveErrors",
    "envoy.extensions.rbac.audit_loggers.stream.v3.StdoutAuditLog",
    "envoy.extensions.transport_sockets.s2a.v3.S2AConfiguration",
];

/// Whether the URL in an `Any` names such a type: what follows the last slash counts.
pub fn is_opaque_type(url: &str) -> bool {
    let name = url.rsplit('/').next().unwrap_or(url);
    OPAQUE.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::envoy::schema::Schema;

    #[test]
    fn opaque_types_are_sorted_and_have_no_message_here() {
        assert!(OPAQUE.is_sorted());
        for name in OPAQUE {
            assert!(Schema::get().message(name).is_none(), "{name} is known: take it off the list");
        }
        assert!(is_opaque_type("type.googleapis.com/envoy.extensions.filters.http.gzip.v3.Gzip"));
        assert!(!is_opaque_type("type.googleapis.com/no.Such"));
    }
}
