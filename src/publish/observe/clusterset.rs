//! Reads the part of Cloud Map that an import rests on: the records of all members of a clusterset, and the services of
//! the imported names. A sync of a few Services reads single records, and remembers the list of members for a minute.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::{StreamExt, stream};

use super::mirror::{Namespaces, Services};
use super::{Failure, MAX_RECORD_LOOKUPS, SharedRegistry};
use crate::cloud_map::SIDE_BY_SIDE;
use crate::clusterset::attributes::is_exported_to;
use crate::clusterset::departures::{ImportedParts, InstanceIds};
use crate::clusterset::id;
use crate::clusterset::members::{self, ReadClusterset, Served};
use crate::clusterset::record::{self, ClusterRecord};
use crate::error::chain;
use crate::model::{
    CloudMapService, ClusterId, ClustersetId, Namespace, Owner, Registry, ServiceKey, ServiceRef,
};

impl Served {
    /// Returns the Cloud Map services of names that other clusters export, if their last read is older than this
    /// invocation. The caller reads them again, so that a deregistered endpoint leaves all imports with the next sync.
    fn old_exports(&self, registry: &Registry, clusterset: &ClustersetId) -> BTreeSet<ServiceKey> {
        if registry.is_current() {
            return BTreeSet::new();
        }
        let mut names = BTreeSet::new();
        let records_namespace = record::namespace(clusterset);
        for (key, service) in &registry.services {
            let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
            if namespace.name == records_namespace {
                let Some(cluster) = ClusterId::parse(&service.name) else { continue };
                let all = registry
                    .instances(key)
                    .filter_map(|(_, attributes)| Owner::of(attributes)?.service_of(attributes));
                names.extend(all.filter(|_| !self.is_id_of_exporter(&cluster)));
            } else if registry
                .instances(key)
                .any(|(_, attributes)| is_exported_to(attributes, clusterset))
            {
                // AWS's controller writes no records.
                names.insert(ServiceRef::new(&namespace.name, &service.name));
            }
        }
        let mut keys: BTreeSet<ServiceKey> = registry.keys_of_same_name(&names).collect();
        keys.retain(|key| registry.services.get(key).is_some_and(|service| !service.is_current()));
        keys
    }

    /// If several namespaces have the name for the records, and some of them have the record of a served cluster, drops
    /// the records in the other namespaces.
    fn leave_other_records_out(&self, registry: &mut Registry, clusterset: &ClustersetId) {
        let name = record::namespace(clusterset);
        let served = |(key, owner): &(&ServiceKey, Owner)| {
            let own = ClusterId::parse(&key.name).and_then(|cluster| self.members.get(&cluster));
            own.is_some_and(|arn| *arn == owner.cluster)
        };
        let own = members::id_owners(registry).filter(served);
        let own: BTreeSet<String> = own.map(|(key, _)| key.namespace.clone()).collect();
        let Registry { namespaces, services, .. } = registry;
        let has_records_name =
            |id: &String| namespaces.get(id).is_some_and(|namespace| namespace.name == name);
        if own.iter().any(has_records_name) {
            services
                .retain(|key, _| own.contains(&key.namespace) || !has_records_name(&key.namespace));
        }
    }
}

impl SharedRegistry {
    /// Reads the part of Cloud Map that imports rest on: the records of all members, and the services of `names`, or of
    /// all names if that is `None`. `imported` are the parts that the imports have now. Returns all of Cloud Map if
    /// this invocation has read it as a whole. If namespaces or services could not be listed to the end, the result has
    /// only the owners of cluster ids and the members that this run has written.
    pub async fn read_clusterset(
        &self,
        names: Option<&BTreeSet<ServiceRef>>,
        imported: ImportedParts<'_>,
    ) -> ReadClusterset {
        let ImportedParts { clusterset, served, .. } = imported;
        let read = async {
            let (mut registry, has_all_members) =
                self.read_members(clusterset, names, served).await?;
            self.read_departures(&mut registry, &imported).await?;
            Ok::<_, Failure>(ReadClusterset { registry, has_all_members, ..Default::default() })
        };
        let read = read.await.unwrap_or_else(|error| {
            let problem = Some(chain(&error));
            ReadClusterset { problem, ..ReadClusterset::default() }
        });
        // The run may have written records since the read.
        let id_owners = self.id_owners(clusterset);
        ReadClusterset { id_owners, written_or_planned: self.written_in(clusterset), ..read }
    }

    /// Reads the records of all members, and the services of the names. Also returns whether the services of all
    /// members were listed in this invocation.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed to the end.
    async fn read_members(
        &self,
        clusterset: &ClustersetId,
        names: Option<&BTreeSet<ServiceRef>>,
        served: &Served,
    ) -> Result<(Registry, bool), Failure> {
        let records_namespace = record::namespace(clusterset);
        let known = self.whole_registry().await;
        let may_be_old = known.is_some() || names.is_some();
        let (mut registry, names) = match (known, names) {
            (Some(known), _) => (known, None),
            (None, Some(names)) => {
                let namespaces = self.some_namespaces().await?;
                (Registry { namespaces, ..Registry::default() }, Some(names))
            }
            (None, None) => (self.read().await?, None),
        };
        if may_be_old
            && registry.namespaces.values().all(|namespace| namespace.name != records_namespace)
        {
            // Another run may have created the namespace of the records since this run listed all namespaces. The
            // objects of the imports may be newer than that list.
            self.refresh_namespaces(&mut registry, self.take_moment()).await?;
        }
        let Some(names) = names else {
            self.read_shared_clusterset(&mut registry, clusterset).await?;
            let exported = exported_names(&registry);
            self.look_for_exports(&mut registry, &exported).await?;
            served.leave_other_records_out(&mut registry, clusterset);
            let keys = served.old_exports(&registry, clusterset);
            self.ensure_read_since(&mut registry, &keys, self.take_moment()).await?;
            return Ok((registry, true));
        };
        let (members, mut has_all_members) =
            self.members(clusterset, &registry.namespaces, served).await?;
        registry.services = members;
        if served.bypasses_cache {
            let keys = registry.services.keys().cloned().collect();
            self.ensure_read_since(&mut registry, &keys, self.take_moment()).await?;
        } else {
            has_all_members &= self.leave_importers_out(&mut registry, served);
            self.read_records(&mut registry, names, served).await?;
        }
        let mut keys: BTreeSet<ServiceKey> = registry.keys_of_same_name(names).collect();
        if !served.bypasses_cache && !has_exports(&registry) {
            // No record exports these names, and the rate of lists of services is low.
            let mirror = self.memory.mirror();
            keys.retain(|key| mirror.may_exist(key, self.began.at));
        }
        if has_exports(&registry) {
            self.look_for_exports(&mut registry, names).await?;
        }
        // The publication of an export in this run may have read these services.
        let since = if served.read.is_empty() { self.take_moment() } else { self.began };
        self.ensure_read_since(&mut registry, &keys, since).await?;
        served.leave_other_records_out(&mut registry, clusterset);
        Ok((registry, has_all_members))
    }

    /// Reads the namespaces of other accounts that the records are in or that the records name: no claim of the
    /// importing cluster names them.
    ///
    /// # Errors
    /// Returns an error if services could not be listed to the end.
    async fn read_shared_clusterset(
        &self,
        registry: &mut Registry,
        clusterset: &ClustersetId,
    ) -> Result<(), Failure> {
        let named = |registry: &Registry, names: &BTreeSet<String>| -> BTreeSet<String> {
            let named =
                registry.namespaces.values().filter(|namespace| names.contains(&namespace.name));
            named.map(|namespace| namespace.id.clone()).collect()
        };
        let records = named(registry, &BTreeSet::from([record::namespace(clusterset)]));
        self.read_shared(registry, &records).await?;
        let names = exported_names(registry).into_iter().map(|name| name.namespace).collect();
        let exported = named(registry, &names);
        self.read_shared(registry, &exported).await
    }

    /// Lists services again if a list of an earlier run is still used and shows no service of a name that records
    /// export: the service may have been created since.
    ///
    /// # Errors
    /// Returns an error if services could not be listed to the end.
    async fn look_for_exports(
        &self,
        registry: &mut Registry,
        names: &BTreeSet<ServiceRef>,
    ) -> Result<(), Failure> {
        let mut unknown: BTreeSet<ServiceKey> = registry.keys_of_same_name(names).collect();
        self.memory.mirror().outdate_lists_without(&mut unknown, self.began);
        self.ensure_read_since(registry, &unknown, self.began).await
    }

    /// Looks up by id each record and instance without which something would leave imports, since a list may lack it.
    /// Adds those that Cloud Map has to `registry`, and marks a service as unreadable if a lookup in it fails.
    ///
    /// # Errors
    /// Returns an error if services could not be listed to the end.
    async fn read_departures(
        &self,
        registry: &mut Registry,
        imported: &ImportedParts<'_>,
    ) -> Result<(), Failure> {
        let departing = imported.departing(registry);
        let names = departing.names();
        let mut uncounted: BTreeSet<ServiceKey> = registry.keys_of_same_name(&names).collect();
        let is_skipped_as_empty = |key: &ServiceKey| {
            registry.services.get(key).is_some_and(CloudMapService::is_skipped_as_empty)
        };
        uncounted.retain(is_skipped_as_empty);
        self.ensure_read_since(registry, &uncounted, self.take_moment()).await?;
        let departing = departing.departing(registry);
        let is_unknown = |key: &ServiceKey| !registry.services.contains_key(key);
        if departing.record_services(registry).iter().any(is_unknown) {
            // A member may have joined since the list.
            let records_namespace = record::namespace(imported.clusterset);
            let namespaces = registry
                .namespaces
                .values()
                .filter(|namespace| namespace.name == records_namespace);
            let listed = self.list_services(namespaces, self.take_moment()).await?;
            for (key, service) in listed {
                registry.services.entry(key).or_insert(service);
            }
        }
        self.read_by_ids(registry, departing.records(registry)).await;
        imported.served.leave_other_records_out(registry, imported.clusterset);
        self.read_by_ids(registry, departing.instances(registry)).await;
        // Another cluster may export the name in a service whose instances the lists do not count yet.
        let ending = imported.ending(registry);
        let mut keys: BTreeSet<ServiceKey> = registry.keys_of_same_name(&ending).collect();
        keys.retain(|key| {
            registry.services.get(key).is_some_and(|service| service.unreadable.is_none())
        });
        self.ensure_read_since(registry, &keys, self.take_moment()).await
    }

    /// Adds the instances that Cloud Map has under these ids to `registry`.
    async fn read_by_ids(&self, registry: &mut Registry, ids: InstanceIds) {
        let mut asked = Vec::new();
        for (key, ids) in ids {
            let Some(service) = registry.services.get(&key) else { continue };
            if service.unreadable.is_none() && !ids.is_empty() {
                asked.push((key, service.without_reads(), ids));
            }
        }
        let reads = asked.into_iter().map(|(key, mut service, ids)| async move {
            self.cloud_map.read_instances_by_id(&mut service, &ids).await;
            (key, service)
        });
        let mut reads = pin!(stream::iter(reads).buffer_unordered(SIDE_BY_SIDE));
        while let Some((key, answered)) = reads.next().await {
            let Some(service) = registry.services.get_mut(&key) else { continue };
            service.unreadable = answered.unreadable;
            for (id, attributes) in answered.instances.iter().flatten() {
                let known = service.instances.get_or_insert_default();
                known.insert(id.clone(), attributes.clone());
            }
        }
    }

    /// The services of the records of all members, without instances, and whether they were listed now.
    async fn members(
        &self,
        clusterset: &ClustersetId,
        namespaces: &Namespaces,
        served: &Served,
    ) -> Result<(Services, bool), Failure> {
        let records_namespace = record::namespace(clusterset);
        let all: Vec<&Namespace> =
            namespaces.values().filter(|namespace| namespace.name == records_namespace).collect();
        let recent = |namespace: &&Namespace| {
            self.memory.mirror().recent_services(&namespace.id, self.began.at)
        };
        if let Some(known) = all.iter().map(recent).collect::<Option<Vec<_>>>() {
            let known: Services = known.into_iter().flatten().collect();
            let has =
                |member: &ClusterId| known.values().any(|service| service.name == member.as_str());
            if !served.bypasses_cache && served.members.keys().all(has) {
                return Ok((known, false));
            }
        }
        let now = self.take_moment();
        Ok((self.list_services(all.into_iter(), now).await?, true))
    }

    /// Reads the cluster record of each member, which shows who holds the id, unless it is remembered.
    ///
    /// # Errors
    /// Returns an error if services could not be listed to the end.
    pub(super) async fn read_id_owners(&self, namespaces: &Namespaces) -> Result<(), Failure> {
        let served_none = &Served::default();
        let names = namespaces.values().map(|namespace| &namespace.name);
        let clustersets: BTreeSet<ClustersetId> =
            names.filter_map(|name| record::clusterset_of(name)).collect();
        for clusterset in clustersets {
            let (services, _) = self.members(&clusterset, namespaces, served_none).await?;
            let namespaces = namespaces.clone();
            let mut records = Registry { namespaces, services, ..Registry::default() };
            self.read_records(&mut records, &BTreeSet::new(), served_none).await?;
            self.remember_members(&records);
        }
        Ok(())
    }

    /// Drops the other members that only import, as far as that is remembered. Returns whether none was dropped: a
    /// dropped member may export by now.
    fn leave_importers_out(&self, registry: &mut Registry, served: &Served) -> bool {
        let all = registry.services.len();
        registry.services.retain(|key, service| {
            let record = self.memory.cluster_record(key, self.began.at);
            served.takes_part(&service.name)
                || !record.is_some_and(|record| ClusterRecord::says_only_imports(&record))
        });
        registry.services.len() == all
    }

    /// Reads the export records of these names, and the cluster records of the members.
    async fn read_records(
        &self,
        registry: &mut Registry,
        names: &BTreeSet<ServiceRef>,
        served: &Served,
    ) -> Result<(), Failure> {
        let keys: BTreeSet<ServiceKey> = registry.services.keys().cloned().collect();
        if names.len() > MAX_RECORD_LOOKUPS {
            return self.ensure_read_since(registry, &keys, self.take_moment()).await;
        }
        let services = std::mem::take(&mut registry.services).into_iter();
        let reads = services.map(|(key, mut service)| {
            // The exports of a served cluster are read from the cluster.
            let is_served = ClusterId::parse(&service.name)
                .is_some_and(|cluster| served.is_id_of_exporter(&cluster));
            let unread = names.iter().filter(|_| !is_served);
            let ids: BTreeSet<String> = unread.map(id::export_record).collect();
            async move {
                self.read_member_records(&key, &mut service, &ids).await;
                (key, service)
            }
        });
        let read = stream::iter(reads).buffer_unordered(SIDE_BY_SIDE);
        registry.services = read.collect().await;
        // A remembered service may be gone, or GetInstance may not be allowed.
        let failed = registry.services.iter().filter(|(_, service)| service.unreadable.is_some());
        let failed: BTreeSet<ServiceKey> = failed.map(|(key, _)| key.clone()).collect();
        self.ensure_read_since(registry, &failed, self.take_moment()).await
    }
}

/// The names that records export.
fn exported_names(registry: &Registry) -> BTreeSet<ServiceRef> {
    let is_of_records = |key: &&ServiceKey| {
        let namespace = registry.namespaces.get(&key.namespace);
        namespace.is_some_and(|namespace| record::is_namespace(&namespace.name))
    };
    let records = registry.services.keys().filter(is_of_records);
    let instances = records.flat_map(|key| registry.instances(key));
    instances.filter_map(|(_, attributes)| Owner::of(attributes)?.service_of(attributes)).collect()
}

/// Whether an export record was read.
fn has_exports(records: &Registry) -> bool {
    let mut ids = records.services.keys().flat_map(|key| records.instances(key));
    ids.any(|(id, _)| id != id::CLUSTER_RECORD)
}
