//! The role a policy plays.

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
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(role));
        }
    }
}
