//! Questions of access, as values: may this user do that?

use std::collections::BTreeMap;
use std::fmt;

/// Who wants to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// What else the authenticator says of the user; authorizers may decide by it.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// One verb on one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    pub verb: String,
    /// Empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    pub subresource: String,
    /// Empty for all namespaces, and for what is in none.
    pub namespace: String,
    /// Empty for all.
    pub name: String,
    /// A path that is no resource, such as `/version`; the fields of a resource are empty then.
    pub path: String,
}

impl Subject {
    /// A subject with the groups that every service account has; for any other name, none are known.
    pub fn account(user: impl Into<String>) -> Self {
        let user = user.into();
        let groups = match user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
            Some((namespace, _)) => vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            None => Vec::new(),
        };
        Self { user, groups, ..Self::default() }
    }
}

/// `secrets/status "a" in namespace b`
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        if !self.name.is_empty() {
            write!(f, " `{}`", self.name)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " in namespace `{}`", self.namespace)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_the_groups_of_accounts() {
        let account = Subject::account("system:serviceaccount:a:b");
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]);
        assert_eq!(Subject::account("jane").groups, [""; 0]);
    }

    #[test]
    fn what_is_asked_for_reads_as_people_say_it() {
        let access = Access {
            verb: "get".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "scale".into(),
            namespace: "a".into(),
            name: "web".into(),
            path: String::new(),
        };
        assert_eq!(access.to_string(), "deployments.apps/scale `web` in namespace `a`");
        assert_eq!(Access { resource: "nodes".into(), ..Access::default() }.to_string(), "nodes");
    }
}
