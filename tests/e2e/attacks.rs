//! Attacks: what somebody tries with the permissions that he has, and what must not come of it.
//!
//! One attack is one row ([`Attack`]). [`run`] gives every row a tenant of its own: a user without any permission but those
//! of the row, a namespace, and a victim's namespace with a Secret. Writ itself may do everything on this cluster, so
//! nothing but its own checks stands between the tenant and the cluster.
//!
//! In all texts of a row `NS` is the tenant's namespace, `VICTIM` the other one, `UNIQUE` a name for cluster-scoped objects
//! (`UNIQUE` and `UNIQUE-…` are deleted at the end), `TENANT` the user, and `MARKER` the value of the Secret
//! `VICTIM/secret`. Objects name their namespace. The marker must show nowhere: not in answers, events, logs, metrics or stored requests; [`run`] looks for it after each row.

mod author;
mod edge;
mod leak;
mod life;
mod scope;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::{Answer, ControlPlane, Kubectl, Namespace, Writ, eventually, skipped, unique};

const SOON: Duration = Duration::from_secs(15);
/// Rows that are tried at once.
const CONCURRENT: usize = 4;

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// What the tenant may do in its own namespace: `create,update policies.kyverno.io`, one resource each; `* *.*` is
    /// everything.
    pub(crate) may: &'static [&'static str],
    /// What the tenant may do everywhere, in the same form.
    pub(crate) may_everywhere: &'static [&'static str],
    /// Applied by the admin before.
    pub(crate) setup: &'static str,
    /// Applied by the tenant; an empty text is skipped.
    pub(crate) attempt: &'static str,
    /// Texts that the rejection of the attempt holds; none if the attempt is admitted.
    pub(crate) rejected: &'static [&'static str],
    /// Applied by the admin afterwards, as the trigger of what was admitted.
    pub(crate) trigger: &'static str,
    /// Objects that must not exist when the trigger has been worked on: `KIND NAMESPACE/NAME` or `KIND NAME`.
    pub(crate) never: &'static [&'static str],
    /// Objects that must exist all the same, in the same form.
    pub(crate) still: &'static [&'static str],
}

/// A row that says nothing; rows are written as differences from it.
pub(crate) const ATTACK: Attack = Attack {
    name: "",
    may: &[],
    may_everywhere: &[],
    setup: "",
    attempt: "",
    rejected: &[],
    trigger: "",
    never: &[],
    still: &[],
};

/// What every author of namespaced policies may do with policies.
pub(crate) const WRITE_POLICIES: &str = "get,create,update,patch,delete policies.kyverno.io";
/// What every author of cluster-wide policies may do with policies.
pub(crate) const WRITE_CLUSTER_POLICIES: &str = "get,create,update,patch,delete clusterpolicies.kyverno.io";

/// A control plane with a Writ that may do everything.
pub(crate) struct Field {
    pub(crate) cluster: ControlPlane,
    pub(crate) writ: Writ,
}

const EVERYTHING: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: attacks, labels: {rbac.writ.dev/aggregate: "true"}}
rules:
  - {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
  - {nonResourceURLs: ["*"], verbs: ["*"]}
"#;

/// Work that is done after all earlier work is seen done: nothing is left that could still make an object.
const FENCE: &str = r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: attacks-fence}
spec:
  rules:
    - name: fence
      match: {any: [{resources: {kinds: [ConfigMap], names: ["fence-*"]}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: "done-{{request.object.metadata.name}}"
        namespace: "{{request.object.metadata.namespace}}"
        data: {data: {done: "yes"}}
"#;

/// The control plane of all attacks; nothing if cluster tests are skipped.
pub(crate) fn field() -> Option<&'static Field> {
    static FIELD: OnceLock<Field> = OnceLock::new();
    if skipped() {
        return None;
    }
    Some(FIELD.get_or_init(|| {
        let cluster = ControlPlane::start_at(&std::env::temp_dir().join(unique("writ-attacks")));
        let writ = Writ::start(&cluster, &[]);
        cluster.kubectl(["apply", "-f", "-"]).stdin(EVERYTHING).ok();
        eventually(SOON, "the permissions of Writ", || {
            let account = "--as=system:serviceaccount:writ-system:writ";
            let answer = cluster.kubectl(["auth", "can-i", "*", "*", "--all-namespaces", account]).run();
            if answer.success { Ok(()) } else { Err(answer.stdout) }
        });
        eventually(SOON, "the fence", || {
            let answer = cluster.kubectl(["apply", "-f", "-"]).stdin(FENCE).run();
            if answer.success { Ok(()) } else { Err(answer.stderr) }
        });
        Field { cluster, writ }
    }))
}

/// Tries all rows, and fails with those that did what they must not.
#[track_caller]
pub(crate) fn run(attacks: &[Attack]) {
    let Some(field) = field() else { return };
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENT.min(attacks.len()) {
            scope.spawn(|| {
                while let Some(attack) = attacks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = std::panic::catch_unwind(|| Tenant::new(field, attack).try_out(attack));
                    let failure = match tried {
                        Ok(Ok(())) => continue,
                        Ok(Err(failure)) => failure,
                        Err(panic) => {
                            panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".to_owned())
                        }
                    };
                    failures.lock().expect("nothing panics here").push(format!("{}: {failure}", attack.name));
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nothing panics here");
    assert!(failures.is_empty(), "{} attacks succeeded:\n{}", failures.len(), failures.join("\n"));
}

/// Somebody with few permissions, and what he works with.
pub(crate) struct Tenant<'f> {
    field: &'f Field,
    own: Namespace<'f>,
    victim: Namespace<'f>,
    pub(crate) user: String,
    unique: String,
    marker: String,
    /// Everything that the tenant was answered.
    answers: Mutex<String>,
}

impl<'f> Tenant<'f> {
    fn new(field: &'f Field, attack: &Attack) -> Self {
        let tenant = Self {
            own: field.cluster.namespace("tenant"),
            victim: field.cluster.namespace("victim"),
            user: unique("tenant"),
            unique: unique("attack"),
            marker: unique("hidden-marker"),
            answers: Mutex::default(),
            field,
        };
        tenant.admin(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: secret, namespace: VICTIM}\nstringData: {key: MARKER}",
        );
        tenant.grant("Role", attack.may);
        tenant.grant("ClusterRole", attack.may_everywhere);
        tenant
    }

    /// What a text of a row means for this tenant.
    pub(crate) fn fill(&self, text: &str) -> String {
        [
            ("NS", &self.own.name),
            ("VICTIM", &self.victim.name),
            ("UNIQUE", &self.unique),
            ("TENANT", &self.user),
            ("MARKER", &self.marker),
        ]
        .iter()
        .fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// kubectl as the tenant.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Kubectl {
        let user = format!("--as={}", self.user);
        self.field.cluster.kubectl([user.as_str(), "--as-group=system:authenticated"].iter().chain(arguments))
    }

    /// Applies objects as the admin, as soon as what they need is there.
    #[track_caller]
    pub(crate) fn admin(&self, text: &str) {
        let text = self.fill(text);
        eventually(SOON, "the admin's objects", || {
            let answer = self.field.cluster.kubectl(["apply", "-f", "-"]).stdin(&text).run();
            self.own_cluster_scoped(&answer.stdout);
            if answer.success { Ok(()) } else { Err(answer.stderr) }
        });
    }

    fn grant(&self, kind: &str, permissions: &[&str]) {
        if permissions.is_empty() {
            return;
        }
        let mut rules = String::new();
        for permission in permissions {
            let (verbs, resource) = permission.split_once(' ').expect("verbs and a resource");
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let verbs = verbs.replace(',', "\", \"");
            rules += &format!("  - {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verbs}\"]}}\n");
        }
        let binding = format!("{kind}Binding");
        let metadata = "metadata: {name: UNIQUE, namespace: NS}";
        self.admin(&format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\n{metadata}\nrules:\n{rules}---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: {binding}\n{metadata}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: UNIQUE}}\n\
             subjects: [{{kind: User, apiGroup: rbac.authorization.k8s.io, name: TENANT}}]\n"
        ));
        let (verbs, resource) = permissions[permissions.len() - 1].split_once(' ').expect("verbs and a resource");
        let verb = verbs.split(',').next().expect("a verb");
        eventually(SOON, "the tenant's permissions", || {
            let answer = self.kubectl(&["auth", "can-i", verb, resource, "--namespace", &self.own.name]).run();
            if answer.success { Ok(()) } else { Err(answer.stdout + &answer.stderr) }
        });
    }

    fn try_out(&self, attack: &Attack) -> Result<(), String> {
        if !attack.setup.is_empty() {
            self.admin(attack.setup);
        }
        if !attack.attempt.is_empty() {
            self.attempt(attack)?;
        }
        if !attack.trigger.is_empty() {
            self.admin(attack.trigger);
        }
        self.fence();
        for object in attack.still {
            eventually(SOON, &format!("{}: {object}", attack.name), || self.find(object).ok_or("it does not exist"));
        }
        for object in attack.never {
            if let Some(found) = self.find(object) {
                return Err(format!("{} exists: {found}", self.fill(object)));
            }
        }
        self.search_marker()
    }

    fn attempt(&self, attack: &Attack) -> Result<(), String> {
        let text = self.fill(attack.attempt);
        let Answer { success, stdout, stderr } = self.kubectl(&["apply", "-f", "-"]).stdin(&text).run();
        self.own_cluster_scoped(&stdout);
        self.answers.lock().expect("nothing panics here").push_str(&stderr);
        match (success, attack.rejected) {
            (true, []) => self.reported(&text),
            (true, _) => return Err(format!("the attempt was admitted: {stderr}")),
            (false, []) => return Err(format!("the attempt was rejected: {stderr}")),
            (false, reasons) => {
                if let Some(missing) = reasons.iter().find(|reason| !stderr.contains(&self.fill(reason))) {
                    return Err(format!("rejected, but not because of `{}`: {stderr}", self.fill(missing)));
                }
            }
        }
        Ok(())
    }

    /// Waits until the controller has reported on every policy of a text.
    fn reported(&self, text: &str) {
        eventually(SOON, "the status of the policies", || {
            let found = self.field.cluster.kubectl(["get", "-f", "-", "-o", "json"]).stdin(text).run();
            let found: Value = serde_json::from_str(&found.stdout).unwrap_or_default();
            let items = found["items"].as_array().cloned().unwrap_or_else(|| vec![found]);
            let mut policies =
                items.iter().filter(|item| item["kind"].as_str().is_some_and(|kind| kind.ends_with("Policy")));
            let waiting = policies.find(|item| item["status"]["conditions"].as_array().is_none_or(Vec::is_empty));
            waiting.map_or(Ok(()), |policy| Err(policy["metadata"]["name"].to_string()))
        });
    }

    /// Returns when everything that was stored before has been worked on.
    pub(crate) fn fence(&self) {
        for _ in 0..2 {
            let name = unique("fence");
            self.own.kubectl(["create", "configmap", &name]).ok();
            eventually(SOON, "the fence", || self.find(&format!("configmap NS/done-{name}")).ok_or("not done"));
        }
    }

    /// An object as JSON, as the admin sees it.
    pub(crate) fn find(&self, object: &str) -> Option<String> {
        let object = self.fill(object);
        let (kind, name) = object.split_once(' ').expect("a kind and a name");
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        let answer = self.field.cluster.kubectl(["get", kind, name, "--namespace", namespace, "--output=json"]).run();
        answer.success.then_some(answer.stdout)
    }

    /// Fails if the value of the victim's Secret shows anywhere that is not a Secret.
    pub(crate) fn search_marker(&self) -> Result<(), String> {
        let admin = |arguments: &[&str]| self.field.cluster.kubectl(arguments).run().stdout;
        let metrics = self.field.writ.get("/metrics").map(|(_, body)| body).unwrap_or_default();
        let places = [
            ("the answer of the API server", self.answers.lock().expect("nothing panics here").clone()),
            ("an Event", admin(&["get", "events.v1.events.k8s.io", "-A", "-o", "json"])),
            ("an UpdateRequest", admin(&["get", "updaterequests", "-A", "-o", "json"])),
            ("the status of a policy", admin(&["get", "clusterpolicies,policies.kyverno.io", "-A", "-o", "json"])),
            ("the tenant's ConfigMaps", admin(&["get", "configmaps", "-n", &self.own.name, "-o", "json"])),
            ("Writ's log", self.field.writ.log()),
            ("Writ's metrics", metrics),
        ];
        let encoded = STANDARD.encode(&self.marker);
        for (place, text) in places {
            if let Some(line) = text.lines().find(|line| line.contains(&self.marker) || line.contains(&encoded)) {
                return Err(format!("{place} shows the content of the Secret: {}", line.trim()));
            }
        }
        Ok(())
    }

    /// Has what kubectl says it applied deleted at the end, as far as it bears the unique name.
    fn own_cluster_scoped(&self, said: &str) {
        for object in said.split_whitespace().filter(|word| word.contains(&format!("/{}", self.unique))) {
            let (kind, name) = object.split_once('/').expect("a slash");
            self.own.owns(kind, name);
        }
    }
}

/// The harness itself: an attack that succeeds is found, whatever it did.
#[test]
fn the_harness_finds_an_attack_that_succeeds() {
    let Some(field) = field() else { return };
    let failure = |attack: Attack| Tenant::new(field, &attack).try_out(&attack).expect_err("an attack that succeeds");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS}\ndata: {key: value}";
    let may = &["create,get,patch configmaps"];
    let admitted = failure(Attack { may, attempt: map, rejected: &["no"], ..ATTACK });
    assert!(admitted.contains("was admitted"), "{admitted}");
    let rejected = failure(Attack { attempt: map, ..ATTACK });
    assert!(rejected.contains("was rejected"), "{rejected}");
    let otherwise = failure(Attack { attempt: map, rejected: &["another reason"], ..ATTACK });
    assert!(otherwise.contains("not because of"), "{otherwise}");
    let exists = failure(Attack { may, attempt: map, never: &["configmap NS/a"], ..ATTACK });
    assert!(exists.contains("exists"), "{exists}");
    let leaked = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS}\ndata: {key: MARKER}";
    let shown = failure(Attack { may, attempt: leaked, ..ATTACK });
    assert!(shown.contains("shows the content"), "{shown}");
}
