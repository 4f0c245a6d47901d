//! The end of a story: trouble ends, what is under way comes to its end, and full syncs lead to the state that the
//! oracle allows, at which no process has anything to write. A round may end with messages too: trouble is over, each
//! annotated Service has changed, and each process gets a batch about some of them.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::model::Outcome;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::clusterset::{IMPORTS_ALONE, Life, OTHER_REGION};
use super::oracle::{self, clusterset, guard, is_served, publish};
use super::play::{LOOK, QUIET, Scene, page_of};
use super::processes::in_full;
use super::world::{CLUSTERS, NAMES, SHOP};
use crate::multi_cluster::CLUSTER_ID;
use crate::queue::{batch, message};
use testbed::cloud_map::{Behaviour, Call};
use testbed::function::TIMEOUT;

/// After so long nothing that was begun is under way any more, and each process asks anew which APIs a cluster serves and
/// which namespaces there are.
pub const REST: Duration = Duration::from_mins(6);
/// Longer than `GUARD_WAIT`.
const GUARD: Duration = Duration::from_mins(11);

/// Of operations that take longer a run has no time for several one after the other.
const SLOW: Duration = Duration::from_mins(1);

/// Longer than a list of services stands.
const LISTS: Duration = Duration::from_mins(3);

/// The instances that a run reads by one call.
const PAGE: usize = 100;

/// A full sync that nothing disturbs makes at most so many calls for each flow, and so many more for each namespace,
/// service and instance before and after it.
const CALLS: usize = 20;
const CALLS_OF_EACH: usize = 6;
/// And in trouble so many times as many.
const IN_TROUBLE: usize = 2;

/// The ids of services that a good sync did not read.
pub type Unread = Vec<String>;

impl Scene {
    /// All trouble ends, and what is under way comes to its end.
    pub async fn end_trouble(&mut self) -> Result<(), String> {
        let settings = self.world.settings.clone();
        self.world.settings.is_dry = false;
        let is_left_out = |cluster: usize| !oracle::is_served(&self.world, cluster);
        let is_elsewhere = settings.clusters.contains(OTHER_REGION);
        let is_on = self.world.clusterset.is_on;
        let is_half = settings.clusters == IMPORTS_ALONE;
        if is_on && (is_elsewhere || is_half || (0..CLUSTERS.len()).any(is_left_out)) {
            self.world.settings.clusters = "blue,green";
        }
        // What an API server refused once is not sent again by the same process.
        let has_refused = std::mem::take(&mut self.world.clusterset.has_refused);
        if settings != self.world.settings || has_refused {
            self.deploy();
        }
        self.heal();
        let page_limit = page_of(self.max_instance_reads);
        self.behave(|it| *it = Behaviour { page_limit, ..Behaviour::default() });
        for number in 0..CLUSTERS.len() {
            self.cluster(number).give_back();
            if self.world.clusterset.is_on {
                if self.world.clusterset.lives[number] == Life::Terminating {
                    self.go_on(number);
                }
                self.serve_definitions(number);
            }
        }
        if is_on {
            self.state_ids();
        }
        self.finish(REST).await?;
        if is_on {
            // A run that was under way may have written a record under another id since.
            self.state_ids();
        }
        // A full sync beside a purge may make imports again just before the record goes that makes Cloud Map familiar.
        if self.world.clusterset.has_lost_records {
            for process in self.all_clusters(0) {
                self.invoke(process, json!({ "action": "confirm" }), TIMEOUT);
            }
            self.finish(REST).await?;
        }
        self.look()?;
        self.settle();
        self.look()
    }

    /// Each cluster states the id under which it has its record: an id is for life.
    fn state_ids(&mut self) {
        for number in 0..CLUSTERS.len() {
            let id = clusterset::id_of(self, number);
            self.world.clusterset.ids[number] = id;
            self.cluster(number).cluster_property(CLUSTER_ID, id);
        }
    }

    /// What is under way comes to its end, and so much time passes after it: a heartbeat is due at once then, and not
    /// some syncs later.
    pub async fn finish(&mut self, after: Duration) -> Result<(), String> {
        let mut waited = Duration::ZERO;
        let mut rested = Duration::ZERO;
        while rested < after || !self.runs.is_empty() {
            let pause = Duration::from_secs(1);
            sleep(pause).await;
            waited += pause;
            self.runs.retain(|(_, run)| !run.is_finished());
            rested = if self.runs.is_empty() { rested + pause } else { Duration::ZERO };
            self.look_at_changes()?;
            if waited > 8 * TIMEOUT {
                return Err("an invocation does not end within its time".to_owned());
            }
        }
        Ok(())
    }

    /// A full sync beside which nothing happens but trouble: what it may leave to the next one.
    pub async fn sync_in_trouble(&mut self, last: usize) -> Result<Option<Unread>, String> {
        if self.world.settings.is_dry {
            return Ok(None);
        }
        // What was begun is done only some time after the run that began it.
        self.finish(Duration::ZERO).await?;
        if self.world.clusterset.is_on {
            self.heal();
            self.finish(REST).await?;
            let stood = clusterset::Stood::of(self);
            let report = self.direct(last % self.agreeing(), IN_TROUBLE).await?;
            stood.at_rest(self)?;
            clusterset::obstacles(self, &report)?;
            return Ok(None);
        }
        // Of several namespaces of one name a process may know one alone until it lists them again.
        let names: BTreeSet<&str> = self.world.namespaces.iter().map(|it| it.name).collect();
        let is_one_each = names.len() == self.world.namespaces.len();
        self.finish(if is_one_each { QUIET } else { REST }).await?;
        let report = self.direct(last % self.agreeing(), IN_TROUBLE).await?;
        Ok(self.may_leave(&report))
    }

    /// `None` if a sync says that something is left to do. Else it leaves what it may not read, and says so: a service
    /// in which its process has seen nothing of ours (`~ not read` in docs/runbook.md).
    fn may_leave(&self, report: &Report) -> Option<Unread> {
        if !report.ok || report.counts.held_back > 0 || self.max_instance_reads.is_some() {
            return None;
        }
        Some(self.unread(report))
    }

    pub fn unread(&self, report: &Report) -> Unread {
        let services = report.clusters.iter().flat_map(|it| &it.services);
        let unread = services.filter(|it| {
            it.lines.iter().any(|line| line.sign == '~' && line.outcome == Outcome::Unread)
        });
        let unread: BTreeSet<_> = unread.map(|it| (it.namespace.clone(), &*it.name)).collect();
        let all = self.fleet.all_services().into_iter();
        let all = all.filter(|(namespace, it)| unread.contains(&(namespace.clone(), &*it.name)));
        all.map(|(_, it)| it.id).collect()
    }

    /// The report of one full sync: each cluster is served once, and no service stays unread in a good one in which its
    /// process saw something of ours.
    fn reported(&self, number: usize, report: Report) -> Result<Report, String> {
        let clusters: BTreeSet<&String> = report.clusters.iter().map(|it| &it.cluster).collect();
        if clusters.len() < report.clusters.len() {
            return Err(format!("a cluster is served twice:\n{report}"));
        }
        if !report.ok {
            return Ok(report);
        }
        // Of two services of one name in namespaces of one name the report does not say which it is about.
        let calls = self.fleet.cloud_map.calls().into_iter();
        let lists = calls.filter(|it| it.operation == "ListInstances" && it.status == 200);
        let read: BTreeSet<String> = lists.filter_map(|it| it.service).collect();
        let mut unread = self.unread(&report);
        let mut ours = self.processes[number].ours.borrow_mut();
        unread.retain(|it| !read.contains(it));
        if let Some(unread) = unread.iter().find(|it| ours.contains(*it)) {
            return Err(format!("a sync is good that did not read {unread} of ours:\n{report}"));
        }
        let is_ours = |id: &&String| {
            let mut instances = self.fleet.cloud_map.instances(id).into_values();
            let of_served = |(cluster, _): (usize, &str)| oracle::is_served(&self.world, cluster);
            instances.any(|it| oracle::marks(&self.world, &it).is_some_and(of_served))
        };
        let used = self
            .world
            .namespaces
            .iter()
            .filter(|it| !it.is_withdrawn && self.world.is_used(&it.id));
        let services = used.flat_map(|it| self.fleet.cloud_map.services(&it.id)).map(|it| it.id);
        let services: Vec<String> = services.filter(|it| !unread.contains(it)).collect();
        ours.extend(services.iter().filter(is_ours).cloned());
        drop(ours);
        Ok(report)
    }

    /// One full sync, whose rules hold on the way.
    pub async fn sync(&mut self, number: usize) -> Result<Report, String> {
        // Health that was reported is shown a moment later.
        sleep(Duration::from_secs(1)).await;
        let Some(reads) = self.max_instance_reads else { return self.direct(number, 1).await };
        // No list stands for so long.
        self.wait(LISTS).await;
        // As many as read each service once, and what came meanwhile.
        let instances = |id: String| self.fleet.cloud_map.instances(&id).len();
        let services = self.service_ids().into_iter();
        let pages: Vec<usize> = services.map(|it| instances(it).div_ceil(PAGE).max(1)).collect();
        for _ in 0..=pages.into_iter().sum::<usize>().div_ceil(reads) {
            self.direct(number, 1).await?;
        }
        self.direct(number, 1).await
    }

    /// Such a sync, of at most so many times the calls that are enough.
    async fn direct(&mut self, number: usize, times: usize) -> Result<Report, String> {
        let before = self.size();
        self.fleet.cloud_map.forget_calls();
        let report = self.alone(number, json!({ "action": "sync" })).await?;
        // Operations that take long are asked about for as long.
        let is_counted = |it: &Call| self.slowest <= SLOW || it.operation != "GetOperation";
        let calls = self.fleet.cloud_map.calls().into_iter().filter(is_counted).count();
        let size = before + self.size();
        let flows = if self.world.clusterset.is_on { 2 } else { 1 };
        let most = times * (flows * CALLS + CALLS_OF_EACH * size);
        if calls > most {
            return Err(format!("an invocation makes {calls} calls, and {most} are enough"));
        }
        self.reported(number, report)
    }

    /// The report of an invocation beside which nothing happens.
    pub async fn alone(&mut self, number: usize, payload: Value) -> Result<Report, String> {
        let process = self.processes[number].clone();
        let run = spawn_local(async move { Box::pin(process.invoke(&payload, TIMEOUT)).await });
        while !run.is_finished() {
            sleep(LOOK).await;
            self.look_at_changes()?;
        }
        let answer = run.await.map_err(|error| format!("an invocation panicked: {error}"))?;
        let answer = answer.ok_or("an invocation does not end within its time")?;
        answer.report.ok_or_else(|| "an invocation has no report".to_owned())
    }

    /// The number of namespaces, services and instances.
    fn size(&self) -> usize {
        let cloud_map = &self.fleet.cloud_map;
        let of_service = |id: String| 1 + cloud_map.instances(&id).len();
        let services: usize = self.service_ids().into_iter().map(of_service).sum();
        cloud_map.namespaces().len() + services
    }

    /// Within two full syncs all is as the oracle has it, exports and imports after one, and then no process has anything
    /// to write. A sync that says that nothing is left to do leaves nothing to the next one.
    pub async fn come_to_rest(
        &mut self,
        last: usize,
        left: Option<&[String]>,
    ) -> Result<(), String> {
        let start = self.registry();
        let stood = clusterset::Stood::of(self);
        let shown = |problem: String, reports: &[Report]| {
            let reports: Vec<_> = reports.iter().map(in_full).collect();
            format!("{problem}\n{}", reports.join("\n"))
        };
        let mut reports = self.sync_all(last).await?;
        let first = self.registry();
        let stood_first = clusterset::Stood::of(self);
        self.nothing_was_left(left).map_err(|it| shown(it, &reports))?;
        let left: Option<Vec<Unread>> = reports.iter().map(|it| self.may_leave(it)).collect();
        let left = left.filter(|_| !self.world.clusterset.is_on).map(|it| it.concat());
        // A loss of imports is seen after that of exports: by another function, or if the latter has become a small one
        // among new instances. A loss that has grown since it was noted waits anew.
        let is_held = |it: &Report| {
            let mut guards = it.clusters.iter().filter_map(|it| it.guard.as_ref());
            guards.any(|it| it.state.holds())
        };
        let clusterset = &self.world.clusterset;
        let are_two = clusterset.is_apart || clusterset.is_on && reports.iter().any(is_held);
        let was_noted = stood.is_noted() || guard::is_noted_anywhere(&self.world, &start);
        let waits = 1 + usize::from(are_two) + usize::from(was_noted);
        for _ in 0..if self.world.settings.guard_minimum < 1000 { waits } else { 0 } {
            self.wait(GUARD).await;
            for cluster in guard::unnoted(&self.world, &self.registry()) {
                let arn = self.fleet.sandbox.cluster_arn(CLUSTERS[cluster]);
                let process = if self.world.clusterset.is_apart { cluster } else { last };
                let confirm = json!({ "action": "confirm", "cluster": arn });
                self.invoke(process % self.agreeing(), confirm, TIMEOUT);
                self.finish(QUIET).await?;
            }
            reports.extend(self.sync_all(last).await?);
        }
        // Of several namespaces of one name a Service may take the one into which others have gone just before.
        let is_choosing = |it: &Report| {
            let lines = it.clusters.iter().flat_map(|it| &it.lines);
            it.counts.registered > 0 && { lines }.any(|it| it.code == "NamespaceAmbiguous")
        };
        for _ in 0..CLUSTERS.len() * NAMES.len() {
            if !reports.last().is_some_and(is_choosing) {
                break;
            }
            reports.extend(self.sync_all(last).await?);
        }
        let is_whole = self.world.clusterset.is_on && self.world.settings.policy == "sync";
        // Endpoints, their record and that of the cluster go one after the other: a run has no time for three operations.
        if is_whole && self.slowest > SLOW {
            reports.extend(self.sync_all(last).await?);
        }
        if is_whole {
            clusterset::at_rest(self).map_err(|it| shown(it, &reports))?;
        }
        reports.extend(self.sync_all(last).await?);
        self.nothing_was_left(left.as_deref()).map_err(|it| shown(it, &reports))?;
        let rest = self.registry();
        publish::at_rest(&self.world, &start, &rest).map_err(|it| shown(it, &reports))?;
        stood.at_rest(self).map_err(|it| shown(it, &reports))?;
        guard::held(&self.world, &start, &first, &rest).map_err(|it| shown(it, &reports))?;
        if is_whole {
            let left = clusterset::Stood::of(self);
            let minimum = self.world.settings.guard_minimum;
            let is_apart = self.world.clusterset.is_apart;
            let guarded = stood.is_guarded((&stood_first, is_apart), &left, minimum);
            guarded.map_err(|it| shown(it, &reports))?;
            clusterset::at_rest(self).map_err(|it| shown(it, &reports))?;
        }
        // Under another policy the records under a former id stay, which then is no other cluster's.
        let stays_taken =
            self.world.settings.policy != "sync" && !clusterset::with_taken_ids(self).is_empty();
        if !stays_taken && reports.last().is_none_or(|it| !it.ok) {
            return Err(shown("the last full sync is not good".to_owned(), &reports));
        }
        for number in 0..self.agreeing() {
            reports.push(self.sync(number).await?);
            let has_removed = self.fleet.cloud_map.writes() > 0;
            let mut writes = self.take_writes_but(|it| self.is_seen_late(it));
            // Each process learns once what an API server refuses, and removes what it alone has seen.
            if (has_removed || !writes.is_empty()) && writes.iter().all(|it| it.ends_with(" 422")) {
                reports.push(self.sync(number).await?);
                writes = self.take_writes();
            }
            if !writes.is_empty() {
                return Err(shown(format!("at rest process {number} writes {writes:?}"), &reports));
            }
        }
        Ok(())
    }

    /// Whether a call removes what only a process that saw it there reads.
    fn is_seen_late(&self, call: &Call) -> bool {
        let is_elsewhere = |id: &&String| {
            let mut clusters = 0..CLUSTERS.len();
            clusters.any(|it| publish::is_of_another_account(&self.world, it, id))
        };
        let theirs = self.world.namespaces.iter().map(|it| &it.id).filter(is_elsewhere);
        let mut services = theirs.flat_map(|id| self.fleet.cloud_map.services(id));
        call.operation == "DeregisterInstance"
            && services.any(|it| call.service.as_ref() == Some(&it.id))
    }

    /// After a sync that says that nothing is left to do the next one writes nothing, but in the services that it may
    /// leave. A TTL rises one sync after another cluster has left the name.
    fn nothing_was_left(&self, left: Option<&[String]>) -> Result<(), String> {
        let is_left = |it: &Call| {
            let unread = left.zip(it.service.as_ref());
            it.operation == "UpdateService"
                || self.is_seen_late(it)
                || unread.is_some_and(|(all, it)| all.contains(it))
        };
        match &self.take_writes_but(is_left)[..] {
            writes if left.is_some() && !writes.is_empty() => {
                Err(format!("after a good sync the next one writes {writes:?}"))
            }
            _ => Ok(()),
        }
    }

    async fn sync_all(&mut self, last: usize) -> Result<Vec<Report>, String> {
        let mut reports = Vec::new();
        for process in self.all_clusters(last) {
            reports.push(self.sync(process).await?);
        }
        Ok(reports)
    }
}

impl Scene {
    /// What is under way has come to its end before, and so has nothing else a part in what the messages lead to.
    pub async fn hear_of_all(&mut self) -> Result<Option<Unread>, String> {
        let is_certain = self.max_instance_reads.is_none() && !self.is_long;
        if self.world.settings.is_dry || self.world.clusterset.is_on || !is_certain {
            return Ok(None);
        }
        self.finish(std::time::Duration::ZERO).await?;
        // Until it lists them anew, a process does not know of a second namespace of a name.
        let names: BTreeSet<_> = self.world.namespaces.iter().map(|it| it.name).collect();
        let has_twins = names.len() < self.world.namespaces.len();
        let under_way = self.slowest + self.behaviour.list_lag;
        self.finish(if has_twins { REST } else { under_way }).await?;
        self.heal();
        self.behave(|it| *it = Behaviour::default());
        (0..CLUSTERS.len()).for_each(|number| self.cluster(number).give_back());
        for place in self.world.services.keys().copied().collect::<Vec<_>>() {
            self.change(place, |it| it.claim.team = Some("late"));
        }
        let before = self.registry();
        let mut is_read = true;
        for process in 0..self.agreeing() {
            let served = self.world.services.keys().filter(|it| is_served(&self.world, it.0));
            let of_process = served.filter(|it| (it.0 + it.1) % self.agreeing() == process);
            let messages = of_process.map(|(cluster, name)| {
                let cluster = CLUSTERS[*cluster];
                let name = NAMES[*name];
                let body = json!({"cluster": cluster, "namespace": SHOP, "service": name});
                message(&format!("{cluster}-{name}"), &body)
            });
            let messages: Vec<_> = messages.collect();
            if !messages.is_empty() {
                let report = self.alone(process, batch(&messages)).await?;
                // A process may remember for a while that it may not read something.
                is_read &= report.clusters.iter().all(|it| it.error.is_none());
                is_read &= self.unread(&report).is_empty();
            }
        }
        if is_read {
            publish::after_messages(&self.world, &before, &self.registry())?;
        }
        Ok(None)
    }
}
