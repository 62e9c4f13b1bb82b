//! Every event in the life of generated objects, for every sort of rule, synchronized and one-shot.
//!
//! Six rules side by side make one object each for a trigger: `data`, `clone` and `cloneList`, each of them first synchronized,
//! then one-shot. A [`Scene`] lets something happen and says in six letters what becomes of the six objects:
//!
//! | letter | afterwards |
//! |---|---|
//! | `C`, `U` | there, labelled, as the rule wants it now |
//! | `K`, `-` | exactly what it was before, were it nothing |
//! | `D` | gone |
//! | `E` | as the user has just edited it |
//! | `F` | set free: there as before, but no longer labelled as made by the rule |
//! | `?` | not looked at |

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::rules::{Policy, Rule};
use super::{SOON, Stage, base64, stage};
use crate::support::eventually;

#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Data,
    Clone,
    List,
}

/// One of the six rules.
#[derive(Clone, Copy)]
struct Column {
    sort: Sort,
    mode: &'static str,
}

const COLUMNS: [Column; 6] = [
    Column { sort: Sort::Data, mode: "sync" },
    Column { sort: Sort::Data, mode: "once" },
    Column { sort: Sort::Clone, mode: "sync" },
    Column { sort: Sort::Clone, mode: "once" },
    Column { sort: Sort::List, mode: "sync" },
    Column { sort: Sort::List, mode: "once" },
];

/// What is to be seen of an object.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    value: String,
    rule: String,
    version: String,
}

/// Where the objects of a trigger are made: a word in their names, and the namespace of lists.
#[derive(Clone)]
struct Place {
    word: &'static str,
    namespace: String,
}

struct Scene<'c> {
    stage: Stage<'c>,
    /// The namespaces of lists.
    targets: [Stage<'c>; 2],
    now: RefCell<Now>,
}

/// What the rules are to go by.
struct Now {
    trigger: Value,
    /// What `data` holds, if not the value of the trigger.
    data: Option<&'static str>,
    source: String,
}

impl Column {
    fn name(self) -> String {
        let sort = match self.sort {
            Sort::Data => "data",
            Sort::Clone => "clone",
            Sort::List => "list",
        };
        format!("{sort}-{}", self.mode)
    }

    fn rule(self) -> Rule {
        let rule = match self.sort {
            Sort::Data => Rule::data(&self.name()),
            Sort::Clone => Rule::clone(&self.name()),
            Sort::List => Rule::clone_list(&self.name(), self.mode, "{{request.object.data.namespace}}"),
        };
        let name = format!("{}-{{{{request.object.data.word}}}}", self.name());
        let rule = if self.sort == Sort::List { rule } else { rule.making("name", name.into()) };
        let rule = rule.only_if("{{request.object.data.state}}", "on");
        if self.mode == "sync" { rule.synchronized() } else { rule }
    }

    /// The name of its object. A list keeps the names of its sources, which are those of the columns.
    fn object(self, place: &Place) -> String {
        if self.sort == Sort::List { self.name() } else { format!("{}-{}", self.name(), place.word) }
    }
}

/// The six rules, with a change to each.
fn rules(change: impl Fn(Rule) -> Rule) -> Policy {
    COLUMNS.map(|column| change(column.rule())).into()
}

fn scene(prefix: &str) -> Option<Scene<'static>> {
    let stage = stage(prefix)?;
    let targets = ["target", "other"].map(|name| stage.beside(&format!("{prefix}-{name}")));
    let trigger = json!({"value": "1", "state": "on", "word": "a", "namespace": targets[0].ns.name});
    let now = RefCell::new(Now { trigger, data: None, source: "s1".to_owned() });
    Some(Scene { stage, targets, now })
}

impl Scene<'_> {
    fn place(&self, index: usize) -> Place {
        Place { word: ["a", "b"][index], namespace: self.targets[index].ns.name.clone() }
    }

    /// Creates the trigger, or changes a field of it.
    fn trigger(&self, field: &str, value: &str) {
        self.now.borrow_mut().trigger[field] = value.into();
        self.stage.trigger_with("trigger", &self.now.borrow().trigger);
    }

    /// Creates or changes all sources.
    fn sources(&self, value: &str) {
        self.now.borrow_mut().source = value.to_owned();
        self.stage.source("source", "", value);
        for mode in ["sync", "once"] {
            self.stage.source(&format!("list-{mode}"), mode, value);
        }
    }

    fn delete_sources(&self) {
        self.stage.ns.kubectl(["delete", "secret", "source", "list-sync", "list-once"]).ok();
    }

    fn stage_of(&self, column: Column, place: &Place) -> &Stage<'_> {
        let stage = self.targets.iter().find(|target| target.ns.name == place.namespace);
        if column.sort == Sort::List { stage.expect("a namespace of the scene") } else { &self.stage }
    }

    fn patch_all(&self, patch: &str) {
        let place = self.place(0);
        for column in COLUMNS {
            self.stage_of(column, &place).patch("secret", &column.object(&place), patch);
        }
    }

    fn edit_all(&self) {
        self.patch_all(r#"{"stringData": {"value": "mine"}}"#);
    }

    fn delete_all(&self) {
        let place = self.place(0);
        for column in COLUMNS {
            self.stage_of(column, &place).delete("secret", &column.object(&place));
        }
    }

    fn look(&self, place: &Place) -> [Option<Seen>; 6] {
        let objects = [&self.stage, self.stage_of(COLUMNS[4], place)].map(|stage| {
            let list = stage.ns.kubectl(["get", "secrets", "-o", "json"]).ok();
            serde_json::from_str::<Value>(&list).expect("JSON")["items"].take()
        });
        COLUMNS.map(|column| {
            let objects = objects[usize::from(column.sort == Sort::List)].as_array()?;
            let name = column.object(place);
            let object = objects.iter().find(|object| object["metadata"]["name"] == *name)?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Some(Seen {
                value: text(&object["data"]["value"]),
                rule: text(&object["metadata"]["labels"]["generate.kyverno.io/rule-name"]),
                version: text(&object["metadata"]["resourceVersion"]),
            })
        })
    }

    fn wanted(&self, column: Column) -> String {
        let now = self.now.borrow();
        let of_trigger = || now.trigger["value"].as_str().unwrap_or_default();
        base64(if column.sort == Sort::Data { now.data.unwrap_or_else(of_trigger) } else { &now.source })
    }

    /// What is not as a letter says.
    fn judge(&self, column: Column, letter: char, before: Option<&Seen>, after: Option<&Seen>) -> Option<String> {
        let value = after.map(|after| after.value.as_str());
        let right = match letter {
            'C' | 'U' => value == Some(&self.wanted(column)) && after.is_some_and(|after| after.rule == column.name()),
            'K' | '-' => before == after,
            'D' => after.is_none(),
            'E' => value == Some(&base64("mine")),
            'F' => {
                value == before.map(|before| before.value.as_str()) && after.is_some_and(|after| after.rule.is_empty())
            }
            _ => true,
        };
        (!right).then(|| format!("{}: `{letter}` expected, {before:?} became {after:?}", column.name()))
    }

    /// Lets something happen and compares what becomes of the objects at a place.
    #[track_caller]
    fn after_at(&self, place: &Place, what: &str, letters: &str, event: impl FnOnce(&Self)) {
        let letters: Vec<char> = letters.chars().filter(|letter| *letter != ' ').collect();
        let before = self.look(place);
        event(self);
        let compare = || {
            let after = self.look(place);
            let wrong: Vec<String> = COLUMNS
                .iter()
                .enumerate()
                .filter_map(|(i, column)| self.judge(*column, letters[i], before[i].as_ref(), after[i].as_ref()))
                .collect();
            if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
        };
        eventually(SOON, what, compare);
        self.stage.fence();
        if let Err(wrong) = compare() {
            panic!("{what}: it did not last: {wrong}");
        }
    }

    #[track_caller]
    fn after(&self, what: &str, letters: &str, event: impl FnOnce(&Self)) {
        self.after_at(&self.place(0), what, letters, event);
    }
}

#[test]
fn what_happens_to_a_trigger() {
    let Some(scene) = scene("m-trigger") else { return };
    scene.sources("s1");
    scene.stage.policy(rules(|rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    scene.after("the trigger changes", "U- U- U-", |scene| scene.trigger("value", "2"));
    scene.after("the trigger changes, nothing is there", "CC CC CC", |scene| {
        scene.delete_all();
        scene.stage.fence();
        scene.trigger("value", "3");
    });
    scene.after("the conditions do not hold any more", "DK DK DK", |scene| scene.trigger("state", "off"));
    scene.after("the conditions hold again", "C- C- C-", |scene| scene.trigger("state", "on"));
    let label = |value: &str| format!(r#"{{"metadata": {{"labels": {{"make": "{value}"}}}}}}"#);
    scene.after("the trigger does not match any more", "DK DK DK", |scene| {
        scene.stage.patch("configmap", "trigger", &label("no"));
    });
    scene.after("the trigger matches again", "C- C- C-", |scene| {
        scene.stage.patch("configmap", "trigger", &label("yes"));
    });

    let (here, there) = (scene.place(0), scene.place(1));
    scene.after_at(&there, "other names, seen there", "CC CC CC", |scene| {
        scene.after_at(&here, "other names, seen here", "KK KK KK", |scene| {
            scene.now.borrow_mut().trigger["namespace"] = scene.place(1).namespace.into();
            scene.trigger("word", "b");
        });
    });
    scene.after_at(&there, "the trigger is deleted, seen there", "DK DK DK", |scene| {
        scene.after_at(&here, "the trigger is deleted, seen here", "DK DK DK", |scene| {
            scene.stage.delete("configmap", "trigger");
        });
    });
}

#[test]
fn what_happens_to_objects_of_others() {
    let Some(scene) = scene("m-foreign") else { return };
    scene.sources("s1");
    let place = scene.place(0);
    for column in COLUMNS {
        let (stage, name) = (scene.stage_of(column, &place), column.object(&place));
        // The sources of lists have these names at home, not where the copies go.
        stage.ns.kubectl(["create", "secret", "generic", &name, "--from-literal=value=foreign"]).ok();
    }
    scene.stage.policy(rules(|rule| rule));
    scene.after("the trigger is created", "U- U- U-", |scene| scene.trigger("value", "1"));
}

#[test]
fn what_happens_at_the_deletion_of_a_trigger() {
    let Some(scene) = scene("m-deletion") else { return };
    scene.sources("s1");
    let policy = scene.stage.policy(rules(|rule| rule.on("operations", json!(["DELETE"]))));
    let delete = |scene: &Scene<'_>| scene.stage.delete("configmap", "trigger");
    scene.after("the trigger is created", "-- -- --", |scene| scene.trigger("value", "1"));
    scene.after("the trigger is deleted", "CC CC CC", delete);
    scene.trigger("value", "2");
    scene.after("the trigger is deleted, all is there", "U- U- U-", delete);
    // Nothing that these follow needs the trigger to live.
    scene.after("the sources are deleted", "-- D- D-", Scene::delete_sources);
    scene.after("the policy is deleted", "D- -- --", |scene| scene.stage.delete("clusterpolicy", &policy));
}

#[test]
fn what_happens_to_a_source() {
    let Some(scene) = scene("m-source") else { return };
    scene.stage.policy(rules(|rule| rule));
    scene.after("no sources", "CC -- --", |scene| scene.trigger("value", "1"));
    scene.after("late sources", "-- -- --", |scene| {
        // A clone without its source is tried again for some five seconds; only then does it wait for the trigger.
        sleep(Duration::from_secs(15));
        scene.sources("s1");
    });
    scene.after("the trigger changes", "U- CC CC", |scene| scene.trigger("value", "2"));
    scene.after("the sources change", "-- U- U-", |scene| scene.sources("s2"));
    let relabel = |scene: &Scene<'_>, labels: [&str; 2]| {
        for (name, label) in [("list-sync", labels[0]), ("list-once", labels[1])] {
            scene.stage.ns.kubectl(["label", "--overwrite", "secret", name, &format!("copy={label}")]).ok();
        }
    };
    scene.after("the sources are not selected any more", "-- -- KK", |scene| relabel(scene, ["no", "no"]));
    scene.after("the sources are selected again", "-- -- ?K", |scene| relabel(scene, ["sync", "once"]));
    scene.after("the sources are deleted", "-- DK DK", Scene::delete_sources);
}

#[test]
fn what_happens_to_downstream() {
    let Some(scene) = scene("m-downstream") else { return };
    scene.sources("s1");
    scene.stage.policy(rules(|rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    scene.after("somebody edits", "UE UE UE", Scene::edit_all);
    scene.after("somebody deletes", "CD CD CD", Scene::delete_all);
    scene.after("the trigger changes", "UC UC UC", |scene| scene.trigger("value", "2"));
}

#[test]
fn what_happens_to_a_rule() {
    let Some(scene) = scene("m-rule") else { return };
    scene.sources("s1");
    let stays = || Rule::data("stays").synchronized();
    let without: Policy = vec![stays()].into();
    let with = |change: fn(Rule) -> Rule| -> Policy {
        COLUMNS.map(|column| change(column.rule())).into_iter().chain([stays()]).collect::<Vec<_>>().into()
    };
    scene.stage.policy(with(|rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    scene.after("rules are removed", "DK KK DK", |scene| drop(scene.stage.policy(without.clone())));
    scene.stage.is_there("secret", "stays-trigger");

    scene.stage.policy(with(Rule::orphaning));
    scene.after("the trigger changes", "C? ?? C?", |scene| scene.trigger("value", "2"));
    scene.after("rules are removed that keep", "KK KK KK", |scene| drop(scene.stage.policy(without.clone())));
}

#[test]
fn what_happens_to_a_policy() {
    let Some(scene) = scene("m-policy") else { return };
    scene.sources("s1");
    let policy = scene.stage.policy(rules(|rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    scene.after("the policy is deleted", "DK KK DK", |scene| scene.stage.delete("clusterpolicy", &policy));

    scene.stage.policy(rules(Rule::orphaning));
    scene.after("the policy is back and the trigger changes", "C- U- C-", |scene| scene.trigger("value", "2"));
    scene.after("a policy that keeps is deleted", "KK KK KK", |scene| {
        scene.stage.delete("clusterpolicy", &policy);
    });
    // What is left is found by the policy and rule that it names.
    scene.stage.policy(rules(|rule| rule));
    scene.after("the policy is back and somebody edits", "UE UE UE", Scene::edit_all);
}

#[test]
fn what_happens_when_a_policy_changes() {
    let Some(scene) = scene("m-change") else { return };
    scene.sources("s1");
    scene.stage.policy(rules(|rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    let data = || {
        COLUMNS.map(|column| {
            let body = json!({"stringData": {"value": "new"}});
            if column.sort == Sort::Data { column.rule().making("data", body) } else { column.rule() }
        })
    };
    scene.after("data changes", "U- -- --", |scene| {
        scene.now.borrow_mut().data = Some("new");
        scene.stage.policy(data());
    });
    let switched = |synchronize: bool| data().map(|rule| rule.making("synchronize", json!(synchronize)));
    scene.stage.policy(switched(false));
    scene.after("one-shot from now on", "EE EE EE", Scene::edit_all);
    scene.after("synchronized from now on", "UU ?? ??", |scene| drop(scene.stage.policy(switched(true))));
    scene.after("the trigger changes", "UU UU UU", |scene| scene.trigger("value", "2"));
}

#[test]
fn what_happens_when_a_policy_has_other_targets() {
    let Some(scene) = scene("m-targets") else { return };
    scene.sources("s1");
    let moved = |place: &Place, change: fn(Rule) -> Rule| {
        COLUMNS.map(|column| {
            let rule = change(column.rule());
            match column.sort {
                Sort::List => rule.making("namespace", place.namespace.clone().into()),
                _ => rule.making("name", column.object(place).into()),
            }
        })
    };
    let (here, there) = (scene.place(0), scene.place(1));
    scene.stage.policy(moved(&here, |rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    scene.after_at(&there, "other targets, seen there", "-- -- --", |scene| {
        scene.after_at(&here, "other targets, seen here", "FF FF FF", |scene| {
            scene.stage.policy(moved(&there, |rule| rule));
        });
    });
    scene.after_at(&there, "the trigger changes, seen there", "CC CC CC", |scene| {
        scene.after_at(&here, "the trigger changes, seen here", "KK KK KK", |scene| scene.trigger("value", "2"));
    });
    // Back, and at once; what was set free is as foreign as anything.
    scene.after_at(&there, "back to the old targets, seen there", "FF FF FF", |scene| {
        scene.after_at(&here, "back to the old targets, seen here", "U- U- U-", |scene| {
            scene.stage.policy(moved(&here, Rule::for_existing));
        });
    });
}

#[test]
fn what_happens_to_existing_triggers() {
    let Some(scene) = scene("m-existing") else { return };
    scene.sources("s1");
    scene.trigger("value", "1");
    let policy = scene.stage.policy(rules(|rule| rule));
    scene.after("rules for new triggers", "-- -- --", |_| {});
    scene.stage.delete("clusterpolicy", &policy);
    let existing = || rules(Rule::for_existing);
    scene.after("rules for existing triggers", "CC CC CC", |scene| drop(scene.stage.policy(existing())));
    // Every change of the spec goes through them again.
    scene.after("everything deleted, the policy changed", "CC CC CC", |scene| {
        scene.delete_all();
        scene.stage.policy(existing().with("webhookConfiguration", json!({"timeoutSeconds": 9})));
    });
}

#[test]
fn what_happens_when_a_namespace_ends() {
    let Some(scene) = scene("m-namespace") else { return };
    scene.sources("s1");
    let policy = scene.stage.policy(rules(|rule| rule));
    scene.after("the trigger is created", "CC CC CC", |scene| scene.trigger("value", "1"));
    // With what is made again and again in it, a namespace would never end.
    let [target, _] = &scene.targets;
    scene.stage.cluster.kubectl(["delete", "namespace", &target.ns.name, "--timeout=30s"]).ok();
    scene.stage.cluster.kubectl(["delete", "namespace", &scene.stage.ns.name, "--timeout=30s"]).ok();
    scene.stage.requests_are_done(&policy);
}
