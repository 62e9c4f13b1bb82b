//! What the README shows is what happens.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use tempfile::tempdir;

const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: payments}, annotations: {environments: 'dev,prod'}}}";

#[test]
fn the_first_policy_makes_what_the_readme_says() {
    let readme = readme();
    let (policy, said) = (block(&readme, "yaml", 0), block(&readme, "console", 0));
    let folder = tempdir().expect("a folder");
    fs::write(folder.path().join("team-defaults.yaml"), policy).expect("written");
    fs::write(folder.path().join("namespace.yaml"), NAMESPACE).expect("written");

    let file = |name: &str| folder.path().join(name).into_os_string();
    let arguments = ["writ".into(), "apply".into(), file("team-defaults.yaml"), "-r".into(), file("namespace.yaml")];
    let shown = said.split_once('\n').expect("a command and its output").1;
    assert_eq!(run(arguments), shown);
}

#[test]
fn the_refused_example_is_told_what_the_readme_says() {
    let block = block(&readme(), "console", 2);
    let said = block.split_once("$ writ validate filter-without-type.yaml").expect("the command").1;
    let shown = said.split_once('\n').expect("a command and its output").1;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/examples/refused");
    let file = folder.join("filter-without-type.yaml").into_os_string();
    let told = run(["writ".into(), "validate".into(), file]);
    let told = told.replace(&format!("{}/", folder.display()), "");
    assert_eq!(shown.lines().count(), told.lines().count(), "{told}");
    for (shown, told) in shown.lines().zip(told.lines()) {
        // An ellipsis stands for whatever is there.
        let (start, end) = shown.split_once('…').unwrap_or((shown, ""));
        assert!(told.starts_with(start) && told.ends_with(end), "{shown}\n{told}");
    }
}

#[test]
fn every_command_is_in_the_table() {
    let (readme, help) = (readme(), run(["writ".into(), "--help".into()]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|command| *command != "help") {
        assert!(readme.contains(&format!("| `writ {command}")), "`writ {command}` is not in the README");
    }
}

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("the README")
}

/// The text of the `number`th fenced block of a language.
fn block(text: &str, language: &str, number: usize) -> String {
    let fence = format!("```{language}\n");
    let block = text.split(&fence).nth(number + 1).expect("such a block");
    block.split("```").next().expect("its end").to_owned()
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> String {
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    writ::cli::run(arguments, &mut out, &mut talk);
    assert_eq!(String::from_utf8_lossy(&talk), "");
    String::from_utf8(out).expect("text")
}
