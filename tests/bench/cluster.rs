//! Generate rules on a real control plane: how long after a Namespace its objects are stored, how many Namespaces per
//! second, and what that costs; beside a bare client that writes the same objects with the same API server and account.
//!
//! A policy with two data rules on Namespace, synchronized: a ConfigMap and a NetworkPolicy each. Everything runs on this
//! machine, the load as well, so only ratios within a run say something.

mod bed;
mod load;
mod observer;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Report;
use bed::{Bed, Usage};
use load::{Client, Timed};
use observer::Observer;

/// Of the bare client's Namespaces per second, Writ must carry so much.
const LEAST_THROUGHPUT: f64 = 0.70;
/// CPU of the API server for a Namespace, in terms of the bare client's.
const MOST_API_SERVER: f64 = 1.3;
const PACE_OF_TARGET: u32 = 50;
const MOST_LATE: Duration = Duration::from_millis(250);
const MOST_MEMORY_MIB: f64 = 60.0;
/// After that nothing more is expected to happen.
const PATIENCE: Duration = Duration::from_secs(600);

struct Scale {
    existing: usize,
    saturated: usize,
    paced: Duration,
}

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let scale = if quick {
        Scale { existing: 200, saturated: 150, paced: Duration::from_secs(3) }
    } else {
        Scale { existing: 2000, saturated: 1000, paced: Duration::from_secs(10) }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure(&scale))
}

async fn measure(scale: &Scale) -> anyhow::Result<Report> {
    let bed = Bed::start()?;
    let client = Client::connect(&bed.kubeconfig(), &bed.account()?).await?;
    let observer = Observer::start(client.kube());
    client.grant().await?;
    let mut page = Page::default();
    page.line("Generate rules on a control plane: 2 data rules on Namespace, synchronized".to_owned());
    page.datum("idle_mib", json!(bed.usage()?.writ_mib));

    let names = client.namespaces("existing", scale.existing).await?;
    let bare = bare_objects(&bed, &client, &observer, &names).await?;
    page.line(format!("{:<44} {:>10} {:>9} {:>9}", "", "seconds", "/s", "of bare"));
    page.line(format!(
        "{:<44} {:>10.1} {:>9.1}",
        format!("bare client, objects for {} namespaces", names.len()),
        bare.seconds(),
        bare.rate(names.len())
    ));
    let new = rolled_out(&bed, &client, &observer, &names, 1).await?;
    let changed = rolled_out(&bed, &client, &observer, &names, 2).await?;
    for (what, key, spent) in
        [("new rule with generateExisting", "existing", &new), ("changed rule", "changed", &changed)]
    {
        let ratio = spent.rate(names.len()) / bare.rate(names.len());
        page.line(format!("{what:<44} {:>10.1} {:>9.1} {:>9.2}", spent.seconds(), spent.rate(names.len()), ratio));
        page.datum(key, json!({"namespaces": names.len(), "seconds": spent.seconds(), "of_bare": ratio}));
    }
    let memory = bed.usage()?.writ_mib;
    page.line(format!("resident memory of Writ at {} namespaces: {memory:.1} MiB", names.len()));
    page.datum("memory_mib", json!(memory));
    page.target(memory < MOST_MEMORY_MIB, format!("{memory:.1} MiB of memory at {} namespaces", names.len()));

    paced(&bed, &client, &observer, scale, &mut page).await?;
    saturated(&bed, &client, &observer, scale, &mut page).await?;
    Ok(page.report())
}

/// Both objects in existing namespaces, written by the bare client under names of its own.
async fn bare_objects(bed: &Bed, client: &Client, observer: &Observer, names: &[String]) -> anyhow::Result<Spent> {
    let begin = Mark::now(bed)?;
    client.write_objects(names, load::BARE).await?;
    let last = observer.wait(names, load::BARE, 1, PATIENCE).await?;
    begin.until(bed, latest(&last))
}

/// The policy for existing namespaces, new or changed, until every namespace shows it.
async fn rolled_out(
    bed: &Bed,
    client: &Client,
    observer: &Observer,
    names: &[String],
    round: u32,
) -> anyhow::Result<Spent> {
    let begin = Mark::now(bed)?;
    client.apply_policy("existing", round).await?;
    let last = observer.wait(names, load::WRIT, round, PATIENCE).await?;
    begin.until(bed, latest(&last))
}

/// Namespaces at a steady pace: how late the last of their objects is.
async fn paced(bed: &Bed, client: &Client, observer: &Observer, scale: &Scale, page: &mut Page) -> anyhow::Result<()> {
    client.apply_policy("paced", 1).await?;
    client.policy_ready("paced").await?;
    page.line(format!(
        "{:<24} {:>9} {:>9} {:>9} {:>14} {:>14}",
        "namespaces per second", "done /s", "p50 ms", "p99 ms", "Writ CPU ms", "server CPU ms"
    ));
    let mut rows = Vec::new();
    for pace in [5, 20, PACE_OF_TARGET, 100] {
        let count = (scale.paced.as_secs_f64() * f64::from(pace)) as usize;
        let begin = Mark::now(bed)?;
        let created = client.create_paced("paced", &format!("paced-{pace}"), pace, count).await?;
        let late = lateness(observer, &created).await?;
        let spent = begin.until(bed, late.last)?;
        let (p50, p99) = (late.percentile(50), late.percentile(99));
        page.line(format!(
            "{pace:<24} {:>9.1} {:>9.0} {:>9.0} {:>14.1} {:>14.1}",
            spent.rate(count),
            millis(p50),
            millis(p99),
            spent.writ_ms(count),
            spent.api_server_ms(count)
        ));
        rows.push(json!({
            "pace": pace, "per_second": spent.rate(count), "p50_ms": millis(p50), "p99_ms": millis(p99),
            "writ_cpu_ms": spent.writ_ms(count), "api_server_cpu_ms": spent.api_server_ms(count),
        }));
        if pace == PACE_OF_TARGET {
            page.target(p99 < MOST_LATE, format!("p99 {:.0} ms at {pace} namespaces per second", millis(p99)));
        }
    }
    page.datum("paced", json!(rows));
    Ok(())
}

/// As many namespaces as go, with Writ and with the bare client.
async fn saturated(
    bed: &Bed,
    client: &Client,
    observer: &Observer,
    scale: &Scale,
    page: &mut Page,
) -> anyhow::Result<()> {
    let count = scale.saturated;
    let begin = Mark::now(bed)?;
    let created = client.create_with_objects("bare", count).await?;
    let names: Vec<String> = created.iter().map(|timed| timed.name.clone()).collect();
    let last = observer.wait(&names, load::BARE, 1, PATIENCE).await?;
    let bare = begin.until(bed, latest(&last))?;

    let begin = Mark::now(bed)?;
    let created = client.create_saturated("paced", "full", count).await?;
    let late = lateness(observer, &created).await?;
    let writ = begin.until(bed, late.last)?;

    let throughput = writ.rate(count) / bare.rate(count);
    let api_server = writ.api_server_ms(count) / bare.api_server_ms(count);
    page.line(format!(
        "{:<24} {:>9} {:>9} {:>9} {:>14} {:>14}",
        "full load", "done /s", "p50 ms", "p99 ms", "Writ CPU ms", "server CPU ms"
    ));
    page.line(format!(
        "{:<24} {:>9.1} {:>9} {:>9} {:>14} {:>14.1}",
        "bare client",
        bare.rate(count),
        "",
        "",
        "",
        bare.api_server_ms(count)
    ));
    page.line(format!(
        "{:<24} {:>9.1} {:>9.0} {:>9.0} {:>14.1} {:>14.1}",
        "Writ",
        writ.rate(count),
        millis(late.percentile(50)),
        millis(late.percentile(99)),
        writ.writ_ms(count),
        writ.api_server_ms(count)
    ));
    page.line(format!("{:<24} {throughput:>9.2} {:>49.2}", "of the bare client's", api_server));
    let memory = bed.usage()?.writ_mib;
    page.line(format!("resident memory of Writ in the end: {memory:.1} MiB"));
    page.datum("full", json!({
        "bare_per_second": bare.rate(count), "writ_per_second": writ.rate(count), "of_bare": throughput,
        "bare_api_server_cpu_ms": bare.api_server_ms(count), "writ_api_server_cpu_ms": writ.api_server_ms(count),
        "writ_cpu_ms": writ.writ_ms(count), "p50_ms": millis(late.percentile(50)), "p99_ms": millis(late.percentile(99)),
        "memory_mib": memory,
    }));
    page.target(throughput >= LEAST_THROUGHPUT, format!("{:.0} % of the bare client's throughput", throughput * 100.0));
    page.target(
        api_server <= MOST_API_SERVER,
        format!("{api_server:.2} times the bare client's CPU of the API server"),
    );
    Ok(())
}

/// How long after each namespace the last of its objects was stored.
struct Lateness {
    sorted: Vec<Duration>,
    last: Instant,
}

async fn lateness(observer: &Observer, created: &[Timed]) -> anyhow::Result<Lateness> {
    let names: Vec<String> = created.iter().map(|timed| timed.name.clone()).collect();
    let last = observer.wait(&names, load::WRIT, 1, PATIENCE).await?;
    let mut sorted: Vec<Duration> =
        created.iter().zip(&last).map(|(timed, last)| last.saturating_duration_since(timed.stored)).collect();
    sorted.sort();
    Ok(Lateness { sorted, last: latest(&last) })
}

impl Lateness {
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1) - 1;
        self.sorted.get(rank).copied().unwrap_or_default()
    }
}

/// The moment when something began, and what had been used by then.
struct Mark {
    at: Instant,
    used: Usage,
}

/// What something took.
struct Spent {
    time: Duration,
    writ: Duration,
    api_server: Duration,
}

impl Mark {
    fn now(bed: &Bed) -> anyhow::Result<Self> {
        Ok(Self { at: Instant::now(), used: bed.usage()? })
    }

    fn until(self, bed: &Bed, end: Instant) -> anyhow::Result<Spent> {
        let used = bed.usage()?;
        Ok(Spent {
            time: end.saturating_duration_since(self.at),
            writ: used.writ.saturating_sub(self.used.writ),
            api_server: used.api_server.saturating_sub(self.used.api_server),
        })
    }
}

impl Spent {
    fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }

    fn rate(&self, count: usize) -> f64 {
        count as f64 / self.seconds().max(0.001)
    }

    fn writ_ms(&self, count: usize) -> f64 {
        millis(self.writ) / count.max(1) as f64
    }

    fn api_server_ms(&self, count: usize) -> f64 {
        millis(self.api_server) / count.max(1) as f64
    }
}

fn latest(moments: &[Instant]) -> Instant {
    moments.iter().max().copied().unwrap_or_else(Instant::now)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The report while it is written.
#[derive(Default)]
struct Page {
    lines: Vec<String>,
    data: serde_json::Map<String, Value>,
    missed: Vec<String>,
}

impl Page {
    fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    fn datum(&mut self, key: &str, value: Value) {
        self.data.insert(key.to_owned(), value);
    }

    fn target(&mut self, met: bool, what: String) {
        if !met {
            self.missed.push(what);
        }
    }

    fn report(self) -> Report {
        Report { table: self.lines.join("\n"), data: Value::Object(self.data), missed: self.missed }
    }
}
