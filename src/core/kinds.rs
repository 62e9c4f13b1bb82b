//! The kinds that every cluster has: their plural names and whether they live in namespaces.
//!
//! Lets a policy be checked and run without a cluster. What is not in this table may well exist as a custom resource; callers
//! decide what to assume then. Versions are those of Kubernetes 1.35 and the ones that older policies still name.

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinKind {
    /// Empty for the core group.
    pub group: &'static str,
    /// The versions under which it is or was served, preferred one first.
    pub versions: &'static [&'static str],
    pub kind: &'static str,
    pub plural: &'static str,
    pub scope: Scope,
}

/// The kind of that group, in whatever version.
pub fn find(group: &str, kind: &str) -> Option<&'static BuiltinKind> {
    BUILTIN.iter().find(|row| row.kind == kind && row.group == group)
}

/// Every kind of that name; some names stand in two groups (`Event`).
pub fn named(kind: &str) -> impl Iterator<Item = &'static BuiltinKind> {
    BUILTIN.iter().filter(move |row| row.kind == kind)
}

/// The kind behind a plural name as URL paths carry it.
pub fn by_plural(group: &str, plural: &str) -> Option<&'static BuiltinKind> {
    BUILTIN.iter().find(|row| row.plural == plural && row.group == group)
}

/// Every row.
pub fn all() -> impl Iterator<Item = &'static BuiltinKind> {
    BUILTIN.iter()
}

/// Whether all kinds of a group are in this table, so that any other is a mistake.
pub fn is_closed_group(group: &str) -> bool {
    group != "kyverno.io" && BUILTIN.iter().any(|row| row.group == group)
}

/// The plural that the API convention gives a kind of which nothing else is known.
pub fn guess_plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    let vowel_before_y =
        lower.ends_with("ay") || lower.ends_with("ey") || lower.ends_with("oy") || lower.ends_with("uy");
    match lower.strip_suffix('y') {
        Some(stem) if !vowel_before_y => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|ending| lower.ends_with(ending)) => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

use Scope::{Cluster, Namespaced};

const fn row(
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
) -> BuiltinKind {
    BuiltinKind { group, versions, kind, plural, scope }
}

const V1: &[&str] = &["v1"];
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const ADMISSION_POLICY: &[&str] = &["v1", "v1beta1", "v1alpha1"];
const RESOURCE: &[&str] = &["v1", "v1beta2", "v1beta1", "v1alpha3"];

/// Sorted by group, then kind.
const BUILTIN: &[BuiltinKind] = &[
    row("", V1, "Binding", "bindings", Namespaced),
    row("", V1, "ComponentStatus", "componentstatuses", Cluster),
    row("", V1, "ConfigMap", "configmaps", Namespaced),
    row("", V1, "Endpoints", "endpoints", Namespaced),
    row("", V1, "Event", "events", Namespaced),
    row("", V1, "LimitRange", "limitranges", Namespaced),
    row("", V1, "Namespace", "namespaces", Cluster),
    row("", V1, "Node", "nodes", Cluster),
    row("", V1, "PersistentVolume", "persistentvolumes", Cluster),
    row("", V1, "PersistentVolumeClaim", "persistentvolumeclaims", Namespaced),
    row("", V1, "Pod", "pods", Namespaced),
    row("", V1, "PodTemplate", "podtemplates", Namespaced),
    row("", V1, "ReplicationController", "replicationcontrollers", Namespaced),
    row("", V1, "ResourceQuota", "resourcequotas", Namespaced),
    row("", V1, "Secret", "secrets", Namespaced),
    row("", V1, "Service", "services", Namespaced),
    row("", V1, "ServiceAccount", "serviceaccounts", Namespaced),
    row(ADMISSION, &["v1beta1", "v1alpha1"], "MutatingAdmissionPolicy", "mutatingadmissionpolicies", Cluster),
    row(
        ADMISSION,
        &["v1beta1", "v1alpha1"],
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        Cluster,
    ),
    row(ADMISSION, V1, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", Cluster),
    row(ADMISSION, ADMISSION_POLICY, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", Cluster),
    row(ADMISSION, ADMISSION_POLICY, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", Cluster),
    row(ADMISSION, V1, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Cluster),
    row("apiextensions.k8s.io", V1, "CustomResourceDefinition", "customresourcedefinitions", Cluster),
    row("apiregistration.k8s.io", V1, "APIService", "apiservices", Cluster),
    row("apps", V1, "ControllerRevision", "controllerrevisions", Namespaced),
    row("apps", V1, "DaemonSet", "daemonsets", Namespaced),
    row("apps", V1, "Deployment", "deployments", Namespaced),
    row("apps", V1, "ReplicaSet", "replicasets", Namespaced),
    row("apps", V1, "StatefulSet", "statefulsets", Namespaced),
    row("authentication.k8s.io", V1, "SelfSubjectReview", "selfsubjectreviews", Cluster),
    row("authentication.k8s.io", V1, "TokenReview", "tokenreviews", Cluster),
    row("authorization.k8s.io", V1, "LocalSubjectAccessReview", "localsubjectaccessreviews", Namespaced),
    row("authorization.k8s.io", V1, "SelfSubjectAccessReview", "selfsubjectaccessreviews", Cluster),
    row("authorization.k8s.io", V1, "SelfSubjectRulesReview", "selfsubjectrulesreviews", Cluster),
    row("authorization.k8s.io", V1, "SubjectAccessReview", "subjectaccessreviews", Cluster),
    row("autoscaling", &["v2", "v1"], "HorizontalPodAutoscaler", "horizontalpodautoscalers", Namespaced),
    row("batch", &["v1", "v1beta1"], "CronJob", "cronjobs", Namespaced),
    row("batch", V1, "Job", "jobs", Namespaced),
    row("certificates.k8s.io", V1, "CertificateSigningRequest", "certificatesigningrequests", Cluster),
    row("certificates.k8s.io", &["v1beta1", "v1alpha1"], "ClusterTrustBundle", "clustertrustbundles", Cluster),
    row("coordination.k8s.io", V1, "Lease", "leases", Namespaced),
    row("discovery.k8s.io", V1, "EndpointSlice", "endpointslices", Namespaced),
    row("events.k8s.io", V1, "Event", "events", Namespaced),
    row("flowcontrol.apiserver.k8s.io", &["v1", "v1beta3"], "FlowSchema", "flowschemas", Cluster),
    row(
        "flowcontrol.apiserver.k8s.io",
        &["v1", "v1beta3"],
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        Cluster,
    ),
    row("kyverno.io", &["v2", "v2beta1"], "CleanupPolicy", "cleanuppolicies", Namespaced),
    row("kyverno.io", &["v2", "v2beta1"], "ClusterCleanupPolicy", "clustercleanuppolicies", Cluster),
    row("kyverno.io", &["v1", "v2beta1"], "ClusterPolicy", "clusterpolicies", Cluster),
    row("kyverno.io", &["v2beta1", "v2alpha1"], "GlobalContextEntry", "globalcontextentries", Cluster),
    row("kyverno.io", &["v1", "v2beta1"], "Policy", "policies", Namespaced),
    row("kyverno.io", &["v2", "v2beta1"], "PolicyException", "policyexceptions", Namespaced),
    row("kyverno.io", &["v2"], "UpdateRequest", "updaterequests", Namespaced),
    row("networking.k8s.io", V1, "IPAddress", "ipaddresses", Cluster),
    row("networking.k8s.io", &["v1", "v1beta1"], "Ingress", "ingresses", Namespaced),
    row("networking.k8s.io", &["v1", "v1beta1"], "IngressClass", "ingressclasses", Cluster),
    row("networking.k8s.io", V1, "NetworkPolicy", "networkpolicies", Namespaced),
    row("networking.k8s.io", V1, "ServiceCIDR", "servicecidrs", Cluster),
    row("node.k8s.io", V1, "RuntimeClass", "runtimeclasses", Cluster),
    row("policy", &["v1", "v1beta1"], "PodDisruptionBudget", "poddisruptionbudgets", Namespaced),
    row(RBAC, &["v1", "v1beta1"], "ClusterRole", "clusterroles", Cluster),
    row(RBAC, &["v1", "v1beta1"], "ClusterRoleBinding", "clusterrolebindings", Cluster),
    row(RBAC, &["v1", "v1beta1"], "Role", "roles", Namespaced),
    row(RBAC, &["v1", "v1beta1"], "RoleBinding", "rolebindings", Namespaced),
    row("resource.k8s.io", RESOURCE, "DeviceClass", "deviceclasses", Cluster),
    row("resource.k8s.io", RESOURCE, "ResourceClaim", "resourceclaims", Namespaced),
    row("resource.k8s.io", RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", Namespaced),
    row("resource.k8s.io", RESOURCE, "ResourceSlice", "resourceslices", Cluster),
    row("scheduling.k8s.io", V1, "PriorityClass", "priorityclasses", Cluster),
    row("storage.k8s.io", V1, "CSIDriver", "csidrivers", Cluster),
    row("storage.k8s.io", V1, "CSINode", "csinodes", Cluster),
    row("storage.k8s.io", V1, "CSIStorageCapacity", "csistoragecapacities", Namespaced),
    row("storage.k8s.io", V1, "StorageClass", "storageclasses", Cluster),
    row("storage.k8s.io", V1, "VolumeAttachment", "volumeattachments", Cluster),
    row("storage.k8s.io", &["v1", "v1beta1"], "VolumeAttributesClass", "volumeattributesclasses", Cluster),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_unique() {
        for pair in BUILTIN.windows(2) {
            assert!((pair[0].group, pair[0].kind) < (pair[1].group, pair[1].kind), "{:?}", pair[1]);
        }
    }

    #[test]
    fn plurals_follow_the_convention_except_where_they_do_not() {
        for row in BUILTIN.iter().filter(|row| row.kind != "Endpoints") {
            assert_eq!(guess_plural(row.kind), row.plural);
        }
        assert_eq!(guess_plural("Gateway"), "gateways");
        assert_eq!(guess_plural("HTTPRoute"), "httproutes");
    }

    #[test]
    fn scope_is_known_without_a_cluster() {
        let scope = |group, kind| find(group, kind).map(|row| row.scope);
        assert_eq!(scope("", "Namespace"), Some(Scope::Cluster));
        assert_eq!(scope("networking.k8s.io", "NetworkPolicy"), Some(Scope::Namespaced));
        assert_eq!(scope("", "NetworkPolicy"), None);
        assert_eq!(by_plural("", "endpoints").map(|row| row.kind), Some("Endpoints"));
        assert_eq!(named("Event").count(), 2);
    }
}
