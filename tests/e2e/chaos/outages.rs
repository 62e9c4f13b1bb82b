//! What goes wrong: Writ killed, the API server restarted, connections broken, the webhook out of reach. It happens beside the user, who goes
//! on; afterwards it can be told which of the user's calls were certain to reach a Writ that was up.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::{ControlPlane, Writ, eventually};

use super::line::Line;
use super::script::Blow;

/// How long the API server may go on with what it knew of a webhook.
const MARGIN: Duration = Duration::from_secs(1);
const TAKING_OVER: Duration = Duration::from_secs(60);

/// The user's end.
pub(super) struct Outages {
    blows: Option<Sender<Blow>>,
    state: Arc<State>,
    kills: usize,
}

/// The end that strikes.
pub(super) struct Fate {
    blows: Receiver<Blow>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    /// Blows that are not over.
    open: usize,
    /// Those of them that `MendWebhook` ends.
    cut: bool,
    /// The end of the last one.
    calm_since: Option<Instant>,
    /// The thread that strikes has ended before its time.
    dead: bool,
}

impl Outages {
    pub(super) fn new() -> (Self, Fate) {
        let (sender, receiver) = channel();
        let state = Arc::new(State::default());
        let fate = Fate { blows: receiver, state: state.clone() };
        let outages = Self { blows: Some(sender), state, kills: 0 };
        (outages, fate)
    }

    /// Lets a blow fall. It counts as begun from here on.
    pub(super) fn strike(&mut self, blow: Blow) {
        self.kills += usize::from(matches!(blow, Blow::Kill { .. }));
        self.state.now().open += 1;
        if let Some(blows) = &self.blows {
            blows.send(blow).expect("the thread that strikes is there");
        }
    }

    /// Waits until everything is up; a webhook that is cut off may stay so.
    pub(super) fn wait(&self) {
        let waiting = |now: &mut Now| now.open > usize::from(now.cut) && !now.dead;
        let now = self.state.changed.wait_while(self.state.now(), waiting);
        let now = now.unwrap_or_else(PoisonError::into_inner);
        assert!(!now.dead, "the thread that strikes has failed");
    }

    /// Whether a call that starts now is certain to be shown to Writ.
    pub(super) fn is_calm(&self) -> bool {
        let now = self.state.now();
        now.open == 0 && now.calm_since.is_none_or(|since| since.elapsed() > MARGIN)
    }

    pub(super) fn kills(&self) -> usize {
        self.kills
    }

    /// No more blows; everything is up when this returns.
    pub(super) fn end(&mut self) {
        self.wait();
        self.blows = None;
    }
}

impl Fate {
    /// Strikes until the user's end is gone; gives the Writ that is up then.
    pub(super) fn strike_all(self, cluster: &ControlPlane, line: &Line, first: Writ) -> Writ {
        let mut writ = Some(first);
        let on_panic = Obituary(&self.state);
        for blow in &self.blows {
            match blow {
                Blow::Kill { after, down, until_it_works } => {
                    std::thread::sleep(after);
                    if let Some(writ) = writ.take() {
                        writ.signal("KILL");
                    }
                    std::thread::sleep(down);
                    let next = writ.insert(Writ::start_again_through(cluster, line.address()));
                    if until_it_works {
                        eventually(TAKING_OVER, "Writ to work", || {
                            let (_, metrics) = next.get("/metrics")?;
                            if metrics.contains("\nwrit_leading 1") { Ok(()) } else { Err("not yet".to_owned()) }
                        });
                    }
                    self.state.over(1);
                }
                Blow::RestartApiServer => {
                    cluster.restart_api_server();
                    self.state.over(1);
                }
                Blow::BreakLine => {
                    line.break_all();
                    self.state.over(1);
                }
                // Nobody listens there: the API server is refused at once.
                Blow::CutWebhook => {
                    lead_webhook_to(cluster, "127.0.0.2");
                    self.state.now().cut = true;
                    self.state.changed.notify_all();
                }
                Blow::MendWebhook => {
                    lead_webhook_to(cluster, "localhost");
                    self.state.now().cut = false;
                    self.state.over(2);
                }
            }
        }
        std::mem::forget(on_panic);
        writ.expect("each kill is followed by a start")
    }
}

fn lead_webhook_to(cluster: &ControlPlane, host: &str) {
    let patch = format!(r#"{{"spec": {{"externalName": "{host}"}}}}"#);
    let arguments = ["--namespace=writ-system", "patch", "service/writ", "--patch", &patch];
    cluster.kubectl(arguments).ok();
}

impl State {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self, blows: usize) {
        let mut now = self.now();
        now.open -= blows;
        now.calm_since = Some(Instant::now());
        self.changed.notify_all();
    }
}

/// Tells the user, should the thread that strikes fail.
struct Obituary<'s>(&'s State);

impl Drop for Obituary<'_> {
    fn drop(&mut self) {
        self.0.now().dead = true;
        self.0.changed.notify_all();
    }
}
