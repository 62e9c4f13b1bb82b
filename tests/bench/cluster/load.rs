//! The load: namespaces at a pace or as fast as they go, policies, and the bare client that writes the objects itself.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Config};
use serde_json::{Value, json};

use super::observer::ROUND;

/// The name of the objects that the rules make.
pub(super) const WRIT: &str = "generated";
/// The name of those that the bare client makes.
pub(super) const BARE: &str = "bare";
/// Requests at once; more do not make an API server on a small machine faster.
const AT_ONCE: usize = 16;

pub(super) struct Client {
    admin: kube::Client,
    /// Writes the objects of the bare client with the account of Writ: an administrator's requests are neither authorized nor
    /// queued, and no controller has that.
    writer: kube::Client,
}

/// A namespace, and when the API server said that it is stored.
pub(super) struct Timed {
    pub(super) name: String,
    pub(super) stored: Instant,
}

impl Client {
    pub(super) async fn connect(admin: &Path, account: &Path) -> anyhow::Result<Self> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Ok(Self { admin: client(admin).await?, writer: client(account).await? })
    }

    pub(super) fn kube(&self) -> kube::Client {
        self.admin.clone()
    }

    /// Gives the rules the rights that they need, as an administrator does.
    pub(super) async fn grant(&self) -> anyhow::Result<()> {
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": {"name": "bench", "labels": {"rbac.kyverno.io/aggregate-to-background-controller": "true"}},
            "rules": [
                {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": verbs},
                {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": verbs},
            ],
        }))?;
        Api::all(self.kube()).create(&PostParams::default(), &role).await?;
        let trial: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "trial"}}))?;
        let (api, params) =
            (Api::namespaced(self.writer.clone(), "default"), PostParams { dry_run: true, ..PostParams::default() });
        let mut tries = 0;
        while let Err(error) = api.create(&params, &trial).await {
            tries += 1;
            if tries == 100 {
                return Err(error).context("the rights do not count");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// A policy with two rules on the namespaces of a group; `round` is in what they write. The rights of [`Self::grant`] may
    /// take a moment to count.
    pub(super) async fn apply_policy(&self, group: &str, round: u32) -> anyhow::Result<()> {
        let api = self.policies();
        let policy = policy(group, round);
        let params = PatchParams::apply("bench").force();
        let mut tries = 0;
        while let Err(error) = api.patch(group, &params, &Patch::Apply(&policy)).await {
            tries += 1;
            if tries == 50 {
                return Err(error).context("applying the policy");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    pub(super) async fn policy_ready(&self, name: &str) -> anyhow::Result<()> {
        for _ in 0..300 {
            let policy = self.policies().get(name).await?;
            if policy.data.pointer("/status/conditions/0/status") == Some(&json!("True")) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("policy {name} does not become ready")
    }

    fn policies(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("kyverno.io", "v1", "ClusterPolicy");
        Api::all_with(self.kube(), &ApiResource::from_gvk_with_plural(&kind, "clusterpolicies"))
    }

    /// Namespaces that are there when the measurement begins.
    pub(super) async fn namespaces(&self, group: &str, count: usize) -> anyhow::Result<Vec<String>> {
        let created = self.create_saturated(group, group, count).await?;
        Ok(created.into_iter().map(|timed| timed.name).collect())
    }

    pub(super) async fn create_saturated(&self, group: &str, prefix: &str, count: usize) -> anyhow::Result<Vec<Timed>> {
        let creations = (0..count).map(|index| self.create_namespace(group, format!("{prefix}-{index}")));
        stream::iter(creations).buffered(AT_ONCE).try_collect().await
    }

    /// One after the other, each at its time, whether or not those before are stored.
    pub(super) async fn create_paced(
        &self,
        group: &str,
        prefix: &str,
        pace: u32,
        count: usize,
    ) -> anyhow::Result<Vec<Timed>> {
        let start = tokio::time::Instant::now();
        let creations = (0..count).map(|index| {
            let at = start + Duration::from_secs_f64(index as f64 / f64::from(pace));
            async move {
                tokio::time::sleep_until(at).await;
                self.create_namespace(group, format!("{prefix}-{index}")).await
            }
        });
        futures::future::try_join_all(creations).await
    }

    /// What Writ and the load do together, done by one client alone.
    pub(super) async fn create_with_objects(&self, group: &str, count: usize) -> anyhow::Result<Vec<Timed>> {
        let creations = (0..count).map(|index| async move {
            let timed = self.create_namespace(group, format!("{group}-{index}")).await?;
            self.write_both(&timed.name, BARE).await?;
            anyhow::Ok(timed)
        });
        stream::iter(creations).buffered(AT_ONCE).try_collect().await
    }

    /// Both objects in each namespace.
    pub(super) async fn write_objects(&self, namespaces: &[String], name: &str) -> anyhow::Result<()> {
        let writes = namespaces.iter().map(|namespace| self.write_both(namespace, name));
        stream::iter(writes).buffered(AT_ONCE).try_collect().await
    }

    async fn create_namespace(&self, group: &str, name: String) -> anyhow::Result<Timed> {
        let object: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"group": group}}}))?;
        Api::all(self.kube()).create(&PostParams::default(), &object).await?;
        Ok(Timed { name, stored: Instant::now() })
    }

    async fn write_both(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        // The labels that a rule writes, of the same length to the letter, under keys that Writ does not take for its own.
        let object = |body: Value, rule: &str| {
            let mut object = body;
            object["metadata"]["name"] = json!(name);
            object["metadata"]["namespace"] = json!(namespace);
            let labels = &mut object["metadata"]["labels"];
            labels["app.kubernetes.io/managed-as"] = json!("example");
            for (label, value) in [
                ("policy-name", "paced"),
                ("policy-namespace", ""),
                ("rule-name", rule),
                ("trigger-uid", "8f3c5c0e-6f2e-4c55-9f0e-5b1f1d0f7a11"),
                ("trigger-group", ""),
                ("trigger-version", "v1"),
                ("trigger-kind", "Namespace"),
                ("trigger-namespace", ""),
            ] {
                labels[format!("generate.example.io/{label}")] = json!(value);
            }
            object
        };
        let map: ConfigMap = serde_json::from_value(object(config_map(1), "settings"))?;
        Api::namespaced(self.writer.clone(), namespace).create(&PostParams::default(), &map).await?;
        let network: NetworkPolicy = serde_json::from_value(object(network_policy(1), "isolation"))?;
        Api::namespaced(self.writer.clone(), namespace).create(&PostParams::default(), &network).await?;
        Ok(())
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

fn config_map(round: u32) -> Value {
    json!({
        "metadata": {"labels": {ROUND: round.to_string()}},
        "data": {"endpoint": "https://registry.example", "round": round.to_string(), "zone": "a,b,c"},
    })
}

fn network_policy(round: u32) -> Value {
    json!({
        "metadata": {"labels": {ROUND: round.to_string()}},
        "spec": {"podSelector": {"matchLabels": {ROUND: round.to_string()}}, "policyTypes": ["Ingress", "Egress"]},
    })
}

fn policy(group: &str, round: u32) -> Value {
    let rule = |name: &str, api_version: &str, kind: &str, data: Value| {
        json!({
            "name": name,
            "match": {"any": [{"resources": {"kinds": ["Namespace"], "selector": {"matchLabels": {"group": group}}}}]},
            "generate": {
                "apiVersion": api_version, "kind": kind, "name": WRIT, "namespace": "{{request.object.metadata.name}}",
                "synchronize": true, "generateExisting": true, "data": data,
            },
        })
    };
    json!({
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": group},
        "spec": {"rules": [
            rule("settings", "v1", "ConfigMap", config_map(round)),
            rule("isolation", "networking.k8s.io/v1", "NetworkPolicy", network_policy(round)),
        ]},
    })
}
