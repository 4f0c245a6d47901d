//! The report of one cluster, from a plan and the outcomes of its changes, and its Events: a warning for each Service
//! and reason for which something is held back, and news for each Service and name whose instances the run changed.
//!
//! The changes of a group become lines of the report when the group ends. A change with its attributes is several times
//! as large as a line, and a first sync makes tens of thousands of changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::guard::total;
use crate::model::{
    Desired, EMPTIED, Kind, Line, Notice, NoticeKind, Outcome, Place, ServiceRef, Timestamp, Verb,
    join,
};
use crate::publish::group::SettledChange;
use crate::publish::plan::{
    Change, GuardStatus, HeldBack, Observation, Plan, Reason, ResolvedBy, Stage, unread,
};
use crate::report::{ClusterReport, Counts, GuardReport, LosingService, ServiceReport};

/// The report of a plan that was not carried out.
pub fn of_plan(cluster: &str, mut plan: Plan) -> ClusterReport {
    let mut lines = ChangeLines::default();
    for (service, changes) in std::mem::take(&mut plan.changes) {
        lines.extend(changes.into_iter().map(|change| SettledChange {
            service: service.clone(),
            change,
            outcome: Ok(Outcome::Planned),
        }));
    }
    of_results(cluster, plan, lines)
}

/// Adds the age of the oldest read that the report rests on, and the number of services that were never read.
pub fn with_reads(report: ClusterReport, observation: &Observation) -> ClusterReport {
    let oldest = observation.registry.oldest_read();
    let age = oldest.map(|oldest| observation.now.as_second() - oldest.as_second());
    let oldest_read = usize::try_from(age.unwrap_or_default()).unwrap_or_default();
    let unread = observation.registry.never_read();
    let unread_names = unread::never_read_names(observation);
    ClusterReport { unread, unread_names, oldest_read, ..report }
}

/// The report of a plan and the outcomes of its changes.
pub fn of_results(cluster: &str, plan: Plan, lines: ChangeLines) -> ClusterReport {
    let mut services: BTreeMap<Place, ServiceReport> = BTreeMap::new();
    let mut held_back = plan.held_back;
    let mut refusals = BTreeSet::new();
    let mut differences = BTreeMap::new();
    for (place, lines) in lines.0 {
        let service = at(&mut services, &place);
        service.rejected = lines.rejected;
        service.lines = lines.changes.into_iter().map(|(_, line)| line).collect();
        service.lines.shrink_to_fit();
        for (_, _, line) in lines.held_back {
            if held_back.binary_search(&line).is_err() {
                refusals.insert(line);
            }
        }
        differences.insert(place, lines.difference);
    }
    for (place, unchanged) in plan.unchanged {
        let difference = differences.get(&place).copied().unwrap_or_default();
        let service = at(&mut services, &place);
        service.unchanged = unchanged.ours;
        service.foreign = unchanged.foreign;
        let unreadable = unchanged.unreadable.into_iter().map(|problem| ('!', problem));
        let left_unread = unchanged.left_unread.into_iter().map(|problem| ('~', problem));
        for (sign, problem) in unreadable.chain(left_unread) {
            service.lines.push(Line::new(sign, "Unreadable", problem, Outcome::Unread));
        }
        if is_emptied(unchanged.present, difference) {
            let text = "no instance is left under this name";
            service.lines.push(Line::new('!', EMPTIED, text, Outcome::Remark));
        }
    }
    held_back.extend(refusals);
    let mut without_place = Vec::new();
    for held_back in held_back {
        match held_back.place.clone() {
            Some(place) => at(&mut services, &place).lines.push(held_back.into()),
            None => without_place.push(held_back.into()),
        }
    }
    let mut report = ClusterReport {
        cluster: cluster.to_owned(),
        guard: plan.guard.as_deref().map(GuardReport::from),
        services: services.into_values().collect(),
        lines: without_place,
        ..ClusterReport::default()
    };
    report.counts = Counts::of(&report);
    report
}

fn at<'a>(
    services: &'a mut BTreeMap<Place, ServiceReport>,
    place: &Place,
) -> &'a mut ServiceReport {
    services.entry(place.clone()).or_insert_with(|| ServiceReport {
        namespace: place.namespace.clone(),
        name: place.name.clone(),
        ..ServiceReport::default()
    })
}

/// Whether the last instance of any party was removed from a name, or would be, and none was registered.
fn is_emptied(present: usize, difference: isize) -> bool {
    difference < 0 && present.saturating_add_signed(difference) == 0
}

impl From<HeldBack> for Line {
    fn from(HeldBack { service, reason, .. }: HeldBack) -> Self {
        let outcome = reason.outcome();
        let sign = if outcome == Outcome::Remark { '~' } else { '!' };
        Self::new(sign, reason.code(), reason.to_string(), outcome).about(service)
    }
}

impl From<&GuardStatus> for GuardReport {
    fn from(status: &GuardStatus) -> Self {
        let GuardStatus { run, verdict, .. } = status;
        let services = verdict.losses().iter().map(|(service, loss)| LosingService {
            service: service.clone(),
            instances: loss.lost,
        });
        Self {
            state: verdict.state,
            loss: total(verdict.losses()),
            instances: verdict.instances,
            share: run.guard.share,
            minimum: run.guard.minimum,
            first_seen: status.first_seen().map(|time| time.to_string()),
            needs_operator: status.needs_operator(),
            lifts_from: status.lifts_from().map(|time| time.to_string()),
            services: services.collect(),
            detail: status.to_string(),
        }
    }
}

/// The lines of all changes with an outcome, by Cloud Map service.
#[derive(Debug, Default)]
pub struct ChangeLines(BTreeMap<Place, LinesAt>);

/// The lines of one Cloud Map service.
#[derive(Debug, Default)]
struct LinesAt {
    changes: Vec<(Stage, Line)>,
    held_back: Vec<(Stage, Option<String>, HeldBack)>,
    /// The registrations that Cloud Map rejects as invalid.
    rejected: Vec<Line>,
    /// The change in the number of instances.
    difference: isize,
}

impl ChangeLines {
    /// Sorts the lines of each service by stage and instance.
    pub fn sort(&mut self) {
        for LinesAt { changes, held_back, .. } in self.0.values_mut() {
            changes.sort_by(|(a, one), (b, other)| (a, &one.object).cmp(&(b, &other.object)));
            held_back.sort_by(|(a, one, _), (b, other, _)| (a, one).cmp(&(b, other)));
        }
    }

    /// The changes that were held back when the plan was carried out.
    pub fn held_back(&self) -> impl Iterator<Item = &HeldBack> {
        self.0.values().flat_map(|at| &at.held_back).map(|(_, _, held_back)| held_back)
    }

    fn add(&mut self, SettledChange { service, change, outcome }: SettledChange) {
        let at = self.0.entry(change.place().clone()).or_default();
        if outcome.as_ref().is_ok_and(Outcome::is_made) {
            at.difference += change.count_difference();
        }
        match outcome {
            Ok(outcome) => at.changes.push((change.stage(), line(service, &change, outcome))),
            Err(reason) => {
                let registers = matches!(change, Change::Register { .. });
                if registers && matches!(reason, Reason::InvalidInput(_)) {
                    at.rejected.push(line(service.clone(), &change, Outcome::KeptOut));
                }
                let place = Some(change.place().clone());
                let instance = change.instance().map(str::to_owned);
                let held_back = HeldBack { service, place, reason };
                at.held_back.push((change.stage(), instance, held_back));
            }
        }
    }
}

/// The line of a change that was planned for a Service.
fn line(planned_for: ServiceRef, change: &Change, outcome: Outcome) -> Line {
    let verb = change.verb();
    let (code, object) = match (verb, change.instance()) {
        (Verb::CreateNamespace, _) => (Verb::Create, "namespace"),
        (_, None) => (verb, "service"),
        (_, Some(instance)) => (verb, instance),
    };
    let service = change.deregisters_instance_of().cloned().unwrap_or(planned_for);
    let line = Line::new(verb.sign(), code.as_str(), change.detail(), outcome).about(service);
    Line { object: Some(object.to_owned()), ..line }
}

impl Extend<SettledChange> for ChangeLines {
    fn extend<I: IntoIterator<Item = SettledChange>>(&mut self, outcomes: I) {
        outcomes.into_iter().for_each(|settled| self.add(settled));
    }
}

/// The notices about held-back items, as far as the owner of a Service can do something about them.
pub fn notices(held_back: &[HeldBack], desired: &Desired) -> Vec<Notice> {
    let mut notices = BTreeMap::new();
    for held_back in held_back {
        let HeldBack { service, reason, .. } = held_back;
        let Some(annotated) = desired.services.get(service) else { continue };
        if reason.resolved_by() != ResolvedBy::Owner {
            continue;
        }
        notices.entry((service.clone(), reason.code())).or_insert_with(|| Notice {
            about: Kind::Service,
            tone: NoticeKind::Warning,
            service: service.clone(),
            uid: annotated.uid.clone(),
            line: held_back.clone().into(),
        });
    }
    notices.into_values().collect()
}

/// The notices about instances that a run at `now` registered or deregistered.
pub fn news(services: &[ServiceReport], desired: &Desired, now: Timestamp) -> Vec<Notice> {
    let mut news = Vec::new();
    for at in services {
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for line in at.lines.iter().filter(|line| line.outcome == Outcome::Applied) {
            let Some(service) = &line.service else { continue };
            let (registered, deregistered) = counts.entry(service).or_default();
            match line.verb() {
                Some(Verb::Register | Verb::Adopt) => *registered += 1,
                Some(Verb::Deregister) => *deregistered += 1,
                _ => {}
            }
        }
        news.extend(counts.into_iter().filter_map(|(service, (registered, deregistered))| {
            let counted = [(registered, "registered"), (deregistered, "deregistered")];
            let counted = counted.iter().filter(|(count, _)| *count > 0);
            let counted = join(counted.map(|(count, verb)| format!("{count} {verb}")), ", ");
            let code = if registered > 0 { "Registered" } else { "Deregistered" };
            let text = format!("{counted} under {}", at.place());
            // A Service that is gone has no Events.
            let uid = desired.services.get(service).filter(|_| !counted.is_empty())?.uid.clone();
            Some(Notice {
                about: Kind::Service,
                tone: NoticeKind::News(now),
                service: service.clone(),
                uid,
                line: Line::new('~', code, text, Outcome::Applied),
            })
        }));
    }
    news
}
