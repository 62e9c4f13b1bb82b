//! Everything at once: triggers come, change and go while Writ is killed, the API server is restarted, watches are cut and
//! the webhook cannot be reached. In the end the cluster must be what the rules want.
//!
//! The rules are simple enough for [`model`] to know what they want by itself. The user's hand is [`user`]; what goes wrong
//! and when is [`script`], drawn from a seed. The short form runs with all tests; `make chaos` is the long one.
//!
//! | variable | effect |
//! |---|---|
//! | `WRIT_CHAOS=long` | 300 triggers and 24 kills instead of 40 and 4 |
//! | `WRIT_CHAOS_SEED=NUMBER` | another script than the usual one; the test prints its seed |

mod line;
mod model;
mod outages;
mod script;
mod user;

use std::time::Duration;

use crate::support::{ControlPlane, Writ, eventually};
use line::Line;
use model::Model;
use outages::Outages;
use script::{Script, Size, Step};
use user::User;

/// Between two acts of the user.
const PACE: Duration = Duration::from_millis(15);
/// How long Writ has to put everything right after the last blow.
const REPAIR: Duration = Duration::from_secs(120);
/// A one-shot rule that has fired is remembered lazily: within so much time of undisturbed work, see ARCHITECTURE.md.
const REMEMBERED: Duration = Duration::from_secs(12);

#[test]
fn the_cluster_ends_up_as_wanted_whatever_happens() {
    let Some(cluster) = ControlPlane::start() else { return };
    let size = Size::from_environment();
    let script = Script::draw(&size);
    let user = User::new(&cluster);
    let line = Line::lay(&cluster);
    let writ = Writ::start_through(&cluster, line.address());
    model::prepare(&cluster);
    let (outages, fate) = Outages::new();
    let mut model = Model::default();

    // What one-shot rules made and the user deleted: it must never come back.
    for name in script.quiet() {
        model.act(&user, &outages, &Step::Create { name: name.clone() });
    }
    eventually(REPAIR, "the work of the one-shot rule", || model.all_are_served(&user));
    std::thread::sleep(REMEMBERED);
    for name in script.quiet() {
        model.act(&user, &outages, &Step::DeleteOnce { name: name.clone() });
    }

    let writ = std::thread::scope(|threads| {
        // Here, so that the thread that strikes learns of the end even if a step fails.
        let mut outages = outages;
        let (cluster, line) = (&cluster, &line);
        let striking = threads.spawn(move || fate.strike_all(cluster, line, writ));
        for step in script.steps() {
            match step {
                Step::Strike(blow) => outages.strike(*blow),
                Step::Settle(time) => {
                    outages.wait();
                    std::thread::sleep(*time);
                }
                step => model.act(&user, &outages, step),
            }
            std::thread::sleep(PACE);
        }
        assert_eq!(outages.kills(), size.kills);
        outages.end();
        striking.join().expect("the thread that strikes")
    });
    assert!(model.farewells() > 0, "no deletion fell into a calm moment");
    eventually(REPAIR, &format!("the wanted state (seed {})", size.seed), || model.compare(&user));

    // And nobody touches it any more.
    let before = user.versions();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(user.versions(), before, "objects are written although nothing happens");
    if let Err(differences) = model.compare(&user) {
        panic!("the wanted state did not last: {differences}\n{}", writ.log());
    }
}
