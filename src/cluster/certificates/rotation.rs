//! When to renew, announce, switch and retire: a pure function of what is stored, what is trusted, and the time.
//!
//! A certificate and the authority that signed it are one unit and are renewed together at two thirds of their life. No
//! admission call may fail meanwhile, and any replica may die at any point, so each step is stored before the next:
//!
//! 1. `Announce`: the next pair is stored; the CA bundle is old + new; the old pair is served.
//! 2. `MarkTrusted`: all webhook configurations carry that bundle; from now on a grace period runs.
//! 3. `Switch`: every API server has seen the bundle; the new pair is served.
//! 4. `Retire`: every replica has seen the switch; the old authority leaves the bundle.

use std::time::Duration;

use jiff::Timestamp;

/// The life of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// How far a renewal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// One pair, no renewal under way.
    Steady,
    /// The next pair is stored. `trusted_since`: since when all configurations carry its authority.
    Announced { next: Validity, trusted_since: Option<Timestamp> },
    /// The new pair is served, the authority of the old one still trusted.
    Switched { since: Timestamp },
}

/// What is stored: the life of the pair being served, and the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub current: Validity,
    pub stage: Stage,
}

/// What to do next. All but `Wait` change what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing that could still be served: make a pair and serve it at once.
    Replace,
    Announce,
    MarkTrusted,
    Switch,
    Retire,
    Wait {
        until: Timestamp,
    },
}

impl Validity {
    /// Two thirds of the life.
    fn renewal(self) -> Timestamp {
        let life = self.until.as_second() - self.from.as_second();
        Timestamp::from_second(self.from.as_second() + life * 2 / 3).unwrap_or(self.from)
    }

    fn is_over(self, now: Timestamp) -> bool {
        now >= self.until
    }
}

/// The next step. `trusted`: all webhook configurations carry the bundle that the stored state asks for.
pub(super) fn next_step(progress: Option<Progress>, trusted: bool, now: Timestamp, grace: Duration) -> Step {
    let Some(Progress { current, stage }) = progress else {
        return Step::Replace;
    };
    let expired = current.is_over(now);
    match stage {
        Stage::Steady if expired => Step::Replace,
        Stage::Steady if now >= current.renewal() => Step::Announce,
        Stage::Steady => Step::Wait { until: current.renewal() },

        Stage::Announced { next, .. } if next.is_over(now) && expired => Step::Replace,
        // The old pair is refused anyway; the new one has at least a chance.
        Stage::Announced { .. } if expired => Step::Switch,
        Stage::Announced { trusted_since: None, .. } if trusted => Step::MarkTrusted,
        // Somebody edits the configurations, or we may not: look again when the old pair ends at the latest.
        Stage::Announced { .. } if !trusted => Step::Wait { until: current.until },
        Stage::Announced { trusted_since: Some(since), .. } if now >= since + grace => Step::Switch,
        Stage::Announced { trusted_since: Some(since), .. } => Step::Wait { until: (since + grace).min(current.until) },
        Stage::Announced { trusted_since: None, .. } => Step::Wait { until: current.until },

        Stage::Switched { .. } if expired => Step::Replace,
        Stage::Switched { since } if now >= since + grace => Step::Retire,
        Stage::Switched { since } => Step::Wait { until: since + grace },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn life(from: i64, until: i64) -> Validity {
        Validity { from: at(from), until: at(until) }
    }

    /// The current pair lives from 0 to 300, the next one from 200 to 500.
    #[track_caller]
    fn check(stage: Stage, trusted: bool, now: i64, expected: Step) {
        let progress = Progress { current: life(0, 300), stage };
        assert_eq!(next_step(Some(progress), trusted, at(now), GRACE), expected);
    }

    #[test]
    fn nothing_stored_means_make_one() {
        assert_eq!(next_step(None, true, at(0), GRACE), Step::Replace);
    }

    #[test]
    fn renews_at_two_thirds_of_its_life() {
        for trusted in [true, false] {
            check(Stage::Steady, trusted, -50, Step::Wait { until: at(200) });
            check(Stage::Steady, trusted, 199, Step::Wait { until: at(200) });
            check(Stage::Steady, trusted, 200, Step::Announce);
            check(Stage::Steady, trusted, 299, Step::Announce);
            check(Stage::Steady, trusted, 300, Step::Replace);
        }
    }

    #[test]
    fn switches_only_after_everybody_trusts_the_next_pair() {
        let announced = |trusted_since: Option<i64>| Stage::Announced {
            next: life(200, 500),
            trusted_since: trusted_since.map(at),
        };
        check(announced(None), false, 200, Step::Wait { until: at(300) });
        check(announced(None), true, 200, Step::MarkTrusted);
        check(announced(Some(205)), true, 214, Step::Wait { until: at(215) });
        check(announced(Some(205)), true, 215, Step::Switch);
        // Somebody took the new authority out again during the grace period.
        check(announced(Some(205)), false, 220, Step::Wait { until: at(300) });
        // The old pair ends before the grace period does.
        check(announced(Some(295)), true, 296, Step::Wait { until: at(300) });
        check(announced(Some(295)), true, 300, Step::Switch);
        check(announced(None), false, 300, Step::Switch);
        // Nobody ran for a long time.
        check(announced(Some(205)), true, 500, Step::Replace);
    }

    #[test]
    fn retires_the_old_authority_after_another_grace_period() {
        check(Stage::Switched { since: at(100) }, true, 109, Step::Wait { until: at(110) });
        check(Stage::Switched { since: at(100) }, false, 110, Step::Retire);
        check(Stage::Switched { since: at(100) }, true, 300, Step::Replace);
    }

    #[test]
    fn a_whole_life_goes_through_every_stage_in_order() {
        let mut steps = Vec::new();
        let mut progress = Progress { current: life(0, 300), stage: Stage::Steady };
        for now in 0..300 {
            loop {
                let step = next_step(Some(progress), true, at(now), GRACE);
                let stage = match step {
                    Step::Wait { .. } => break,
                    Step::Announce => Stage::Announced { next: life(now, now + 300), trusted_since: None },
                    Step::MarkTrusted => Stage::Announced { next: life(now, now + 300), trusted_since: Some(at(now)) },
                    Step::Switch => {
                        progress.current = life(now - 10, now + 290);
                        Stage::Switched { since: at(now) }
                    }
                    Step::Retire => Stage::Steady,
                    Step::Replace => panic!("a renewal in time never starts anew"),
                };
                steps.push((now, step));
                progress.stage = stage;
            }
        }
        assert_eq!(steps, [(200, Step::Announce), (200, Step::MarkTrusted), (210, Step::Switch), (220, Step::Retire)]);
    }
}
