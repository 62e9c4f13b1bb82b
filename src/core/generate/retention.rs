//! What becomes of downstream when its policy or rule is deleted, in one table.

use super::plan::Mode;
use super::rule::{Output, Rule, Targets};

/// What happens to an object whose rule is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delete,
    Keep,
}

/// The table: what a rule of this sort leaves behind when it, or its policy, is deleted.
pub fn fate(mode: Mode, synchronize: bool, orphan: bool) -> Fate {
    match (mode, synchronize, orphan) {
        (_, false, _) | (_, _, true) => Fate::Keep,
        (Mode::Clone, true, false) => Fate::Keep,
        (Mode::Data | Mode::CloneList, true, false) => Fate::Delete,
    }
}

/// What of a rule must be known after it is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Legacy {
    pub api_version: String,
    pub kind: String,
    pub mode: Mode,
}

impl Rule {
    /// The kinds of objects to delete when the rule is deleted, by how they were made.
    pub fn legacy(&self) -> Vec<Legacy> {
        let outputs: Vec<&Output> = match &self.targets {
            Targets::Once(output) => vec![output],
            Targets::Foreach(loops) => loops.iter().map(|entry| &entry.output).collect(),
        };
        let mut legacy: Vec<Legacy> = outputs
            .into_iter()
            .flat_map(|output| output.patterns().iter().map(move |pattern| (output.mode(), pattern)))
            .filter(|(mode, _)| fate(*mode, self.synchronize, self.orphan_on_policy_delete) == Fate::Delete)
            .flat_map(|(mode, pattern)| {
                pattern.kinds.iter().map(move |kind| Legacy {
                    api_version: kind.api_version.clone(),
                    // A subresource after the kind only matters for rights.
                    kind: kind.kind.split('/').next().unwrap_or_default().to_owned(),
                    mode,
                })
            })
            .collect();
        legacy.sort();
        legacy.dedup();
        legacy
    }
}

impl Legacy {
    /// Whether an object of this kind is meant, going by whether it was copied from a source.
    pub fn includes(&self, copied: bool) -> bool {
        copied == (self.mode != Mode::Data)
    }
}

impl Output {
    pub fn mode(&self) -> Mode {
        match self {
            Self::Data(_) | Self::DataList(_) => Mode::Data,
            Self::Clone(_) => Mode::Clone,
            Self::CloneSelected(_) | Self::CloneEach(_) => Mode::CloneList,
        }
    }
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Clone => "clone",
            Self::CloneList => "cloneList",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Data, Self::Clone, Self::CloneList].into_iter().find(|mode| mode.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        #[track_caller]
        fn check(mode: Mode, synchronize: bool, orphan: bool, expected: Fate) {
            assert_eq!(fate(mode, synchronize, orphan), expected, "{mode:?} {synchronize} {orphan}");
        }
        for mode in [Mode::Data, Mode::Clone, Mode::CloneList] {
            check(mode, false, false, Fate::Keep);
            check(mode, false, true, Fate::Keep);
            check(mode, true, true, Fate::Keep);
        }
        check(Mode::Data, true, false, Fate::Delete);
        check(Mode::Clone, true, false, Fate::Keep);
        check(Mode::CloneList, true, false, Fate::Delete);
    }

    #[test]
    fn copies_and_data_of_one_kind_are_told_apart() {
        let legacy = |mode| Legacy { api_version: "v1".into(), kind: "Secret".into(), mode };
        assert!(legacy(Mode::Data).includes(false) && !legacy(Mode::Data).includes(true));
        assert!(legacy(Mode::CloneList).includes(true) && !legacy(Mode::CloneList).includes(false));
    }

    #[test]
    fn modes_read_as_they_print() {
        for mode in [Mode::Data, Mode::Clone, Mode::CloneList] {
            assert_eq!(Mode::parse(mode.as_str()), Some(mode));
        }
    }
}
