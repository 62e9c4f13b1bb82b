//! Generate rules, by the product's own test command.

use std::ffi::OsString;

/// Runs `writ` with these arguments; gives its exit code, output and talk.
fn writ(arguments: &[&str]) -> (String, String, String) {
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let arguments = std::iter::once("writ").chain(arguments.iter().copied()).map(OsString::from);
    let code = writ::cli::run(arguments, &mut out, &mut talk);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (format!("{code:?}"), text(out), text(talk))
}

#[test]
fn every_case_folder_passes() {
    let (code, out, talk) = writ(&["test", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/generate")]);
    assert_eq!(code, format!("{:?}", std::process::ExitCode::SUCCESS), "{out}{talk}");
}
