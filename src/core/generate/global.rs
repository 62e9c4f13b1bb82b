//! Global context entries: data that is kept at hand for all rules, under a name.

use std::time::Duration;

use serde_json::Value;

use crate::core::expr::{Expression, Runtime};

use super::bounds::InstallBounds;
use super::context::{Call, decode};
use super::evaluate::{Panicked, guarded};
use super::facts::Answer;
use super::fetch::{Fetch, GlobalFetch};
use super::gate::{Gate, Outbound, Reach, Refusal};

/// One entry.
#[derive(Clone)]
pub struct GlobalEntry {
    pub name: String,
    pub source: GlobalSource,
    pub projections: Vec<(String, Expression)>,
}

/// Where the data comes from.
#[derive(Clone)]
pub enum GlobalSource {
    Resource(GlobalResource),
    Poll(GlobalPoll),
}

/// All objects of a resource, as a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalResource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// The plural name.
    pub resource: String,
    /// Everywhere if there is none.
    pub namespace: Option<String>,
}

/// What a call answers, asked again and again.
#[derive(Clone)]
pub struct GlobalPoll {
    pub call: Call,
    pub every: Duration,
    /// How often a call that fails is tried again before the entry counts as failed.
    pub retries: u32,
}

impl GlobalEntry {
    /// Whether a policy may see the entry: the gate of that policy is asked about what the entry holds.
    pub fn check_reach(&self, fetch: &GlobalFetch, bounds: &InstallBounds) -> Result<(), Refusal> {
        // Which hosts may be called concerns whoever fills the entry, not who reads it.
        let bounds = bounds.clone().with_outbound(Outbound::any());
        let gate = Gate::new(&fetch.reach, &bounds);
        match &self.source {
            GlobalSource::Resource(GlobalResource { group, resource, namespace, .. }) => {
                gate.resource(group, resource, namespace.as_deref())
            }
            GlobalSource::Poll(poll) => poll.call.fetch(&gate, &poll.call.written()).map(drop),
        }
    }

    /// The data, or what a projection makes of it.
    pub fn view(&self, data: &Value, projection: Option<&str>, runtime: &Runtime) -> Result<Value, String> {
        let Some(name) = projection else { return Ok(data.clone()) };
        let found = self.projections.iter().find(|(known, _)| known == name);
        let (_, expression) = found.ok_or_else(|| format!("it has no projection `{name}`"))?;
        match guarded(|| expression.search_json(data, runtime)) {
            Ok(found) => found.map_err(|error| format!("projection `{name}`: {error}")),
            Err(Panicked) => Err(format!("projection `{name}`: the evaluation panicked; this is a bug in Writ")),
        }
    }
}

impl GlobalPoll {
    /// What to ask, if it passes the gate. An entry has no variables: what its author was asked about is what it calls.
    pub fn fetch(&self, bounds: &InstallBounds) -> Result<Fetch, Refusal> {
        self.call.fetch(&Gate::new(&Reach::Cluster, bounds), &self.call.written())
    }

    /// The data in an answer to it.
    pub fn data(fetch: &Fetch, answer: &Answer) -> Result<Value, String> {
        match (answer, fetch) {
            (Answer::Found(text), Fetch::Service(_)) => decode(text).map_err(|reason| format!("{fetch}: {reason}")),
            (Answer::Found(found), _) => Ok(Value::clone(found)),
            (Answer::Absent, _) => Err(format!("{fetch} not found")),
            (Answer::Failed(reason), _) => Err(format!("{fetch}: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn entry(source: GlobalSource) -> GlobalEntry {
        let projection = |name: &str, text: &str| (name.to_owned(), Expression::compile(text).expect(text));
        let projections = vec![projection("names", "[].metadata.name"), projection("bad", "missing.key")];
        GlobalEntry { name: "e".to_owned(), source, projections }
    }

    fn resource(namespace: Option<&str>) -> GlobalSource {
        let (group, version, resource) = (String::new(), "v1".to_owned(), "pods".to_owned());
        GlobalSource::Resource(GlobalResource { group, version, resource, namespace: namespace.map(str::to_owned) })
    }

    fn poll(call: Value) -> GlobalSource {
        let call = Call::read(&call).expect("a call");
        GlobalSource::Poll(GlobalPoll { call, every: Duration::from_secs(1), retries: 0 })
    }

    fn asked(name: &str, reach: &Reach) -> GlobalFetch {
        match Gate::new(reach, &InstallBounds::offline()).global(name) {
            Fetch::Global(fetch) => fetch,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_policy_of_a_namespace_sees_what_lies_there() {
        let home = asked("e", &Reach::Namespace("a".to_owned()));
        let bounds = InstallBounds::of_cluster(Arc::default(), "writ-system");
        for source in [resource(Some("a")), poll(json!({"urlPath": "/api/v1/namespaces/a/pods"}))] {
            assert!(entry(source).check_reach(&home, &bounds).is_ok());
        }
        for source in [
            resource(None),
            resource(Some("b")),
            poll(json!({"urlPath": "/api/v1/pods"})),
            poll(json!({"urlPath": "/api/v1/namespaces/b/pods"})),
            poll(json!({"service": {"url": "http://a.a.svc"}})),
        ] {
            assert!(entry(source.clone()).check_reach(&home, &bounds).is_err());
            assert!(entry(source).check_reach(&asked("e", &Reach::Cluster), &bounds).is_ok());
        }
    }

    #[test]
    fn an_entry_holds_nothing_of_the_install() {
        let bounds = InstallBounds::of_cluster(Arc::default(), "writ-system");
        for source in
            [resource(Some("writ-system")), poll(json!({"urlPath": "/api/v1/namespaces/writ-system/secrets"}))]
        {
            let refused = entry(source).check_reach(&asked("e", &Reach::Cluster), &bounds);
            assert!(matches!(refused, Err(Refusal::OwnNamespace { .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_name_may_end_in_a_projection() {
        let fetch = asked("a.b.c", &Reach::Cluster);
        let readings: Vec<_> = fetch.readings().collect();
        assert_eq!(readings, [("a.b.c", None), ("a.b", Some("c")), ("a", Some("b.c"))]);
    }

    #[test]
    fn projections_look_at_the_data() {
        let runtime = Runtime::new(Timestamp::UNIX_EPOCH, 0);
        let data = json!([{"metadata": {"name": "x"}}]);
        let entry = entry(resource(None));
        assert_eq!(entry.view(&data, None, &runtime), Ok(data.clone()));
        assert_eq!(entry.view(&data, Some("names"), &runtime), Ok(json!(["x"])));
        assert_eq!(entry.view(&data, Some("other"), &runtime), Err("it has no projection `other`".to_owned()));
        assert!(entry.view(&json!({}), Some("bad"), &runtime).is_err());
    }
}
