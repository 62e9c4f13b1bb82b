//! MeshLoadBalancingStrategy.

use serde_json::Value;

use super::forms::{Conf, policy, to};
use crate::api::schema::{closed, duration, flag, int32, list, number_or_text, requiring, text, texts, with, word};

pub(super) fn spec() -> Value {
    let conf = closed(
        "How hosts are chosen.",
        [
            ("hashPolicies", hash_policies("What requests are told apart by, for balancers that hash.")),
            ("loadBalancer", load_balancer()),
            ("localityAwareness", locality_awareness()),
        ],
    );
    policy([to(conf, Conf::Optional)])
}

fn hash_policies(description: &str) -> Value {
    let filled = |description: &str| with(text(description), [("minLength", 1.into())]);
    let named = |description: &str, field: &'static str, what: &str| {
        requiring(closed(description, [(field, filled(what))]), &[field])
    };
    let cookie = closed(
        "A cookie.",
        [
            ("name", filled("Its name.")),
            ("ttl", duration("How long it lives when the proxy makes one.")),
            ("path", text("The path that it is for.")),
        ],
    );
    let types = ["Header", "Cookie", "Connection", "SourceIP", "QueryParameter", "FilterState"];
    let policy = closed(
        "One thing that requests are told apart by.",
        [
            ("type", word("Which of the others counts; SourceIP is an older name of Connection.", &types)),
            ("terminal", flag("Whether the rest of the list is left out when this gave something.")),
            ("header", named("A header.", "name", "Its name.")),
            ("cookie", requiring(cookie, &["name"])),
            ("connection", closed("The connection.", [("sourceIP", flag("Whether by the caller's address."))])),
            ("queryParameter", named("A parameter of the query.", "name", "Its name.")),
            ("filterState", named("A value in Envoy's filter state.", "key", "Its key.")),
        ],
    );
    list(description, requiring(policy, &["type"]))
}

fn load_balancer() -> Value {
    let size =
        |description: &str, most: u32| with(int32(description), [("minimum", 1.into()), ("maximum", most.into())]);
    let older = "Deprecated: use hashPolicies beside loadBalancer.";
    let least_request = closed(
        "Of some hosts at random the one with the fewest requests.",
        [
            ("choiceCount", with(int32("Of how many; 2 is usual."), [("minimum", 2.into())])),
            ("activeRequestBias", number_or_text("How much requests under way weigh; at least 0.")),
        ],
    );
    let ring_hash = closed(
        "By a ring of hashes.",
        [
            ("hashFunction", word("The function.", &["XXHash", "MurmurHash2"])),
            ("minRingSize", size("The smallest ring.", 8_000_000)),
            ("maxRingSize", size("The largest ring.", 8_000_000)),
            ("hashPolicies", hash_policies(older)),
        ],
    );
    let maglev = closed(
        "By a table of hashes.",
        [
            ("tableSize", size("The size of the table, a prime number.", 5_000_011)),
            ("hashPolicies", hash_policies(older)),
        ],
    );
    let types = ["RoundRobin", "LeastRequest", "RingHash", "Random", "Maglev"];
    let balancer = closed(
        "The balancer.",
        [
            ("type", word("Which of the others counts.", &types)),
            ("roundRobin", closed("One after the other.", [])),
            ("leastRequest", least_request),
            ("ringHash", ring_hash),
            ("random", closed("At random.", [])),
            ("maglev", maglev),
        ],
    );
    requiring(balancer, &["type"])
}

fn locality_awareness() -> Value {
    let tag = closed(
        "One tag.",
        [
            ("key", text("Hosts whose value is that of the caller are preferred.")),
            ("weight", int32("How much; above 0, for all tags or for none.")),
        ],
    );
    let local =
        closed("Inside the zone.", [("affinityTags", list("Tags that make a host near.", requiring(tag, &["key"])))]);
    closed(
        "Near hosts before far ones.",
        [("disabled", flag("Whether all hosts are alike.")), ("localZone", local), ("crossZone", cross_zone())],
    )
}

fn cross_zone() -> Value {
    let from = closed("The zones that the rule is for.", [("zones", texts("Their names."))]);
    let to = closed(
        "The zones that traffic goes to.",
        [
            ("type", word("How they are chosen.", &["None", "Only", "Any", "AnyExcept"])),
            ("zones", texts("Their names, with Only and AnyExcept.")),
        ],
    );
    let rule = closed("One rule.", [("from", requiring(from, &["zones"])), ("to", requiring(to, &["type"]))]);
    let threshold = closed(
        "When to go on to the next rule.",
        [("percentage", number_or_text("Below how many percent of live hosts; above 0, at most 100."))],
    );
    closed(
        "Between zones, when the own one has too few hosts.",
        [
            ("failover", list("Rules in the order in which they are tried.", requiring(rule, &["to"]))),
            ("failoverThreshold", requiring(threshold, &["percentage"])),
        ],
    )
}
