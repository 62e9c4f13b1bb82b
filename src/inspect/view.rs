//! What callers read. The order of fields is the order in the body.

use std::rc::Rc;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::core::mesh::inbound::InboundRule;
use crate::core::mesh::matching::ProxyRule;
use crate::core::mesh::meta::ResourceMeta;
use crate::core::mesh::outbound::{MergedConf, RuleOrigin};
use crate::core::mesh::subset::{SubsetRule, SubsetTag};
use crate::core::mesh::target_ref::Pairs;

/// A body. Nothing that is shown can fail to be written.
pub(super) fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Meta<'m> {
    r#type: &'static str,
    mesh: &'m str,
    name: &'m str,
    labels: &'m Pairs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InspectRules<'m> {
    pub(super) resource: Meta<'m>,
    pub(super) rules: Vec<InspectRule<'m>>,
    pub(super) http_matches: Vec<HttpMatch<'m>>,
}

#[derive(Serialize)]
pub(super) struct HttpMatch<'m> {
    pub(super) hash: String,
    pub(super) r#match: &'m Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InspectRule<'m> {
    pub(super) r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) proxy_rule: Option<ProxyRuleView<'m>>,
    pub(super) to_rules: Vec<RuleView<'m>>,
    pub(super) to_resource_rules: Vec<ResourceRuleView<'m>>,
    pub(super) from_rules: Vec<FromRuleView<'m>>,
    pub(super) inbound_rules: Vec<InboundRulesView<'m>>,
    pub(super) warnings: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct ProxyRuleView<'m> {
    conf: &'m Value,
    origin: Vec<Meta<'m>>,
}

#[derive(Serialize)]
pub(super) struct RuleView<'m> {
    matchers: Vec<Matcher<'m>>,
    conf: &'m Value,
    origin: Vec<Meta<'m>>,
}

#[derive(Serialize)]
struct Matcher<'m> {
    key: &'m str,
    value: &'m str,
    not: bool,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceRuleView<'m> {
    pub(super) resource_meta: Meta<'m>,
    pub(super) resource_section_name: &'m str,
    pub(super) conf: Written,
    pub(super) origin: Written,
}

/// A part of a body that is written once and stands in many places.
#[derive(Clone)]
pub(super) struct Written(Rc<RawValue>);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OriginView<'m> {
    resource_meta: Meta<'m>,
    rule_index: usize,
}

#[derive(Serialize)]
pub(super) struct FromRuleView<'m> {
    pub(super) inbound: InboundView<'m>,
    pub(super) rules: Vec<RuleView<'m>>,
}

#[derive(Serialize)]
pub(super) struct InboundRulesView<'m> {
    pub(super) inbound: InboundView<'m>,
    pub(super) rules: Vec<InboundRuleView<'m>>,
}

#[derive(Clone, Serialize)]
pub(super) struct InboundView<'m> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) name: &'m str,
    pub(super) port: u32,
    /// Null for listeners of a zone proxy.
    pub(super) tags: Option<&'m Pairs>,
}

#[derive(Serialize)]
pub(super) struct InboundRuleView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<&'m Value>,
    conf: [&'m Value; 1],
    origin: [OriginView<'m>; 1],
}

#[derive(Clone, Serialize)]
pub(super) struct KriView {
    pub(super) kri: String,
}

impl<'m> ResourceRuleView<'m> {
    /// Rules are listed by name; of equal names by kind, section and key.
    pub(super) fn sort_key(&self) -> (&'m str, &'static str, &'m str, &'m Pairs) {
        let meta = &self.resource_meta;
        (meta.name, meta.r#type, self.resource_section_name, meta.labels)
    }
}

impl<'m> From<&'m ResourceMeta> for Meta<'m> {
    fn from(meta: &'m ResourceMeta) -> Self {
        Self { r#type: meta.kind.kind, mesh: &meta.mesh, name: &meta.name, labels: &meta.labels }
    }
}

impl<'m> From<&'m RuleOrigin> for OriginView<'m> {
    fn from(origin: &'m RuleOrigin) -> Self {
        Self { resource_meta: (&*origin.policy).into(), rule_index: origin.index }
    }
}

impl<'m> From<&'m ProxyRule> for ProxyRuleView<'m> {
    fn from(rule: &'m ProxyRule) -> Self {
        Self { conf: &rule.conf, origin: metas(&rule.origin) }
    }
}

impl<'m> From<&'m SubsetRule> for RuleView<'m> {
    fn from(rule: &'m SubsetRule) -> Self {
        let matcher = |tag: &'m SubsetTag| Matcher { key: &tag.key, value: &tag.value, not: tag.not };
        let matchers = rule.subset.iter().map(matcher).collect();
        Self { matchers, conf: &rule.conf, origin: metas(&rule.origin) }
    }
}

impl<'m> From<&'m InboundRule> for InboundRuleView<'m> {
    fn from(rule: &'m InboundRule) -> Self {
        Self { r#match: rule.matches.as_deref(), conf: [&*rule.conf], origin: [(&rule.origin).into()] }
    }
}

fn metas(origin: &[Arc<ResourceMeta>]) -> Vec<Meta<'_>> {
    origin.iter().map(|meta| (&**meta).into()).collect()
}

/// Conf and origin of a rule, as bodies show them.
pub(super) fn written(merged: &MergedConf) -> (Written, Written) {
    let origin: Vec<OriginView<'_>> = merged.origin.iter().map(Into::into).collect();
    (Written::new(&merged.conf), Written::new(&origin))
}

impl Written {
    fn new(part: &impl Serialize) -> Self {
        Self(to_raw_value(part).unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The KRIs of origins.
pub(super) fn kris<'m>(metas: impl IntoIterator<Item = &'m ResourceMeta>) -> Vec<KriView> {
    metas.into_iter().map(|meta| KriView { kri: meta.key().to_string() }).collect()
}
