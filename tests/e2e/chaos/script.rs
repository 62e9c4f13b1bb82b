//! What happens and when: drawn from a seed before anything starts, so that a run can be repeated.

use std::time::Duration;

/// How much of everything.
pub(super) struct Size {
    pub(super) seed: u64,
    pub(super) triggers: usize,
    pub(super) kills: usize,
    pub(super) restarts: usize,
    /// How often the webhook is out of reach.
    pub(super) cuts: usize,
    /// How often every connection to the API server breaks.
    pub(super) breaks: usize,
}

/// One act of the user, or of fate.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A trigger that all rules match.
    Create {
        name: String,
    },
    /// Another value in it.
    Change {
        name: String,
    },
    /// It no longer matches.
    Unlabel {
        name: String,
    },
    /// It matches again.
    Relabel {
        name: String,
    },
    Delete {
        name: String,
    },
    /// The source of the clones gets another value.
    ChangeSource,
    /// Somebody edits or deletes what a synchronized rule made.
    EditSynced {
        name: String,
    },
    DeleteSynced {
        name: String,
    },
    /// Somebody deletes what a one-shot rule made.
    DeleteOnce {
        name: String,
    },
    /// Objects that are the user's own, by names that rules might use.
    CreateOwn {
        name: String,
    },
    Strike(Blow),
    /// The last blow is over, and so much time besides.
    Settle(Duration),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Blow {
    /// Writ is killed after a moment, and started again after another. It takes some seconds until it holds the lease and
    /// works; unless the blow lasts until then, the next one may find it waiting.
    Kill { after: Duration, down: Duration, until_it_works: bool },
    /// The API server is killed and started again.
    RestartApiServer,
    /// All connections of Writ to the API server break, watches among them.
    BreakLine,
    /// The API server cannot reach the webhook any more.
    CutWebhook,
    /// It can again.
    MendWebhook,
}

pub(super) struct Script {
    quiet: Vec<String>,
    steps: Vec<Step>,
}

impl Size {
    pub(super) fn from_environment() -> Self {
        let seed = std::env::var_os("WRIT_CHAOS_SEED").and_then(|seed| seed.to_str()?.parse().ok());
        let long = std::env::var_os("WRIT_CHAOS").is_some_and(|form| form == "long");
        let (triggers, kills, restarts, cuts, breaks) = if long { (300, 24, 2, 3, 8) } else { (40, 4, 1, 1, 2) };
        Self { seed: seed.unwrap_or(20_260_117), triggers, kills, restarts, cuts, breaks }
    }
}

impl Script {
    #[expect(clippy::print_stderr, reason = "the test harness keeps it and shows it with a failure")]
    pub(super) fn draw(size: &Size) -> Self {
        eprintln!("WRIT_CHAOS_SEED={}", size.seed);
        let mut dice = Dice(size.seed);
        let acts = user_acts(size, &mut dice);
        let mut blows: Vec<Blow> = Vec::new();
        blows.extend((0..size.kills).map(|_| Blow::Kill {
            after: Duration::from_millis(dice.below(120)),
            down: Duration::from_millis(dice.below(2500)),
            until_it_works: dice.below(2) == 0,
        }));
        blows.extend((0..size.restarts).map(|_| Blow::RestartApiServer));
        blows.extend((0..size.breaks).map(|_| Blow::BreakLine));
        dice.shuffle(&mut blows);
        // Each blow falls into the user's work, of which half goes on beside it and half follows in peace.
        let stretch = acts.len().div_ceil(blows.len() + 1).max(2);
        let cut_every = (blows.len() / size.cuts.max(1)).max(1);
        let mut steps = Vec::new();
        for (index, part) in acts.chunks(stretch).enumerate() {
            let (beside, after) = part.split_at(part.len() / 2);
            let cut = index % cut_every == cut_every - 1 && index / cut_every < size.cuts;
            if cut {
                steps.push(Step::Strike(Blow::CutWebhook));
            }
            steps.extend(index.checked_sub(1).and_then(|index| blows.get(index)).copied().map(Step::Strike));
            steps.extend_from_slice(beside);
            if cut {
                steps.push(Step::Strike(Blow::MendWebhook));
            }
            steps.push(Step::Settle(Duration::from_millis(1000 + dice.below(1000))));
            steps.extend_from_slice(after);
        }
        Self { quiet: (0..size.triggers / 10).map(|index| format!("quiet-{index}")).collect(), steps }
    }

    /// Triggers that are created first and left alone ever after.
    pub(super) fn quiet(&self) -> &[String] {
        &self.quiet
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// For each trigger a life of its own; the lives are interleaved.
fn user_acts(size: &Size, dice: &mut Dice) -> Vec<Step> {
    let mut lives: Vec<Vec<Step>> = (0..size.triggers).map(|index| life(index, dice)).collect();
    lives.extend((0..size.triggers / 10).map(|_| vec![Step::ChangeSource]));
    let mut acts = Vec::new();
    // A window over the lives, so that creations are spread over the whole run.
    let mut next = 0;
    let mut open: Vec<std::vec::IntoIter<Step>> = Vec::new();
    dice.shuffle(&mut lives);
    while next < lives.len() || !open.is_empty() {
        while open.len() < 12 && next < lives.len() {
            open.push(std::mem::take(&mut lives[next]).into_iter());
            next += 1;
        }
        let chosen = dice.below(open.len() as u64) as usize;
        match open[chosen].next() {
            Some(step) => acts.push(step),
            None => drop(open.swap_remove(chosen)),
        }
    }
    acts
}

fn life(index: usize, dice: &mut Dice) -> Vec<Step> {
    let name = format!("t-{index}");
    let mut steps = Vec::new();
    if dice.below(6) == 0 {
        steps.push(Step::CreateOwn { name: name.clone() });
    }
    steps.push(Step::Create { name: name.clone() });
    let mut matches = true;
    for _ in 0..dice.below(4) {
        let name = name.clone();
        steps.push(match dice.below(8) {
            0 | 1 if matches => {
                matches = false;
                Step::Unlabel { name }
            }
            0 | 1 => {
                matches = true;
                Step::Relabel { name }
            }
            2 => Step::EditSynced { name },
            3 => Step::DeleteSynced { name },
            _ => Step::Change { name },
        });
    }
    if dice.below(3) == 0 {
        steps.push(Step::Delete { name });
    }
    steps
}

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit.max(1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
