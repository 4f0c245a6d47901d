//! What is to be reached, what this run measured of it, and why it is not reached where it is not.
//!
//! How long deciding alone takes: what `cargo bench -p testbed --bench planning` left, where it measured this build.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::clustersets;
use crate::overlapping::{BESIDE_A_FIRST_SYNC, THREE_SYNCS};
use crate::report::Report;
use crate::sizes::Sizes;
use crate::table::{Events, Row, Table, count};
use crate::world::{
    ALL_ANNOTATED, FEW_INSTANCES, FIFTY_NAMESPACES, GROWING, LARGE, LARGE_CLUSTER,
    LARGE_UNDER_QUOTAS, MANY_INSTANCES, SMALL, SMALL_UNDER_QUOTAS, TEN_THOUSAND, WITHOUT_MESSAGES,
    WORLDS, World,
};

/// A figure that is to stay at or below another.
pub struct Aim {
    what: String,
    limit: f64,
    measured: f64,
    unit: &'static str,
    /// What keeps it from being reached, without figures.
    why: &'static str,
}

/// ExternalDNS v0.21 in 200 x 5 against another stand-in with 20 ms a call, for runs without its binary.
pub const REFERENCE: [Reference; 2] =
    [Reference { calls: 1204, seconds: 27.0 }, Reference { calls: 203, seconds: 4.7 }];

/// A run of ExternalDNS that was measured elsewhere.
#[derive(Clone, Copy)]
pub struct Reference {
    /// To Cloud Map.
    pub calls: usize,
    /// From its start to its end.
    pub seconds: f64,
}

/// With fewer calls the processor time, which Linux counts in hundredths of a second, is too short to divide.
const MANY: usize = 1000;

/// One call for each service, and the lists.
const FEWEST_CALLS_IN_STEP: f64 = 204.0;

const MANY_CALLS: &str = "Something is read more than once.";
const SLOW: &str = "The processor of this machine, which the stand-ins share, is the limit.";
const READ_TWICE: &str = "Something is read again before the writes.";
const FIRST_SYNC_MEMORY: &str = "A first sync holds the endpoints, every change until it is made, and every line of \
     the report. The response, which is the report, is written while its lines are there.";
const IN_STEP_MEMORY: &str = "The registry and what is desired are both held whole.";
const ONE_AFTER_ANOTHER: &str = "Lists, creations and registrations each wait for rates of their own, and not all of \
     one can be made while another waits.";
const LATE_INSTANCES: &str = "The instances of a service can only be read once it is listed, and a new process asks \
     for the namespace of each service first.";
const NAMESPACE_ASKED: &str = "A new process asks for the namespace of each service, which takes none of the rates of \
     the reads that follow. Lists by namespace would be fewer calls, and wait longer for their own rate.";
const LISTED_APART: &str = "Namespaces are listed by themselves.";
const UNKNOWN_RATES: &str = "A new process does not know what is left of the account's rates. Right after another has \
     used them up, some of its calls are throttled until it knows.";
const IMPORTS_WAIT: &str = "The imports of a cluster are written in the same run as its exports are registered, and the \
     processor is shared.";
const READ_FIRST: &str =
    "A full sync compares the whole cluster with what the process knows before its first read.";
const GROWS: &str = "Something is read that the pod has nothing to do with.";
const AT_ONCE: &str = "Each process registers what it does not see registered yet.";
const SHARED_RATES: &str = "The other process uses its part of the account's rates.";
const DECIDING: &str = "Each instance is matched with its endpoint by address and port, and compared by its attributes.";
const CALLS: &str = "Signing, sending and reading a call, and decoding its answer, are most of it.";
const GROWTH: &str = "What a run holds does not fit into the processor's caches.";
const START: &str = "The function reads the TLS roots, and its binary is many times the size. Lambda gives the start \
     more processor than an invocation, so the roots and the clients' configuration are read there.";
const SIZE: &str = "The clients of AWS and of Kubernetes are most of it.";

impl Aim {
    fn new(what: &str, limit: f64, measured: f64, unit: &'static str, why: &'static str) -> Self {
        Self { what: what.to_owned(), limit, measured, unit, why }
    }

    /// Why it is not reached, where it is not.
    pub fn shortfall(&self) -> Option<String> {
        (!self.is_reached()).then(|| format!("- {}: {}", self.what, self.why))
    }

    fn is_reached(&self) -> bool {
        self.measured <= self.limit
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit, measured, unit, .. } = self;
        let reached = if self.is_reached() { "yes" } else { "**no**" };
        let places = if unit.is_empty() { 0 } else { 2 };
        write!(f, "| {what} | {limit:.places$}{unit} | {measured:.places$}{unit} | {reached} |")
    }
}

/// All aims of which this run measured something.
pub fn aims(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    if let Some(small) = report.table(SMALL) {
        aims.extend(beside_external_dns(report, small));
        aims.extend(warm_events(small));
    }
    aims.extend(under_quotas(report));
    aims.extend(many_namespaces(report));
    aims.extend(one_pod(report));
    aims.extend(overlapping(report));
    aims.extend(processor_time(report));
    aims.extend(memory(report));
    aims.extend(across_clusters(report));
    let zip = f64::from(report.binary.zipped) / 1e6;
    let what = "Start, of that of a function that does nothing";
    let ratio = report.start.as_ref().map(|start| start.function.0 / start.bare.0);
    aims.extend(ratio.map(|ratio| Aim::new(what, 2.2, ratio, " x", START)));
    aims.push(Aim::new("The binary, zipped", 6.5, zip, " MB", SIZE));
    aims
}

fn beside_external_dns(report: &Report, small: &Table) -> Vec<Aim> {
    let beside = report.beside(SMALL);
    let seconds = |name, reference: Reference| {
        beside.and_then(|table| table.row(name)).map_or(reference.seconds, Row::seconds)
    };
    let mut aims = Vec::new();
    if let Some(row) = small.row("in step, cold") {
        let calls = count(row.number_of_calls());
        let theirs = seconds(row.name, REFERENCE[1]);
        let what = "Calls of 200 x 5 in step, cold";
        aims.push(Aim::new(what, FEWEST_CALLS_IN_STEP, calls, "", MANY_CALLS));
        let what = "200 x 5 in step, cold: a tenth of ExternalDNS's time";
        aims.push(Aim::new(what, theirs / 10.0, row.seconds(), " s", SLOW));
    }
    if let Some(row) = small.row("first sync") {
        let theirs = seconds(row.name, REFERENCE[0]);
        let what = "First sync of 200 x 5: a tenth of ExternalDNS's time";
        aims.push(Aim::new(what, theirs / 10.0, row.seconds(), " s", SLOW));
    }
    aims
}

fn warm_events(small: &Table) -> Option<Aim> {
    let reads = count(small.events.as_ref()?.reads_before_writes);
    let what = "One pod changed, warm: Cloud Map reads before the writes";
    Some(Aim::new(what, 1.0, reads, "", READ_TWICE))
}

/// What many namespaces cost beside the instances in them.
fn many_namespaces(report: &Report) -> Vec<Aim> {
    let warm = |world| report.table(world).and_then(|table| table.row("in step, warm"));
    let time = warm(LARGE_UNDER_QUOTAS).map(|row| {
        let what = "1,000 x 20 in ten namespaces under quotas, in step, warm: 1.1 x what ListInstances alone forces";
        Aim::new(what, 20.9, row.seconds(), " s", LISTED_APART)
    });
    let cold = report.table(LARGE).and_then(|table| table.row("in step, cold"));
    let what = "Calls of 1,000 x 20 in ten namespaces in step, cold";
    let cold =
        cold.map(|row| Aim::new(what, 1101.0, count(row.number_of_calls()), "", NAMESPACE_ASKED));
    let lists = warm(FIFTY_NAMESPACES).map(|row| {
        let what = "2,000 services in fifty namespaces, in step, warm: ListServices calls";
        let calls = row.calls.get("ListServices").copied().unwrap_or_default();
        Aim::new(what, 21.0, count(calls), "", LISTED_APART)
    });
    time.into_iter().chain(cold).chain(lists).collect()
}

/// One pod that a full sync finds; one among 20,000 instances, and what it costs among ten.
fn one_pod(report: &Report) -> Vec<Aim> {
    let events = |world| report.table(world).and_then(|table| table.events.as_ref());
    let calls = |events: &Events| count(events.calls.values().sum());
    let found = WITHOUT_MESSAGES.iter().filter_map(|(services, world, limit)| {
        let what =
            format!("{services} Services: one changed without a message, p99 until registered");
        Some(Aim::new(&what, *limit, events(world)?.percentile_registered(99), " ms", READ_FIRST))
    });
    let found: Vec<Aim> = found.chain(large_cloud_maps(report)).collect();
    let Some(many) = events(MANY_INSTANCES) else { return found };
    let what = "One pod changed among 20,000 instances, warm: calls, of those among ten";
    let few = events(FEW_INSTANCES).map(calls);
    let ratio = few.map(|few| Aim::new(what, 1.0, calls(many) / few, " x", GROWS));
    let what =
        "One pod changed among 20,000 instances, operations of two seconds: p99 until registered";
    let p99 = Aim::new(what, 2500.0, many.percentile_registered(99), " ms", SLOW);
    found.into_iter().chain(ratio).chain([p99]).collect()
}

/// Cloud Maps of which a run reads a part.
fn large_cloud_maps(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    let warm = report.table(TEN_THOUSAND).and_then(|table| table.row("in step, warm"));
    let what = "10,000 Services: calls of a full sync in step, warm";
    aims.extend(warm.map(|row| Aim::new(what, 620.0, count(row.number_of_calls()), "", GROWS)));
    aims
}

fn under_quotas(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    let mut throttled: Vec<f64> = Vec::new();
    let clusterset = "3 clusters x 100 exports x 10";
    for (world, name, run, why) in [
        (SMALL_UNDER_QUOTAS, "200 x 10", "first sync", ONE_AFTER_ANOTHER),
        (SMALL_UNDER_QUOTAS, "200 x 10", "in step, cold", LATE_INSTANCES),
        (LARGE_UNDER_QUOTAS, "1,000 x 20", "first sync", ONE_AFTER_ANOTHER),
        (LARGE_UNDER_QUOTAS, "1,000 x 20", "in step, cold", LATE_INSTANCES),
        (clustersets::UNDER_QUOTAS, clusterset, "first sync", ONE_AFTER_ANOTHER),
    ] {
        let Some(row) = report.table(world).and_then(|table| table.row(run)) else { continue };
        let what = format!("{name} under quotas, {run}: time, of that which the rates force");
        aims.extend(row.ratio().map(|ratio| Aim::new(&what, 1.25, ratio, " x", why)));
        throttled.push(row.throttled_percent());
    }
    let most = throttled.into_iter().max_by(f64::total_cmp);
    let what = "Throttled calls of these full syncs, the most";
    aims.extend(most.map(|most| Aim::new(what, 1.0, most, " %", UNKNOWN_RATES)));
    aims
}

/// Processes that sync at the same time.
fn overlapping(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    let three = report.table(THREE_SYNCS).and_then(|table| table.row("first sync"));
    if let Some(registrations) = three.and_then(|row| row.calls.get("RegisterInstance")) {
        let of_one = World::named(SMALL_UNDER_QUOTAS).instances();
        let what = "Three first syncs of 200 x 10 at once: registrations, of those of one";
        let ratio = count(*registrations) / count(of_one);
        aims.push(Aim::new(what, 1.2, ratio, " x", AT_ONCE));
    }
    let beside = report.table(BESIDE_A_FIRST_SYNC).and_then(|table| table.events.as_ref());
    let what = "One pod of a cluster, beside the first sync of 20,000 of another: until registered";
    aims.extend(beside.map(|events| {
        Aim::new(what, 10.0, events.percentile_registered(99) / 1000.0, " s", SHARED_RATES)
    }));
    aims
}

/// The processor time of an instance, of a call and of a run.
fn processor_time(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    for size in Deciding::measured().into_iter().flat_map(|deciding| deciding.0) {
        let what = format!("Deciding in step, {}: processor time of an instance", size.name);
        aims.push(Aim::new(&what, 4.0, size.in_step_of_an_instance(), " us", DECIDING));
    }
    let with_calls = WORLDS.iter().chain(GROWING).filter(|world| !world.quotas);
    let firsts = with_calls.filter_map(|world| {
        let row = report.table(world.name)?.row("first sync")?;
        (row.number_of_calls() >= MANY).then_some(row)
    });
    let of_calls =
        firsts.map(|row| 1000.0 * row.used.processor_time / count(row.number_of_calls()));
    let what = "First sync of any size: processor time of a call, the most";
    let most = of_calls.max_by(f64::total_cmp);
    aims.extend(most.map(|most| Aim::new(what, 0.15, most, " ms", CALLS)));
    let warm = report.table(LARGE).and_then(|table| table.row("in step, warm"));
    let what = "1,000 x 20 in step, warm: processor time";
    aims.extend(warm.map(|row| Aim::new(what, 0.35, row.used.processor_time, " s", CALLS)));
    let what = "Above 1,000 instances: the growth of processor time, of that of the instances";
    let steepest = Sizes::of(report).steepest_step();
    aims.extend(steepest.map(|steepest| Aim::new(what, 1.2, steepest, " x", GROWTH)));
    aims
}

fn across_clusters(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    let world = "3 clusters x 100 exports x 10";
    if let Some(table) = report.table(clustersets::UNDER_QUOTAS) {
        let ready = table.imports.as_ref().map(|imports| imports.ready.as_secs_f64());
        let what = format!("{world} under quotas, first sync: every import has its endpoints");
        aims.extend(ready.map(|ready| Aim::new(&what, 20.0, ready, " s", IMPORTS_WAIT)));
    }
    if let Some(row) = report.table(clustersets::FREE).and_then(|it| it.row("in step, cold")) {
        let what = format!("Calls of {world} in step, cold");
        aims.push(Aim::new(&what, 117.0, count(row.number_of_calls()), "", MANY_CALLS));
        let what = format!("Peak memory of {world}, in step, cold");
        aims.push(Aim::new(&what, 64.0, row.used.peak_memory, " MB", IN_STEP_MEMORY));
    }
    let imports = report.table(clustersets::FREE).and_then(|it| it.imports.as_ref());
    if let Some(imports) = imports {
        let what = format!("Requests to each cluster of {world} in step, cold");
        aims.push(Aim::new(&what, 12.0, count(imports.requests), "", MANY_CALLS));
    }
    for (name, world) in [("2", clustersets::TWO), ("8", clustersets::EIGHT)] {
        let events = report.table(world).and_then(|table| table.events.as_ref());
        let what =
            format!("One pod changed, {name} clusters: p99 until the slices of the others have it");
        aims.extend(events.map(|it| Aim::new(&what, 300.0, it.percentile(99), " ms", SLOW)));
    }
    aims
}

/// Of a process that makes all runs in a world.
fn memory(report: &Report) -> Vec<Aim> {
    let worlds = [
        (LARGE, "1,000 x 20", 64.0),
        (LARGE_CLUSTER, "1,000 x 10 in the large cluster", 96.0),
        (ALL_ANNOTATED, "10,000 x 10, all annotated", 448.0),
    ];
    let measured = worlds.into_iter().filter_map(|(world, name, most)| {
        let peak = report.table(world)?.peak_memory();
        let what = format!("Peak memory of {name}, all runs");
        Some(Aim::new(&what, most, peak, " MB", FIRST_SYNC_MEMORY))
    });
    measured.collect()
}

/// What Criterion measured.
pub struct Deciding(Vec<Size>);

/// One size of world.
struct Size {
    name: String,
    instances: usize,
    /// In milliseconds, the medians.
    nothing_registered: f64,
    in_step: f64,
}

impl Deciding {
    /// `None` where it was not measured since this build.
    pub fn measured() -> Option<Self> {
        let built = std::env::current_exe().ok()?;
        let since = std::fs::metadata(&built).ok()?.modified().ok()?;
        // target/release/deps/syncs-<hash>
        let criterion = built.ancestors().nth(3)?.join("criterion/plan");
        let sizes = [("1000 x 20", 20_000), ("10000 x 50", 500_000)];
        let sizes =
            sizes.map(|(name, instances)| Size::measured(&criterion, name, instances, since));
        Some(Self(sizes.into_iter().collect::<Option<_>>()?))
    }
}

impl Size {
    fn measured(criterion: &Path, name: &str, instances: usize, since: SystemTime) -> Option<Self> {
        let estimates = |world: &str| criterion.join(world).join(name).join("new/estimates.json");
        let nothing_registered = median(&estimates("nothing registered"), since)?;
        let in_step = median(&estimates("in step"), since)?;
        Some(Self { name: name.to_owned(), instances, nothing_registered, in_step })
    }

    /// In microseconds.
    fn in_step_of_an_instance(&self) -> f64 {
        1000.0 * self.in_step / count(self.instances)
    }
}

/// In milliseconds.
fn median(estimates: &PathBuf, since: SystemTime) -> Option<f64> {
    let written = std::fs::metadata(estimates).ok()?.modified().ok()?;
    let text = std::fs::read_to_string(estimates).ok().filter(|_| written >= since)?;
    let estimates: Value = serde_json::from_str(&text).ok()?;
    Some(estimates["median"]["point_estimate"].as_f64()? / 1e6)
}

impl fmt::Display for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Size { name, nothing_registered, in_step, .. } in &self.0 {
            writeln!(
                f,
                "- {name}: {nothing_registered:.0} ms if nothing is registered, {in_step:.0} ms in step."
            )?;
        }
        Ok(())
    }
}
