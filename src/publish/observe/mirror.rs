//! The mirror of one Cloud Map in a process: the content that the process last read. It has the namespaces, the
//! services of each with their entries from the lists, and the instances of each service, all with the moment at which
//! the read began. [`SharedRegistry`](super::SharedRegistry) requests content that was read at or after a moment, and
//! reads what is missing. Older content saves calls to find services and namespaces. It also shows which services need
//! no change if a run has no time to read all (`budget`). No change rests on it. The mirror is lost with the process.

use std::collections::{BTreeMap, BTreeSet};

use crate::cloud_map::{InstancesRead, ListedNamespace, ServiceToRead};
use crate::clusterset::record;
use crate::model::{CloudMapService, Namespace, ServiceKey, SignedDuration, Timestamp};

/// Namespaces by id.
pub(super) type Namespaces = BTreeMap<String, Namespace>;
/// Services, of one namespace or of several.
pub(super) type Services = BTreeMap<ServiceKey, CloudMapService>;

/// A sync of single Services reads the members of a clusterset and their cluster records again if they are older.
pub(super) const MEMBERS_MAX_AGE: SignedDuration = SignedDuration::from_mins(1);
/// Namespaces are listed again if their list is older, or if there is a sign that they have changed.
const NAMESPACES_MAX_AGE: SignedDuration = SignedDuration::from_mins(5);

/// GetService is tried again if its last denial is older.
const DENIAL_MAX_AGE: SignedDuration = SignedDuration::from_hours(1);

/// The time at which a read or a request of this process began. `number` orders all moments of the process, since the
/// clock may show the same time for two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    number: u64,
    pub at: Timestamp,
}

/// The last list of the services of a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadList {
    pub start: Moment,
    /// The calls that read it, including lists of other namespaces that were read at the same time.
    pub calls: ListCalls,
}

/// The calls that read lists of services.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListCalls {
    pub pages: usize,
    /// The calls of `GetService`, for the namespaces of services.
    pub services: usize,
}

#[derive(Debug, Default)]
pub(super) struct Mirror {
    last_number: u64,
    namespaces: Option<ReadNamespaces>,
    /// The number of services of each namespace in the last list, by the id of the namespace, including namespaces that
    /// are not read.
    counts: BTreeMap<String, Count>,
    /// The last list of each namespace, by its id.
    lists: BTreeMap<String, ReadList>,
    services: BTreeMap<ServiceKey, Entry>,
    /// The services that this invocation has created since the lists of their namespaces.
    created: BTreeMap<ServiceKey, (CloudMapService, Moment)>,
    /// The id of the namespace of each service that is in none of these lists, by the ARN of the service.
    elsewhere: BTreeMap<String, (String, Moment)>,
    denied: Option<Timestamp>,
}

/// The list of namespaces.
#[derive(Debug)]
struct ReadNamespaces {
    listed: Moment,
    /// The namespaces are listed again after this time. It is in the past if the list is known to lack namespaces.
    valid_until: Timestamp,
    namespaces: Namespaces,
}

/// One service.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its entry in the last list, without instances.
    listed: CloudMapService,
    /// The start of that list, or of the read of the service itself.
    seen: Moment,
    /// The last read of its instances, with its start.
    read: Option<(Moment, InstancesRead)>,
    /// The start of the last read that a group has begun.
    begun: Moment,
    /// Whether the last read is outdated: since then this process has changed the instances or tried to, or the entry
    /// has changed after a read that was denied.
    is_outdated: bool,
}

/// The services of one namespace.
#[derive(Debug)]
struct Count {
    /// The account of the namespace.
    owner: Option<String>,
    /// Cloud Map's count, or that of the last list of its services; `None` if Cloud Map returned none.
    services: Option<usize>,
}

impl Mirror {
    /// Returns a new moment, which is after all earlier ones.
    pub fn take_moment(&mut self, at: Timestamp) -> Moment {
        self.last_number += 1;
        Moment { number: self.last_number, at }
    }

    /// The namespaces, if they were listed recently.
    pub fn recent_namespaces(&self, now: Timestamp) -> Option<Namespaces> {
        let read = self.namespaces.as_ref().filter(|read| now < read.valid_until)?;
        Some(read.namespaces.clone())
    }

    /// The namespaces, if they were listed at or after a moment.
    pub fn namespaces_since(&self, since: Moment) -> Option<Namespaces> {
        let read = self.namespaces.as_ref().filter(|read| read.listed >= since)?;
        Some(read.namespaces.clone())
    }

    /// Keeps those namespaces of a list that `is_read` accepts, and returns them.
    pub fn keep_namespaces(
        &mut self,
        all: Vec<ListedNamespace>,
        is_read: impl Fn(&Namespace) -> bool,
        listed: Moment,
    ) -> Namespaces {
        let count = |ListedNamespace { namespace, service_count }: &ListedNamespace| {
            (
                namespace.id.clone(),
                Count { owner: namespace.owner.clone(), services: *service_count },
            )
        };
        self.counts = all.iter().map(count).collect();
        // Drops services of deleted namespaces and of placeholders that had no id yet.
        let counts = &self.counts;
        self.services.retain(|key, _| counts.contains_key(&key.namespace));
        let namespaces = all.into_iter().map(|found| found.namespace).filter(is_read);
        let namespaces: Namespaces =
            namespaces.map(|namespace| (namespace.id.clone(), namespace)).collect();
        let valid_until = listed.at + NAMESPACES_MAX_AGE;
        let read = namespaces.clone();
        self.namespaces = Some(ReadNamespaces { listed, valid_until, namespaces: read });
        namespaces
    }

    /// Makes the next invocation list the namespaces again.
    pub fn outdate_namespaces(&mut self) {
        if let Some(read) = &mut self.namespaces {
            read.valid_until = Timestamp::MIN;
        }
    }

    /// The entry of a service in the last list, without instances.
    pub fn listed(&self, key: &ServiceKey) -> Option<CloudMapService> {
        Some(self.services.get(key)?.listed.clone())
    }

    /// Whether a service may exist: it has an entry, or its namespace was not listed recently.
    pub fn may_exist(&self, key: &ServiceKey, now: Timestamp) -> bool {
        self.services.contains_key(key) || self.recent_services(&key.namespace, now).is_none()
    }

    /// The entry of a service, with the instances if these were read at or after a moment.
    pub fn service(&self, key: &ServiceKey, since: Moment) -> Option<CloudMapService> {
        Some(self.services.get(key)?.since(since))
    }

    /// Ends the list of the services of a namespace: drops the services that it did not show. The number of the others
    /// replaces Cloud Map's count, which may be older.
    pub fn end_list(&mut self, namespace: &str, start: Moment) {
        let gone = self.entries_of(namespace).filter(|(_, entry)| entry.seen < start);
        for key in gone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.services.remove(&key);
        }
        let services = self.entries_of(namespace).count();
        if let Some(count) = self.counts.get_mut(namespace) {
            count.services = Some(services);
        }
        self.elsewhere.retain(|_, (id, _)| id != namespace);
        self.created.retain(|key, (_, at)| key.namespace != namespace || *at > start);
        self.lists.insert(namespace.to_owned(), ReadList { start, calls: ListCalls::default() });
    }

    /// Keeps the number of calls that the last list of a namespace took.
    pub fn record_list_calls(&mut self, namespace: &str, calls: ListCalls) {
        if let Some(list) = self.lists.get_mut(namespace) {
            list.calls = calls;
        }
    }

    /// Keeps in `keys` the services that are unknown and may have been created since the last list of their namespace,
    /// which is older than a moment. Marks these lists as outdated, so that the next request reads them again.
    pub fn outdate_lists_without(&mut self, keys: &mut BTreeSet<ServiceKey>, since: Moment) {
        keys.retain(|key| {
            !self.is_listed_since(&key.namespace, since) && !self.services.contains_key(key)
        });
        for key in &*keys {
            self.record_list_calls(&key.namespace, ListCalls::default());
        }
    }

    /// Whether the list of all that began at `start`, and has ended, shows as many services of a namespace as Cloud Map
    /// counts.
    pub fn has_all(&self, namespace: &str, start: Moment) -> bool {
        let shown = self.entries_of(namespace).filter(|(_, entry)| entry.seen >= start);
        let expected = self.counts.get(namespace).and_then(|count| count.services);
        expected.is_some_and(|expected| shown.count() >= expected)
    }

    /// Keeps the entry of a service, and its instances if it has the same ARN as before. If the entry counts no
    /// instances, an older read that had some is dropped. A read of records stays: the count may lag, and without
    /// records all exports of a member would end.
    pub fn keep_entry(&mut self, key: &ServiceKey, service: &CloudMapService, seen: Moment) {
        let is_record = self.is_of_records(&key.namespace);
        let listed = service.without_reads();
        let before = self.services.remove(key).filter(|before| before.listed.arn == listed.arn);
        let begun = Moment::default();
        let mut entry = Entry { listed, seen, read: None, begun, is_outdated: false };
        if let Some(before) = before {
            entry.begun = before.begun;
            let is_denied =
                matches!(before.read, Some((_, InstancesRead::Failed { is_denied: true, .. })));
            entry.is_outdated = before.is_outdated || is_denied && before.listed != entry.listed;
            entry.read = before.read.filter(|(began, reading)| {
                let is_filled = entry.listed.instance_total() > 0 || is_record;
                is_filled || *began >= seen || reading.number() == Some(0)
            });
        }
        self.services.insert(key.clone(), entry);
    }

    /// Whether the namespace has the records of a clusterset.
    pub fn is_of_records(&self, id: &str) -> bool {
        let read = self.namespaces.as_ref().and_then(|read| read.namespaces.get(id));
        read.is_some_and(|namespace| record::is_namespace(&namespace.name))
    }

    /// Drops the entry of a service that does not exist.
    pub fn drop_entry(&mut self, key: &ServiceKey) {
        self.services.remove(key);
    }

    /// Keeps an entry for a service, unless the mirror has one with the same ARN.
    pub fn keep_if_new(&mut self, key: &ServiceKey, service: &CloudMapService, seen: Moment) {
        if self.services.get(key).is_none_or(|entry| entry.listed.arn != service.arn) {
            self.keep_entry(key, service, seen);
        }
    }

    /// Whether the entry of a service is from a moment or later.
    pub fn is_seen_since(&self, key: &ServiceKey, since: Moment) -> bool {
        self.services.get(key).is_some_and(|entry| entry.seen >= since)
    }

    /// The ARN of a service, if its entry is older than a moment.
    pub fn arn_if_older(&self, key: &ServiceKey, since: Moment) -> Option<String> {
        let entry = self.services.get(key).filter(|entry| entry.seen < since)?;
        Some(entry.listed.arn.clone())
    }

    /// Keeps a read of instances that began at `began`, and returns it. Drops the service if it is gone. If the read
    /// equals the read before, the older value is kept and returned, so that two reads of all take no more memory than
    /// one.
    pub fn keep_read(
        &mut self,
        of: &ServiceToRead,
        reading: InstancesRead,
        began: Moment,
    ) -> InstancesRead {
        let Some(entry) = self.services.get_mut(&of.key) else { return reading };
        if entry.listed.arn != of.arn {
            return reading;
        }
        if reading == InstancesRead::Gone {
            self.services.remove(&of.key);
            return reading;
        }
        let before = entry.read.take().map(|(_, before)| before);
        let reading = before.filter(|before| *before == reading).unwrap_or(reading);
        // This run may reuse the list, whose count is older than this read.
        if let Some(number) = reading.number().filter(|_| began > entry.seen) {
            entry.listed.instance_count = number.try_into().unwrap_or(u32::MAX);
        }
        entry.read = Some((began, reading.clone()));
        entry.is_outdated = false;
        reading
    }

    /// Marks the reads of these services as outdated, so that the next run reads them first.
    pub fn outdate<'a>(&mut self, keys: impl IntoIterator<Item = &'a ServiceKey>) {
        for key in keys {
            if let Some(entry) = self.services.get_mut(key) {
                entry.is_outdated = true;
            }
        }
    }

    /// Whether the instances of a service are due now, whatever the age of their read.
    pub fn is_due(&self, key: &ServiceKey) -> bool {
        self.services.get(key).is_none_or(Entry::is_due)
    }

    /// The number of calls that read the instances of a service.
    pub fn pages(&self, key: &ServiceKey) -> usize {
        self.services.get(key).map_or(1, |entry| entry.listed.pages())
    }

    /// Returns the services that were read longest ago, as many as fit into this number of calls together with the
    /// services that are due now; the last service may exceed it. Half of the calls are reserved for `own` names, so
    /// that drift under these is found soon among many services of others.
    ///
    /// In the order of names, a run with time for 500 of 10,000 services would read the same 500 as the run before. A
    /// pod that another party deregistered under one of the last names would never be registered again.
    pub fn oldest(&self, calls: usize, own: &BTreeSet<ServiceKey>) -> BTreeSet<ServiceKey> {
        let mut left = calls;
        let mut by_age = Vec::new();
        for (key, entry) in &self.services {
            if entry.listed.instance_total() == 0 && !own.contains(key) {
                continue;
            }
            match &entry.read {
                Some((began, _)) if !entry.is_due() => by_age.push((*began, key, entry)),
                _ => left = left.saturating_sub(entry.listed.pages()),
            }
        }
        by_age.sort_unstable_by_key(|(began, key, _)| (*began, *key));
        let mut oldest = BTreeSet::new();
        for (is_for_own, kept) in [(true, left / 2), (false, 0)] {
            for (_, key, entry) in &by_age {
                let is_eligible = left > kept && (!is_for_own || own.contains(key));
                if is_eligible && oldest.insert((*key).clone()) {
                    left = left.saturating_sub(entry.listed.pages());
                }
            }
        }
        oldest
    }

    /// The last read of the instances of a service, if it began at or after a moment.
    pub fn read_since(&self, key: &ServiceKey, since: Moment) -> Option<&InstancesRead> {
        self.services.get(key)?.reading_since(since)
    }

    /// Records that a group begins to read the instances of a service.
    pub fn record_begun(&mut self, key: &ServiceKey, at: Moment) {
        if let Some(entry) = self.services.get_mut(key) {
            entry.begun = at;
        }
    }

    /// Whether a group has begun to read the instances of a service at or after a moment.
    pub fn has_begun_since(&self, key: &ServiceKey, since: Moment) -> bool {
        self.services.get(key).is_some_and(|entry| entry.begun >= since)
    }

    /// The services of namespaces, with the instances of those that were read at or after a moment.
    pub fn services_since(&self, namespaces: &BTreeSet<String>, since: Moment) -> Services {
        let entries = namespaces.iter().flat_map(|id| self.entries_of(id));
        entries.map(|(key, entry)| (key.clone(), entry.since(since))).collect()
    }

    /// The services of namespaces, with the instances of those that were ever read, and the time of each read that
    /// began before a moment.
    pub fn services_of_any_age(&self, namespaces: &BTreeSet<String>, since: Moment) -> Services {
        let entries = namespaces.iter().flat_map(|id| self.entries_of(id));
        entries.map(|(key, entry)| (key.clone(), entry.of_any_age(since))).collect()
    }

    /// The last list of the services of a namespace.
    pub fn last_list(&self, namespace: &str) -> Option<ReadList> {
        self.lists.get(namespace).copied()
    }

    /// Whether the services of a namespace were listed at or after a moment.
    pub fn is_listed_since(&self, namespace: &str, since: Moment) -> bool {
        self.lists.get(namespace).is_some_and(|list| list.start >= since)
    }

    /// The entries of the services of a namespace in its last list.
    pub fn listed_services(&self, namespace: &str) -> Services {
        let entries = self.entries_of(namespace);
        entries.map(|(key, entry)| (key.clone(), entry.listed.clone())).collect()
    }

    /// Whether the last list of a namespace had no service.
    pub fn is_empty(&self, namespace: &str) -> bool {
        self.lists.contains_key(namespace) && self.entries_of(namespace).next().is_none()
    }

    /// The services of a namespace, if they were listed recently. A namespace of records has one for each member.
    pub fn recent_services(&self, namespace: &str, now: Timestamp) -> Option<Services> {
        let list = self.lists.get(namespace)?;
        let is_recent = now.duration_since(list.start.at) < MEMBERS_MAX_AGE;
        is_recent.then(|| self.listed_services(namespace))
    }

    /// The id of the namespace of each known service, by the ARN of the service.
    pub fn namespaces_of_services(&self) -> BTreeMap<String, String> {
        let listed = self.services.iter();
        let listed = listed.map(|(key, entry)| (entry.listed.arn.clone(), key.namespace.clone()));
        let created = self.created.iter();
        let created =
            created.map(|(key, (service, _))| (service.arn.clone(), key.namespace.clone()));
        let elsewhere = self.elsewhere.iter().map(|(arn, (id, _))| (arn.clone(), id.clone()));
        elsewhere.chain(created).chain(listed).collect()
    }

    /// Keeps a service that this process has created, under the id of its namespace.
    pub fn record_created(&mut self, key: ServiceKey, service: CloudMapService, at: Moment) {
        self.created.insert(key, (service, at));
    }

    /// Treats the services that the last invocation has created as listed.
    pub fn list_created(&mut self) {
        for (key, (service, at)) in std::mem::take(&mut self.created) {
            self.keep_if_new(&key, &service, at);
        }
    }

    /// Keeps the namespace of a service that the list of all showed in a namespace that did not have to be listed.
    pub fn keep_elsewhere(&mut self, arn: String, namespace: String, began: Moment) {
        self.elsewhere.insert(arn, (namespace, began));
    }

    /// Ends the list of all services: drops from `elsewhere` the services that it did not show, and those of a
    /// namespace that has a list.
    pub fn end_list_of_all(&mut self, start: Moment) {
        let lists = &self.lists;
        self.elsewhere.retain(|_, (id, began)| *began >= start && !lists.contains_key(id));
    }

    /// The number of services in all namespaces, and of those in namespaces of `account` that were never seen.
    pub fn all_and_unseen(&self, account: Option<&str>) -> (usize, usize) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let elsewhere = self.elsewhere.values().map(|(id, _)| id);
        let elsewhere = elsewhere.filter(|id| !self.lists.contains_key(*id));
        let listed = self.services.keys().map(|key| &key.namespace);
        elsewhere.chain(listed).for_each(|id| *seen.entry(id).or_default() += 1);
        let unseen =
            self.counts.iter().filter(|(_, count)| count.is_of(account)).map(|(id, count)| {
                let seen = seen.get(id.as_str()).copied().unwrap_or_default();
                count.services.unwrap_or_default().saturating_sub(seen)
            });
        let all = self.counts.values().filter_map(|count| count.services).sum();
        (all, unseen.sum())
    }

    /// Whether GetService was denied in the last hour.
    pub fn is_denied(&self, now: Timestamp) -> bool {
        self.denied.is_some_and(|at| now.duration_since(at) < DENIAL_MAX_AGE)
    }

    pub fn record_denial(&mut self, now: Timestamp) {
        self.denied = Some(now);
    }

    fn entries_of(&self, namespace: &str) -> impl Iterator<Item = (&ServiceKey, &Entry)> + use<'_> {
        let namespace = namespace.to_owned();
        let name = String::new();
        let first = ServiceKey { namespace: namespace.clone(), name };
        self.services.range(first..).take_while(move |(key, _)| key.namespace == namespace)
    }
}

impl Entry {
    /// Whether the instances were never read, could not be read, or seem to have changed since. A missing right is
    /// rarely granted soon, so a service whose read was denied is read because of its age alone until its entry
    /// changes.
    fn is_due(&self) -> bool {
        match &self.read {
            Some((_, InstancesRead::Failed { is_denied: true, .. })) => self.is_outdated,
            Some((_, reading)) => {
                self.is_outdated || reading.number() != Some(self.listed.instance_total())
            }
            None => true,
        }
    }

    /// The last read of the instances, if it began at or after a moment.
    fn reading_since(&self, since: Moment) -> Option<&InstancesRead> {
        self.read.as_ref().filter(|(began, _)| *began >= since).map(|(_, reading)| reading)
    }

    /// The service, with the instances if they were read at or after a moment.
    fn since(&self, since: Moment) -> CloudMapService {
        let mut service = self.listed.clone();
        if let Some(reading) = self.reading_since(since) {
            reading.clone().fill(&mut service);
        }
        service
    }

    /// The service with the instances as they were read last, and the time of the read if that began before a moment.
    /// An older read is left out if the entry counts no instances.
    fn of_any_age(&self, since: Moment) -> CloudMapService {
        let mut service = self.listed.clone();
        if let Some((began, reading)) = &self.read
            && (*began >= since || service.instance_total() > 0)
        {
            reading.clone().fill(&mut service);
            if *began < since {
                service.read_before = Some(began.at);
            }
        }
        service
    }
}

impl Count {
    /// Whether the namespace may belong to an account. `None` means any account.
    fn is_of(&self, account: Option<&str>) -> bool {
        account.is_none() || self.owner.is_none() || account == self.owner.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instances, ServiceKind};

    #[test]
    fn service_that_is_outdated_is_read_again_and_its_last_read_stays() {
        let mut mirror = Mirror::default();
        let service = CloudMapService::created("arn".to_owned(), "web", ServiceKind::Http);
        let key = key("web");
        let began = mirror.take_moment(Timestamp::UNIX_EPOCH);
        mirror.keep_if_new(&key, &service, began);
        let instances = Instances::default();
        let registered_by = BTreeSet::new();
        let reading = InstancesRead::Instances { instances, registered_by };
        mirror.keep_read(&ServiceToRead::new(&key, &service), reading, began);
        assert!(!mirror.is_due(&key));

        mirror.outdate([&key]);
        assert!(mirror.is_due(&key));
        let kept = mirror.service(&key, Moment::default()).expect("what was read stays");
        assert!(kept.instances.is_some());
    }

    #[test]
    fn list_drops_at_its_end_the_services_that_it_has_not_shown() {
        let mut mirror = Mirror::default();
        let at = Timestamp::UNIX_EPOCH;
        let service =
            |name: &str| CloudMapService::created(name.to_owned(), name, ServiceKind::Http);
        let before = mirror.take_moment(at);
        for name in ["gone", "stays"] {
            mirror.keep_entry(&key(name), &service(name), before);
        }
        let start = mirror.take_moment(at);
        mirror.keep_entry(&key("stays"), &service("stays"), start);
        let created = mirror.take_moment(at);
        mirror.record_created(key("early"), service("early"), before);
        mirror.record_created(key("new"), service("new"), created);
        assert!(mirror.listed(&key("gone")).is_some());

        mirror.end_list("ns-1", start);
        mirror.list_created();

        let known: Vec<String> =
            mirror.listed_services("ns-1").into_keys().map(|it| it.name).collect();
        assert_eq!(known, ["new", "stays"]);
        assert_eq!(mirror.arn_if_older(&key("stays"), created), Some("stays".to_owned()));
        assert_eq!(mirror.arn_if_older(&key("stays"), start), None);
    }

    fn key(name: &str) -> ServiceKey {
        ServiceKey { namespace: "ns-1".to_owned(), name: name.to_owned() }
    }

    /// Lists a service with this number of instances. If `is_read`, a read of them follows, which is denied.
    fn list(mirror: &mut Mirror, name: &str, (instance_count, is_read): (u32, bool)) {
        let service = CloudMapService::created(name.to_owned(), name, ServiceKind::Http);
        let service = CloudMapService { instance_count, instances: None, ..service };
        let seen = mirror.take_moment(Timestamp::UNIX_EPOCH);
        mirror.keep_entry(&key(name), &service, seen);
        if is_read {
            let reading = InstancesRead::Failed { error: String::new(), is_denied: true };
            mirror.keep_read(&ServiceToRead::new(&key(name), &service), reading, seen);
        }
    }

    fn oldest(mirror: &Mirror, calls: usize, own: &[&str]) -> String {
        let own = own.iter().map(|name| key(name)).collect();
        let names = mirror.oldest(calls, &own).into_iter().map(|key| key.name);
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn oldest_reads_are_as_many_as_fit_into_the_calls_and_one_at_least() {
        let mut mirror = Mirror::default();
        for (name, seen) in
            [("large", (1000, true)), ("a", (1, true)), ("b", (1, true)), ("new", (1, false))]
        {
            list(&mut mirror, name, seen);
        }
        for (calls, expected) in
            [(0, ""), (1, ""), (2, "large"), (12, "a large"), (13, "a b large")]
        {
            assert_eq!(oldest(&mirror, calls, &[]), expected, "{calls}");
        }
    }

    #[test]
    fn half_of_the_calls_are_for_own_names_and_the_rest_for_the_oldest_of_all() {
        let mut mirror = Mirror::default();
        for name in ["a", "b", "c", "d", "own-1", "own-2", "own-3"] {
            list(&mut mirror, name, (1, true));
        }
        let own = ["own-1", "own-2", "own-3"];
        for (calls, expected) in
            [(1, "own-1"), (2, "a own-1"), (4, "a b own-1 own-2"), (7, "a b c d own-1 own-2 own-3")]
        {
            assert_eq!(oldest(&mirror, calls, &own), expected, "{calls}");
        }
    }

    /// If each had a turn, services of others that have lost their last instance might take all reads of a run.
    #[test]
    fn service_without_instances_has_a_turn_under_an_own_name_alone() {
        let mut mirror = Mirror::default();
        for (name, instances) in [("own", 0), ("other", 0), ("web", 1)] {
            list(&mut mirror, name, (1, true));
            list(&mut mirror, name, (instances, instances > 0));
        }
        let now = mirror.take_moment(Timestamp::UNIX_EPOCH);
        for name in ["own", "other"] {
            let of = ServiceToRead::new(&key(name), &mirror.listed(&key(name)).expect("an entry"));
            let instances = Instances::default();
            let registered_by = BTreeSet::new();
            mirror.keep_read(&of, InstancesRead::Instances { instances, registered_by }, now);
        }
        assert_eq!(oldest(&mirror, 9, &["own"]), "own web");
    }

    #[test]
    fn read_that_failed_is_due_and_one_that_was_denied_once_its_entry_changes() {
        for (is_denied, instances, is_due) in [(false, 2, true), (true, 2, false), (true, 3, true)]
        {
            let mut mirror = Mirror::default();
            list(&mut mirror, "web", (2, false));
            let of =
                ServiceToRead::new(&key("web"), &mirror.listed(&key("web")).expect("an entry"));
            let now = mirror.take_moment(Timestamp::UNIX_EPOCH);
            mirror.keep_read(&of, InstancesRead::Failed { error: String::new(), is_denied }, now);

            list(&mut mirror, "web", (instances, false));

            assert_eq!(mirror.is_due(&key("web")), is_due, "{is_denied} {instances}");
        }
    }

    #[test]
    fn read_of_records_is_kept_although_a_later_list_counts_none() {
        for (name, is_kept) in [("clusterset.shop", true), ("prod", false)] {
            let mut mirror = Mirror::default();
            let now = mirror.take_moment(Timestamp::UNIX_EPOCH);
            let namespace = Namespace { id: "ns-1".to_owned(), ..Namespace::missing(name) };
            let listed = ListedNamespace { namespace, service_count: Some(1) };
            mirror.keep_namespaces(vec![listed], |_| true, now);

            list(&mut mirror, "blue", (1, true));
            list(&mut mirror, "blue", (0, false));

            let read = mirror.read_since(&key("blue"), Moment::default());
            assert_eq!(read.is_some(), is_kept, "{name}");
        }
    }

    #[test]
    fn failed_read_lasts_until_a_list_shows_that_there_is_nothing_to_read() {
        let mut mirror = Mirror::default();
        for (seen, is_unreadable) in [((1, true), true), ((0, false), false)] {
            list(&mut mirror, "web", seen);
            let now = mirror.take_moment(Timestamp::UNIX_EPOCH);
            let known = mirror.services_of_any_age(&["ns-1".to_owned()].into(), now);
            assert_eq!(known[&key("web")].unreadable.is_some(), is_unreadable);
        }
    }
}
