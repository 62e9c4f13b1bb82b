//! The decision: match, then exclude, on the new object and then on the old one.

use serde_json::Value;

use super::filter::{Answer, Side};
use super::request::Candidate;
use super::{Block, Filter, Mismatch, NeedsNamespaceLabels, Outcome, Request, RuleMatch, Why};

impl RuleMatch {
    /// What this rule has to do with the request.
    pub fn decide<'a>(&'a self, request: &'a Request<'a>) -> Result<Outcome<'a>, NeedsNamespaceLabels> {
        let new = Candidate::new(request, request.object);
        let old = Candidate::new(request, request.old_object);
        if let Some(why) = self.outside(&new).or_else(|| self.outside(&old)) {
            return Ok(Outcome::NotApplicable(why));
        }
        let mut reason = None;
        for (candidate, outcome) in [(new, Outcome::Matches), (old, Outcome::MatchedOld)] {
            if let Some(candidate) = candidate {
                match self.refusal(&candidate)? {
                    None => return Ok(outcome),
                    // The object as it is now explains better than the one that was.
                    Some(why) => reason = reason.or(Some(why)),
                }
            }
        }
        Ok(Outcome::NotApplicable(reason.unwrap_or(Why::NoObject)))
    }

    /// Whether the rule is about such objects at all, by kind and, in a namespaced policy, by namespace.
    pub fn is_about(&self, request: &Request<'_>) -> bool {
        let candidates = [request.object, request.old_object].map(|object| Candidate::new(request, object));
        self.matching.kinds().any(|kind| kind.matches(&request.resource))
            && candidates.iter().all(|candidate| self.outside(candidate).is_none())
    }

    /// Whether an object of this resource matches, whatever was there before.
    pub fn matches<'a>(&'a self, request: &'a Request<'a>, object: &'a Value) -> Result<bool, NeedsNamespaceLabels> {
        match Candidate::new(request, Some(object)) {
            Some(candidate) if self.outside(&Some(candidate)).is_none() => Ok(self.refusal(&candidate)?.is_none()),
            _ => Ok(false),
        }
    }

    fn outside<'a>(&'a self, candidate: &Option<Candidate<'a>>) -> Option<Why<'a>> {
        let (policy, object) = (self.policy_namespace.as_deref()?, candidate.as_ref()?.namespace());
        (policy != object).then_some(Why::OtherNamespace { policy, object })
    }

    fn refusal<'a>(&'a self, candidate: &Candidate<'a>) -> Result<Option<Why<'a>>, NeedsNamespaceLabels> {
        if let Some(mismatch) = self.matching.mismatch(candidate)? {
            return Ok(Some(Why::NotMatched(mismatch)));
        }
        match &self.exclude {
            Some(exclude) => Ok(exclude.hit(candidate)?.map(Why::Excluded)),
            None => Ok(None),
        }
    }
}

impl Block {
    /// Whether an exception with this block is for the object, or, where there is none any more, for the old one.
    pub fn excepts<'a>(&'a self, request: &'a Request<'a>) -> Result<bool, NeedsNamespaceLabels> {
        let candidate = Candidate::new(request, request.object).or_else(|| Candidate::new(request, request.old_object));
        match candidate {
            Some(candidate) => Ok(self.hit(&candidate)?.is_some()),
            None => Ok(false),
        }
    }

    /// Why a match block does not accept the object. A look-up is asked for only where it could change the answer.
    fn mismatch<'a>(&'a self, candidate: &Candidate<'a>) -> Result<Option<Mismatch<'a>>, NeedsNamespaceLabels> {
        let mut needs = None;
        let mut closest: Option<Mismatch<'a>> = None;
        for filter in self.filters() {
            match (self, filter.test(candidate, Side::Match)) {
                (Self::Any(_), Answer::Accepts) => return Ok(None),
                (Self::Any(_), Answer::Refuses(mismatch)) => {
                    if closest.as_ref().is_none_or(|closest| closest.depth() < mismatch.depth()) {
                        closest = Some(mismatch);
                    }
                }
                (Self::All(_), Answer::Accepts) => {}
                (Self::All(_), Answer::Refuses(mismatch)) => return Ok(Some(mismatch)),
                (_, Answer::Needs(labels)) => needs = needs.or(Some(labels)),
            }
        }
        match (needs, self) {
            (Some(labels), _) => Err(labels),
            (None, Self::All(filters)) if !filters.is_empty() => Ok(None),
            (None, _) => Ok(Some(closest.unwrap_or(Mismatch::Empty))),
        }
    }

    /// The filters of a block that take the object out.
    fn hit<'a>(&'a self, candidate: &Candidate<'a>) -> Result<Option<&'a [Filter]>, NeedsNamespaceLabels> {
        let mut needs = None;
        for (index, filter) in self.filters().iter().enumerate() {
            match (self, filter.test(candidate, Side::Exclude)) {
                (Self::Any(filters), Answer::Accepts) => return Ok(Some(&filters[index..=index])),
                (Self::All(_), Answer::Refuses(_)) => return Ok(None),
                (_, Answer::Needs(labels)) => needs = needs.or(Some(labels)),
                _ => {}
            }
        }
        match (needs, self) {
            (Some(labels), _) => Err(labels),
            (None, Self::All(filters)) if !filters.is_empty() => Ok(Some(filters)),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{Operation, Requester, Resource, Scope};
    use super::*;
    use crate::core::problem::FieldPath;

    const POD: Resource<'_> = Resource { group: "", version: "v1", kind: "Pod", subresource: "" };
    const NAMESPACE: Resource<'_> = Resource { kind: "Namespace", ..POD };

    #[track_caller]
    fn compile(matching: Value, exclude: Value, policy_namespace: Option<&str>) -> RuleMatch {
        let mut problems = Vec::new();
        let scope = Scope { policy_namespace, is_namespaced: &|_| None };
        let rule = RuleMatch::parse(&matching, &exclude, scope, &FieldPath::root(), &mut problems);
        rule.unwrap_or_else(|| panic!("{problems:?}"))
    }

    fn rule(matching: Value) -> RuleMatch {
        compile(matching, Value::Null, None)
    }

    fn pod() -> Value {
        json!({"kind": "Pod", "metadata": {
            "name": "web-1", "namespace": "team-a",
            "labels": {"app": "web"}, "annotations": {"note/a": "yes", "other": "no"},
        }})
    }

    fn request<'a>(resource: Resource<'a>, object: Option<&'a Value>) -> Request<'a> {
        Request {
            resource,
            operation: Some(Operation::Create),
            namespace: "",
            object,
            old_object: None,
            requester: None,
            namespace_labels: None,
        }
    }

    /// The outcome as text: `matches`, `matched old`, or why not.
    fn decide(rule: &RuleMatch, request: &Request<'_>) -> String {
        match rule.decide(request) {
            Ok(Outcome::Matches) => "matches".into(),
            Ok(Outcome::MatchedOld) => "matched old".into(),
            Ok(Outcome::NotApplicable(why)) => why.to_string(),
            Err(needs) => needs.to_string(),
        }
    }

    #[test]
    fn attributes_are_tested_and_the_first_failure_is_named() {
        #[track_caller]
        fn check(resources: Value, expected: &str) {
            let mut resources = resources;
            resources.as_object_mut().unwrap().entry("kinds").or_insert(json!(["Pod"]));
            let rule = rule(json!({"any": [{"resources": resources}]}));
            assert_eq!(decide(&rule, &request(POD, Some(&pod()))), expected);
        }
        check(json!({}), "matches");
        check(json!({"kinds": ["ConfigMap"]}), "kind Pod is not ConfigMap");
        check(json!({"kinds": ["ConfigMap", "Pod/status"]}), "kind Pod is not one of ConfigMap, Pod/status");
        check(json!({"name": "web-*"}), "matches");
        check(json!({"name": "prod-*"}), "name \"web-1\" does not match \"prod-*\"");
        check(json!({"names": ["a", "b"]}), "name \"web-1\" does not match one of \"a\", \"b\"");
        check(json!({"namespaces": ["x", "team-?"]}), "matches");
        check(json!({"namespaces": ["x"]}), "namespace \"team-a\" does not match \"x\"");
        check(json!({"annotations": {"note/*": "y*", "*": "no"}}), "matches");
        check(json!({"annotations": {"note/a": "no"}}), "no annotation matches \"note/a\": \"no\"");
        check(json!({"selector": {"matchLabels": {"a*": "web"}}}), "matches");
        check(json!({"selector": {"matchLabels": {"app": "db"}}}), "the labels do not satisfy app=db");
        check(json!({"operations": ["CREATE"]}), "matches");
        check(json!({"operations": ["UPDATE", "DELETE"]}), "operation CREATE is not one of UPDATE, DELETE");
    }

    #[test]
    fn a_generated_name_stands_in_for_a_name() {
        let object = json!({"metadata": {"generateName": "web-"}});
        let rule = rule(json!({"resources": {"kinds": ["Pod"], "name": "web-*"}}));
        assert_eq!(decide(&rule, &request(POD, Some(&object))), "matches");
    }

    #[test]
    fn the_namespace_of_the_request_stands_in_for_that_of_a_payload() {
        let (object, namespace) = (json!({"kind": "PodExecOptions"}), json!({"metadata": {"name": "team-a"}}));
        let rule = rule(json!({"resources": {"kinds": ["Pod/exec", "Namespace"], "namespaces": ["team-a"]}}));
        let exec = Request { namespace: "team-a", ..request(Resource { subresource: "exec", ..POD }, Some(&object)) };
        assert_eq!(decide(&rule, &exec), "matches");
        assert_eq!(decide(&rule, &Request { namespace: "x", ..exec }), "namespace \"x\" does not match \"team-a\"");
        assert_eq!(decide(&rule, &Request { namespace: "x", ..request(NAMESPACE, Some(&namespace)) }), "matches");
    }

    #[test]
    fn filters_combine() {
        let object = pod();
        let request = request(POD, Some(&object));
        let filter = |name: &str| json!({"resources": {"kinds": ["Pod"], "name": name}});
        let other = json!({"resources": {"kinds": ["Secret"]}});
        let decide = |matching: Value, exclude: Value| decide(&compile(matching, exclude, None), &request);
        let closest = "name \"web-1\" does not match \"a\"";
        assert_eq!(decide(json!({"any": [filter("a"), filter("web-1")]}), json!(null)), "matches");
        assert_eq!(decide(json!({"any": [other, filter("a")]}), json!(null)), closest);
        assert_eq!(decide(json!({"all": [filter("w*"), filter("*1")]}), json!(null)), "matches");
        assert_eq!(decide(json!({"all": [filter("w*"), filter("a")]}), json!(null)), closest);
        let all = json!({"resources": {"kinds": ["Pod"]}});
        let excluded = "excluded by kind Pod, name \"web-1\"";
        assert_eq!(decide(all.clone(), json!({"any": [filter("a"), filter("web-1")]})), excluded);
        assert_eq!(decide(all.clone(), filter("web-1")), excluded);
        assert_eq!(decide(all.clone(), json!({"all": [filter("web-1"), filter("a")]})), "matches");
        assert_eq!(
            decide(all.clone(), json!({"all": [filter("web-1"), filter("w*")]})),
            "excluded by kind Pod, name \"web-1\" and kind Pod, name \"w*\""
        );
        assert_eq!(decide(all.clone(), json!({"any": [{"resources": {}}]})), "matches");
        assert_eq!(decide(all, json!({"any": []})), "matches");
    }

    #[test]
    fn requesters() {
        let object = pod();
        let jane = Requester {
            username: "system:serviceaccount:kyverno-x:bot".into(),
            groups: vec!["devs".into()],
            roles: ["team-a:editor".to_owned()].into(),
            cluster_roles: ["view".to_owned()].into(),
        };
        let asked = Request { requester: Some(&jane), ..request(POD, Some(&object)) };
        let unasked = request(POD, Some(&object));
        let check = |criteria: Value, expected: &str| {
            let mut filter = json!({"resources": {"kinds": ["Pod"]}});
            filter.as_object_mut().unwrap().extend(criteria.as_object().unwrap().clone());
            assert_eq!(decide(&rule(json!({"any": [filter]})), &asked), expected);
            // Nobody asked: the match goes by the object, the exclude does not apply.
            assert_eq!(decide(&rule(json!({"any": [filter]})), &unasked), "matches");
            let exclude = compile(json!({"resources": {"kinds": ["P*"]}}), json!({"any": [criteria]}), None);
            assert_eq!(decide(&exclude, &asked) == "matches", expected != "matches");
            assert_eq!(decide(&exclude, &unasked), "matches");
        };
        let subject =
            |kind: &str, name: &str| json!({"subjects": [{"kind": kind, "name": name, "namespace": "kyverno*"}]});
        check(subject("ServiceAccount", "bot"), "matches");
        check(subject("ServiceAccount", "other"), "the requester is none of the subjects");
        check(subject("User", "system:serviceaccount:*:bot"), "matches");
        check(subject("Group", "d?vs"), "matches");
        check(subject("Group", "ops"), "the requester is none of the subjects");
        check(json!({"roles": ["a:b", "team-a:editor"]}), "matches");
        check(json!({"roles": ["team-a:*"]}), "the requester has none of the roles");
        check(json!({"clusterRoles": ["view"]}), "matches");
        check(json!({"clusterRoles": ["view"], "roles": ["a:b"]}), "the requester has none of the roles");
        check(json!({"clusterRoles": ["edit"]}), "the requester has none of the cluster roles");
    }

    #[test]
    fn without_a_request_no_operation_fits() {
        let object = pod();
        let rule = rule(json!({"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}));
        let request = Request { operation: None, ..request(POD, Some(&object)) };
        assert_eq!(decide(&rule, &request), "there is no request whose operation could be CREATE");
    }

    #[test]
    fn namespace_labels_are_asked_for_where_they_matter() {
        let (object, cluster) = (pod(), json!({"metadata": {"name": "x"}}));
        let selecting = json!({"resources": {"kinds": ["*d*"], "namespaceSelector": {"matchLabels": {"env": "prod"}}}});
        let (prod, test) = (
            BTreeMap::from([("env".to_owned(), "prod".to_owned())]),
            BTreeMap::from([("env".to_owned(), "test".to_owned())]),
        );
        let blind = request(POD, Some(&object));
        let with = |labels| Request { namespace_labels: Some(labels), ..blind };
        let simple = rule(selecting.clone());
        assert_eq!(simple.decide(&blind), Err(NeedsNamespaceLabels { namespace: "team-a".into() }));
        assert_eq!(decide(&simple, &with(&prod)), "matches");
        assert_eq!(decide(&simple, &with(&test)), "the labels of namespace \"team-a\" do not satisfy env=prod");
        let node = Resource { kind: "Node", ..POD };
        let outside = "an object without namespace does not satisfy namespaceSelector env=prod";
        assert_eq!(decide(&simple, &request(node, Some(&cluster))), outside);
        let namespaces =
            json!({"resources": {"kinds": ["Namespace"], "namespaceSelector": {"matchLabels": {"env": "prod"}}}});
        let itself = "a Namespace never matches a namespaceSelector";
        assert_eq!(decide(&rule(namespaces), &request(NAMESPACE, Some(&cluster))), itself);

        let named = |name: &str| json!({"resources": {"kinds": ["Pod"], "name": name}});
        assert_eq!(decide(&rule(json!({"any": [selecting, named("web-1")]})), &blind), "matches");
        assert!(rule(json!({"any": [selecting, named("a")]})).decide(&blind).is_err());
        assert!(rule(json!({"all": [selecting, named("a")]})).decide(&blind).is_ok());
        assert!(rule(json!({"all": [selecting, named("web-1")]})).decide(&blind).is_err());
        let excluding = |matching: Value| compile(matching, json!({"any": [selecting]}), None);
        assert!(excluding(named("web-1")).decide(&blind).is_err());
        assert!(excluding(named("a")).decide(&blind).is_ok());
        let excluded = "excluded by kind *d*, namespace labels env=prod";
        assert_eq!(decide(&excluding(named("web-1")), &with(&prod)), excluded);
    }

    #[test]
    fn exceptions_go_by_the_object_and_what_is_known_of_the_requester() {
        let (object, jane) = (pod(), Requester { username: "jane".into(), ..Requester::default() });
        let asked = Request { requester: Some(&jane), ..request(POD, Some(&object)) };
        let unasked = Request { operation: None, ..request(POD, Some(&object)) };
        let check = |matching: Value, with_request: bool, without: bool| {
            let mut problems = Vec::new();
            let block = Block::parse_exception(&matching, &FieldPath::root(), &mut problems);
            let block = block.unwrap_or_else(|| panic!("{problems:?}"));
            assert_eq!((block.excepts(&asked), block.excepts(&unasked)), (Ok(with_request), Ok(without)), "{matching}");
        };
        let pods = json!({"resources": {"kinds": ["Pod"], "names": ["web-*"]}});
        let others = json!({"resources": {"kinds": ["Secret"]}});
        let hers = json!({"resources": {"kinds": ["Pod"]}, "subjects": [{"kind": "User", "name": "jane"}]});
        check(json!({"any": [others, pods]}), true, true);
        check(json!({"all": [others, pods]}), false, false);
        check(json!({"any": [{"resources": {"kinds": ["*"]}}]}), true, true);
        check(json!({"any": [{"resources": {"namespaces": ["team-*"]}}]}), true, true);
        // Nobody known has asked: an exception for somebody must not become one for everybody.
        check(json!({"any": [hers]}), true, false);
        check(json!({"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}]}), true, false);
    }

    #[test]
    fn an_exception_goes_by_the_old_object_only_if_there_is_no_new_one() {
        let (fits, fails) = (pod(), json!({"metadata": {"name": "a"}}));
        let matching = json!({"any": [{"resources": {"kinds": ["Pod"], "names": ["web-1"]}}]});
        let block = Block::parse_exception(&matching, &FieldPath::root(), &mut Vec::new()).expect("a block");
        let excepts = |object, old_object| block.excepts(&Request { old_object, ..request(POD, object) });
        assert_eq!(excepts(None, Some(&fits)), Ok(true));
        assert_eq!(excepts(Some(&fails), Some(&fits)), Ok(false));
        assert_eq!(excepts(None, None), Ok(false));
    }

    #[test]
    fn a_namespaced_policy_sees_its_own_namespace() {
        let (object, node) = (pod(), json!({"metadata": {"name": "n"}}));
        let rule = |namespace| compile(json!({"resources": {"kinds": ["Pod", "Node"]}}), json!(null), Some(namespace));
        assert_eq!(decide(&rule("team-a"), &request(POD, Some(&object))), "matches");
        assert_eq!(
            decide(&rule("other"), &request(POD, Some(&object))),
            "the policy is for namespace \"other\", the object is in \"team-a\""
        );
        let node = request(Resource { kind: "Node", ..POD }, Some(&node));
        assert_eq!(decide(&rule("other"), &node), "the policy is for namespace \"other\", the object is in none");
    }

    #[test]
    fn the_old_object_counts_where_the_new_one_fails() {
        let rule = rule(json!({"resources": {"kinds": ["Pod"], "selector": {"matchLabels": {"app": "web"}}}}));
        let (fits, fails, empty) = (pod(), json!({"metadata": {"name": "a"}}), json!({}));
        let decide = |object, old_object| decide(&rule, &Request { old_object, ..request(POD, object) });
        assert_eq!(decide(Some(&fits), Some(&fails)), "matches");
        assert_eq!(decide(Some(&fails), Some(&fits)), "matched old");
        assert_eq!(decide(None, Some(&fits)), "matched old");
        assert_eq!(decide(Some(&empty), Some(&fits)), "matched old");
        assert_eq!(decide(Some(&fails), Some(&fails)), "the labels do not satisfy app=web");
        assert_eq!(decide(None, None), "there is no object");
        assert_eq!(rule.matches(&request(POD, None), &fits), Ok(true));
        assert_eq!(rule.matches(&request(POD, None), &fails), Ok(false));
    }
}
