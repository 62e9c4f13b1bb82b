//! The kinds of policy that select proxies by a `targetRef`, and the role a policy plays.

/// A kind of targetRef policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    HttpRoute,
    TcpRoute,
    Tls,
    LoadBalancingStrategy,
    Passthrough,
    AccessLog,
    Trace,
    FaultInjection,
    RateLimit,
    Timeout,
    TrafficPermission,
    HealthCheck,
    CircuitBreaker,
    Retry,
    Metric,
    ProxyPatch,
}

/// What a policy is for its namespace; a policy without the label is a system policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Written by the operators of the mesh.
    #[default]
    System,
    /// Written by the owner of a service for everybody who calls it.
    Producer,
    /// Written by a caller for its own calls.
    Consumer,
    /// Written by the owner of proxies for these proxies alone.
    WorkloadOwner,
}

impl PolicyKind {
    /// All kinds, in the order in which they are applied to a proxy.
    pub const ALL: [Self; 16] = [
        Self::HttpRoute,
        Self::TcpRoute,
        Self::Tls,
        Self::LoadBalancingStrategy,
        Self::Passthrough,
        Self::AccessLog,
        Self::Trace,
        Self::FaultInjection,
        Self::RateLimit,
        Self::Timeout,
        Self::TrafficPermission,
        Self::HealthCheck,
        Self::CircuitBreaker,
        Self::Retry,
        Self::Metric,
        Self::ProxyPatch,
    ];

    /// The name users write as `kind` or `type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::HttpRoute => "MeshHTTPRoute",
            Self::TcpRoute => "MeshTCPRoute",
            Self::Tls => "MeshTLS",
            Self::LoadBalancingStrategy => "MeshLoadBalancingStrategy",
            Self::Passthrough => "MeshPassthrough",
            Self::AccessLog => "MeshAccessLog",
            Self::Trace => "MeshTrace",
            Self::FaultInjection => "MeshFaultInjection",
            Self::RateLimit => "MeshRateLimit",
            Self::Timeout => "MeshTimeout",
            Self::TrafficPermission => "MeshTrafficPermission",
            Self::HealthCheck => "MeshHealthCheck",
            Self::CircuitBreaker => "MeshCircuitBreaker",
            Self::Retry => "MeshRetry",
            Self::Metric => "MeshMetric",
            Self::ProxyPatch => "MeshProxyPatch",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Role {
    pub const ALL: [Self; 4] = [Self::System, Self::Producer, Self::Consumer, Self::WorkloadOwner];

    /// The value of the label `kuma.io/policy-role`.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::WorkloadOwner => "workload-owner",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for kind in PolicyKind::ALL {
            assert_eq!(PolicyKind::parse(kind.name()), Some(kind));
        }
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(role));
        }
        assert_eq!(PolicyKind::parse("MeshService"), None);
    }

    #[test]
    fn routes_come_first_and_patches_of_the_finished_configuration_last() {
        assert!(PolicyKind::HttpRoute < PolicyKind::Timeout);
        assert!(PolicyKind::ALL.is_sorted());
        assert_eq!(PolicyKind::ALL.last(), Some(&PolicyKind::ProxyPatch));
    }
}
