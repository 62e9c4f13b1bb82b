//! The cases of `tests/cases/proxy-template` through `kubectl apply`: the API server, the webhook and `writ validate` agree.

use std::fs;
use std::path::PathBuf;

use crate::support::{self, root};

#[test]
fn accepted_templates_are_stored() {
    let Some(cluster) = support::with_writ() else { return };
    for Case { name, text } in cases("accepted").into_iter().filter(Case::is_kubernetes) {
        let applied = cluster.kubectl(["apply", "-f", "-"]).stdin(&text).run();
        assert!(applied.success, "{name}: {applied:?}");
        for warning in expected(&text, "warning") {
            assert!(applied.stderr.contains(&format!("{}: ", warning.field)), "{name}: {applied:?}");
        }
        cluster.kubectl(["delete", "proxytemplate", &name]).ok();
    }
}

#[test]
fn refused_templates_are_refused_with_every_cause() {
    let Some(cluster) = support::with_writ() else { return };
    for Case { name, text } in cases("refused") {
        let applied = cluster.kubectl(["apply", "-f", "-"]).stdin(&text).run();
        assert!(!applied.success, "{name} was stored");
        let causes = expected(&text, "error");
        for Expected { field, .. } in &causes {
            let told = applied.stderr.lines().any(|line| line.contains(&format!("{field}: ")));
            assert!(told, "{name}: nothing said about {field}: {applied:?}");
        }
        let told = applied.stderr.lines().filter(|line| line.trim_start().starts_with("* ")).count();
        assert!(told == causes.len() || causes.len() == 1, "{name}: {} causes expected: {applied:?}", causes.len());
        let stored = cluster.kubectl(["get", "proxytemplate", &name, "--ignore-not-found"]).ok();
        assert!(stored.is_empty(), "{name} was stored");
    }
}

#[test]
fn a_refused_update_leaves_the_old_template() {
    let Some(cluster) = support::with_writ() else { return };
    let name = support::unique("update");
    let template = |operation: &str| {
        format!(
            "{{apiVersion: kuma.io/v1alpha1, kind: ProxyTemplate, mesh: default, metadata: {{name: {name}}}, spec: \
             {{selectors: [{{match: {{kuma.io/service: web}}}}], conf: {{modifications: [{{cluster: {{operation: \
             {operation}}}}}]}}}}}}"
        )
    };
    cluster.kubectl(["apply", "--server-side", "-f", "-"]).stdin(&template("remove")).ok();
    let refused = cluster.kubectl(["apply", "--server-side", "-f", "-"]).stdin(&template("addFirst")).run();
    assert!(!refused.success, "{refused:?}");
    let operation = "jsonpath={.spec.conf.modifications[0].cluster.operation}";
    let stored = cluster.kubectl(["get", "proxytemplate", &name, "-o", operation]).ok();
    assert_eq!(stored, "remove");
    cluster.kubectl(["delete", "proxytemplate", &name]).ok();
}

struct Case {
    name: String,
    text: String,
}

struct Expected {
    field: String,
}

impl Case {
    fn is_kubernetes(&self) -> bool {
        self.text.contains("\napiVersion:")
    }
}

fn cases(folder: &str) -> Vec<Case> {
    let folder = root().join("tests/cases/proxy-template").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the case folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |file: PathBuf| Case {
        name: file.file_stem().expect("a name").to_string_lossy().into_owned(),
        text: fs::read_to_string(&file).expect("readable"),
    };
    files.into_iter().map(read).collect()
}

/// The lines `# error: FIELD CLASS` (or `# warning: …`) at the top of a case.
fn expected(text: &str, level: &str) -> Vec<Expected> {
    let prefix = format!("# {level}: ");
    let fields = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.rsplit_once(' '));
    fields.map(|(field, _)| Expected { field: field.to_owned() }).collect()
}
