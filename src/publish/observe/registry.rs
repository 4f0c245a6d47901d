//! One Cloud Map in one invocation, shared by all clusters that are kept in it. Its content is that of the process's
//! `mirror`. Each request is for content that was read at or after a moment, mostly the start of the invocation. Older
//! content is read again first (`lookup`, `lists`), so all clusters share what one of them has read.
//!
//! Between invocations, a process keeps a [`Memory`] of it: the mirror, the names under which each Kubernetes Service
//! has or had instances, the members of clustersets, and the refusals of Cloud Map. It saves lists, whose rates are low
//! (2 calls a second for services, one in 2 seconds for namespaces). No change rests on memory alone: instances are
//! always read, and an entry that is unknown or would be changed is looked up again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Mutex, OnceCell, SetOnce};
use tokio::time::Instant;

use super::Failure;
use super::budget::{Budget, ReadLimit};
use super::mirror::{MEMBERS_MAX_AGE, Mirror, Moment, Namespaces, Services};
use crate::cloud_map::{CloudMap, SharedResults};
use crate::clusterset::record::ClusterRecord;
use crate::model::{
    Attributes, CloudMapService, ClusterId, ClustersetId, Member, Namespace, NamespaceReference,
    Owner, Registry, Selection, ServiceKey, ServiceRef, SignedDuration, Tags, Timestamp,
};
use crate::publish::plan::{Refusals, RereadScope};

/// Replaces `MEMBERS_MAX_AGE` for the cluster record of a member that only imports.
const IMPORTERS_MAX_AGE: SignedDuration = SignedDuration::from_mins(5);

/// One Cloud Map in one invocation.
pub struct SharedRegistry {
    /// The client that reads and writes it.
    pub cloud_map: CloudMap,
    pub(super) only: Vec<NamespaceReference>,
    /// The memory of the process about it.
    pub(super) memory: Arc<Memory>,
    /// The start of the invocation, in the order of the moments of the mirror.
    pub(super) began: Moment,
    /// The start of the invocation, by the monotonic clock.
    pub started: Instant,
    pub(super) budget: Budget,
    /// The namespaces with which full syncs begin.
    pub(super) namespaces_at_start: OnceCell<Result<Namespaces, Failure>>,
    /// The namespaces, set when all services were read of the namespaces that are read whole.
    whole: OnceCell<Result<Namespaces, Failure>>,
    /// Allows one list at a time: the rate of lists of services is two a second, and all requests during one list share
    /// the next one.
    pub(super) listing: Mutex<()>,
    /// The account of the registry, if it is known.
    pub(super) account: OnceLock<String>,
    /// The ids of the namespaces in which earlier invocations have seen claims or instances of a cluster.
    seen_namespaces: BTreeSet<String>,
    /// The names that a cluster of this process claims or has instances under, as far as this process has seen.
    own: std::sync::Mutex<BTreeSet<ServiceKey>>,
    /// Set when the names of `own` are read: `true` if other names are still unread, `false` if all are read. Set once.
    own_read: SetOnce<bool>,
    /// The ids of other accounts' namespaces that were read because claims name them.
    pub(super) shared: Mutex<BTreeSet<String>>,
    /// The results of the calls that change it, for all clusters that are kept in it.
    pub results: SharedResults,
    /// The first cluster of this invocation that has begun to write its record under each id.
    id_writers: std::sync::Mutex<BTreeMap<Member, Owner>>,
    /// The members whose cluster record this invocation has written. Lists may not show it yet.
    pub(super) written: std::sync::Mutex<BTreeSet<Member>>,
}

impl SharedRegistry {
    /// The registry behind `cloud_map`, limited to the namespaces of `only` if it names any.
    pub fn new(
        cloud_map: CloudMap,
        only: Vec<NamespaceReference>,
        memory: Arc<Memory>,
        now: Timestamp,
        limit: ReadLimit,
    ) -> Self {
        memory.mirror().list_created();
        let own = memory.all_names();
        let began = memory.mirror().take_moment(now);
        Self {
            cloud_map,
            only,
            account: OnceLock::new(),
            seen_namespaces: own.iter().map(|key| key.namespace.clone()).collect(),
            own: std::sync::Mutex::new(own),
            own_read: SetOnce::new(),
            shared: Mutex::default(),
            memory,
            began,
            started: Instant::now(),
            budget: Budget::new(limit),
            namespaces_at_start: OnceCell::new(),
            whole: OnceCell::new(),
            listing: Mutex::default(),
            results: SharedResults::default(),
            id_writers: std::sync::Mutex::default(),
            written: std::sync::Mutex::default(),
        }
    }

    /// Returns the moment at which a read or a request begins.
    pub(super) fn take_moment(&self) -> Moment {
        self.memory.mirror().take_moment(self.began.at)
    }

    /// The changes that Cloud Map has refused to this process.
    pub fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.memory.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the account of the registry. Namespaces that other accounts share with it are then read only if a claim or
    /// the settings name them, or if something of ours was seen in them.
    pub fn set_account(&self, account: &str) {
        // A registry belongs to one account, so only the first call counts.
        _ = self.account.set(account.to_owned());
    }

    /// Whether a namespace is read even if no claim names it.
    pub(super) fn is_read_whole(&self, namespace: &Namespace) -> bool {
        !self.is_shared(namespace)
            || !self.only.is_empty()
            || self.seen_namespaces.contains(&namespace.id)
    }

    /// Whether another account shares a namespace with this one.
    pub(super) fn is_shared(&self, namespace: &Namespace) -> bool {
        namespace.is_of_other(self.account.get().map(String::as_str))
    }

    /// Whether a run can read all of Cloud Map in the time that it has for refreshing the mirror.
    pub(super) fn can_read_all_soon(&self) -> bool {
        let account = self.account.get().map(String::as_str);
        self.budget.covers(self.memory.mirror().all_and_unseen(account).0)
    }

    /// Whether the instances of a service are read because of their age.
    pub(super) fn is_oldest(&self, key: &ServiceKey) -> bool {
        self.budget.is_oldest(key, |calls| self.memory.mirror().oldest(calls, &self.own()))
    }

    /// Notes the names that a cluster of this invocation claims, so that their services are read before others.
    pub(super) fn record_claims<'a>(&self, keys: impl Iterator<Item = &'a ServiceKey>) {
        self.own().extend(keys.cloned());
    }

    pub(super) fn own(&self) -> MutexGuard<'_, BTreeSet<ServiceKey>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next invocation read these services first, since this one has changed them or tried to.
    pub fn record_changed<'a>(&self, keys: impl Iterator<Item = &'a ServiceKey>) {
        self.memory.mirror().outdate(keys);
    }

    pub(super) fn id_writers(&self) -> MutexGuard<'_, BTreeMap<Member, Owner>> {
        self.id_writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a service in which this process registered, or may have registered.
    pub fn record_registered(&self, service: Option<&CloudMapService>) {
        self.memory.known().ours.extend(service.map(|service| service.arn.clone()));
    }

    /// Reads every service, with the instances of those that have any. If the budget does not suffice, some reads are
    /// older than the invocation, and some services were never read.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed to the end.
    pub async fn read(&self) -> Result<Registry, Failure> {
        let whole = self.whole.get_or_init(|| async {
            let namespaces = self.first_namespaces().await?;
            let mut read_whole =
                namespaces.values().filter(|namespace| self.is_read_whole(namespace));
            let services = self.read_namespaces(read_whole.clone()).await?;
            // A namespace can only be deleted if it is empty: a remembered one without services may be gone, or exist
            // again under another id.
            let has_services =
                |namespace: &Namespace| services.keys().any(|key| key.namespace == namespace.id);
            let all_have_services = read_whole.all(has_services);
            let account = self.account.get().cloned();
            let mut registry = Registry { namespaces, services, account, ..Registry::default() };
            if !all_have_services {
                self.refresh_namespaces(&mut registry, self.began).await?;
            }
            self.remember_members(&registry);
            Ok(registry.namespaces)
        });
        let namespaces = whole.await.clone();
        _ = self.own_read.set(false);
        Ok(self.read_of(namespaces?).await)
    }

    /// Waits until the names of the clusters are read. Returns whether other names are still unread.
    pub(super) async fn own_names_read(&self) -> bool {
        *self.own_read.wait().await
    }

    pub(super) fn record_own_names_read(&self) {
        _ = self.own_read.set(true);
    }

    /// The registry, if it was read as a whole in this invocation.
    pub async fn whole_registry(&self) -> Option<Registry> {
        Some(self.read_of(self.known_namespaces()?.clone()).await)
    }

    /// The namespaces, if the services of all were read in this invocation.
    pub fn known_namespaces(&self) -> Option<&Namespaces> {
        self.whole.get()?.as_ref().ok()
    }

    /// These namespaces with their services, as this invocation has read them, including the services of other
    /// accounts' namespaces that were read because claims name them.
    async fn read_of(&self, namespaces: Namespaces) -> Registry {
        let read_whole = namespaces.values().filter(|namespace| self.is_read_whole(namespace));
        let ids = read_whole.map(|namespace| namespace.id.clone()).collect();
        let services = self.services_of(&ids);
        let account = self.account.get().cloned();
        let mut read = Registry { namespaces, services, account, ..Registry::default() };
        let shared = self.shared.lock().await;
        read.services.extend(self.services_of(&shared));
        read
    }

    /// The ARNs of the namespaces in the registry, if it was read as a whole in this invocation.
    pub fn namespace_arns(&self) -> Option<BTreeSet<String>> {
        let namespaces = self.known_namespaces()?.values();
        Some(namespaces.filter_map(|namespace| namespace.arn.clone()).collect())
    }

    /// The services of namespaces, as this invocation has read them. If the budget has deferred services to a later
    /// run, their older reads are included.
    pub(super) fn services_of(&self, namespaces: &BTreeSet<String>) -> Services {
        let mirror = self.memory.mirror();
        if self.budget.has_deferred() {
            mirror.services_of_any_age(namespaces, self.began)
        } else {
            mirror.services_since(namespaces, self.began)
        }
    }

    /// Reads the services of a scope again into `registry`. Also reads the tags of the services that `registry` lacked.
    /// A service that it lacked was created since, or the group dropped it because its settings may have changed.
    ///
    /// # Errors
    /// Returns an error if the services of a namespace could not be listed to the end.
    pub async fn read_again(
        &self,
        registry: &mut Registry,
        scope: &RereadScope,
    ) -> Result<(), Failure> {
        let now = self.take_moment();
        let new = registry.missing(&scope.keys);
        if scope.with_entries {
            self.look_up_entries(registry, &scope.keys, self.began).await?;
        } else {
            self.look_up_entries(registry, &new, now).await?;
        }
        self.ensure_read_since(registry, &scope.keys, now).await?;
        self.cloud_map.read_tags(registry, &new).await;
        Ok(())
    }
}

impl Registry {
    /// Returns those of `keys` for which the registry has no service.
    pub(super) fn missing(&self, keys: &BTreeSet<ServiceKey>) -> BTreeSet<ServiceKey> {
        keys.iter().filter(|key| !self.services.contains_key(*key)).cloned().collect()
    }
}

/// The memory about one Cloud Map.
#[derive(Debug, Default)]
pub struct Memory {
    mirror: std::sync::Mutex<Mirror>,
    known: std::sync::Mutex<Known>,
    refusals: std::sync::Mutex<Refusals>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// The cluster record of each member with the time of its read, by the Cloud Map service that it is in.
    cluster_records: BTreeMap<ServiceKey, (Timestamp, Attributes)>,
    /// The installation and the cluster that own each cluster id, by the last record of it that was read or written.
    id_owners: BTreeMap<Member, Owner>,
    /// The names that each Service of a cluster claims or has instances under. Clusters whose names are not known
    /// completely are missing.
    names: BTreeMap<Owner, BTreeSet<(ServiceRef, ServiceKey)>>,
    /// The ARNs of services that were seen with our marks or our tag, or that this process registered in.
    pub(super) ours: BTreeSet<String>,
    /// The tags of services that the function may not read and that are not ours by these tags, by ARN.
    pub(super) others: BTreeMap<String, Tags>,
}

impl Memory {
    /// The content that was last read.
    pub(super) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster record of a member, if it was read recently.
    pub(super) fn cluster_record(&self, key: &ServiceKey, now: Timestamp) -> Option<Attributes> {
        let known = self.known();
        let (read, attributes) = known.cluster_records.get(key)?;
        let max_age = if ClusterRecord::says_only_imports(attributes) {
            IMPORTERS_MAX_AGE
        } else {
            MEMBERS_MAX_AGE
        };
        (now.duration_since(*read) < max_age).then(|| attributes.clone())
    }

    /// Remembers the cluster record of a member, or forgets it if there is none.
    pub(super) fn keep_cluster_record(
        &self,
        key: &ServiceKey,
        record: Option<&Attributes>,
        now: Timestamp,
    ) {
        let mut known = self.known();
        let Some(record) = record else {
            known.cluster_records.remove(key);
            return;
        };
        known.cluster_records.insert(key.clone(), (now, record.clone()));
        if let Ok(ClusterRecord { owner, clusterset, .. }) = ClusterRecord::parse(record)
            && let Some(cluster) = ClusterId::parse(&key.name)
        {
            known.id_owners.insert(Member { cluster, clusterset }, owner);
        }
    }

    /// The last known owner of each cluster id of a clusterset.
    pub(super) fn id_owners(&self, clusterset: &ClustersetId) -> BTreeMap<ClusterId, Owner> {
        let known = self.known();
        let in_clusterset =
            known.id_owners.iter().filter(|(member, _)| member.clusterset == *clusterset);
        in_clusterset.map(|(member, owner)| (member.cluster.clone(), owner.clone())).collect()
    }

    /// The cluster ids that a cluster owns.
    pub(super) fn ids_of(&self, owner: &Owner) -> Vec<Member> {
        let known = self.known();
        let owned = known.id_owners.iter().filter(|(_, id_owner)| *id_owner == owner);
        owned.map(|(member, _)| member.clone()).collect()
    }

    /// Forgets the owner of an id that a cluster has given up.
    pub(super) fn forget_id_owner(&self, member: &Member) {
        self.known().id_owners.remove(member);
    }

    /// Remembers the owner of an id, which has written its cluster record.
    pub(super) fn record_id_owner(&self, member: Member, owner: Owner) {
        self.known().id_owners.insert(member, owner);
    }

    /// The Cloud Map services that the selected Services of a cluster claim or have instances in, as far as this
    /// process has seen; `None` if it has never seen all of the cluster's.
    pub(super) fn names(
        &self,
        owner: &Owner,
        selected: &Selection,
    ) -> Option<BTreeSet<ServiceKey>> {
        let known = self.known();
        let names = known.names.get(owner)?.iter();
        let names = names.filter(|(service, _)| selected.contains(service));
        Some(names.map(|(_, key)| key.clone()).collect())
    }

    /// Replaces the names of a cluster, except the `unread` ones. If `unread` is `None`, only adds names, and only if
    /// the names of the cluster are known completely.
    pub(super) fn record_names(
        &self,
        owner: &Owner,
        names: impl Iterator<Item = (ServiceRef, ServiceKey)>,
        unread: Option<&BTreeSet<ServiceKey>>,
    ) {
        let mut known = self.known();
        if let Some(unread) = unread {
            known.names.entry(owner.clone()).or_default().retain(|(_, key)| unread.contains(key));
        }
        if let Some(all) = known.names.get_mut(owner) {
            all.extend(names);
        }
    }

    /// The names that any cluster claims or has instances under, as far as this process has seen.
    fn all_names(&self) -> BTreeSet<ServiceKey> {
        let known = self.known();
        known.names.values().flatten().map(|(_, key)| key.clone()).collect()
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
