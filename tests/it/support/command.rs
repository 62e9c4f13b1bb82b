//! `writ`, as somebody types it.

use std::ffi::OsString;
use std::process::ExitCode;

/// How a command ended, and what it said.
pub(crate) struct Ran {
    code: String,
    pub(crate) out: String,
    pub(crate) talk: String,
}

/// Runs `writ` with these arguments.
pub(crate) fn writ(arguments: &[&str]) -> Ran {
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let arguments = std::iter::once("writ").chain(arguments.iter().copied()).map(OsString::from);
    let code = writ::cli::run(arguments, &mut out, &mut talk);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: format!("{code:?}"), out: text(out), talk: text(talk) }
}

impl Ran {
    #[track_caller]
    pub(crate) fn expect(self, code: u8) -> Self {
        assert_eq!(self.code, format!("{:?}", ExitCode::from(code)), "{}{}", self.out, self.talk);
        self
    }
}
