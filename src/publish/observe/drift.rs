//! The Services of clusters that a change in Cloud Map by another party concerns. The change names a Cloud Map service by
//! its id, which the mirror has or which is read. They are those that claim its name or have instances there: as far as
//! this process has seen, and as the marks of its instances show. Any other is left to the next full sync.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use super::SharedRegistry;
use super::mirror::Moment;
use crate::cloud_map::Urgency;
use crate::clusterset::id::EXPORT_RECORD;
use crate::error::chain;
use crate::model::{CloudMapService, ClusterArn, Owner, Registry, ServiceKey, ServiceRef};

/// Changed services, each with the ids of the instances that the changes name.
pub type Changed = BTreeMap<ServiceKey, BTreeSet<String>>;
/// Services, each with its cluster.
pub type Concerned = BTreeSet<(ClusterArn, ServiceRef)>;

impl SharedRegistry {
    /// The services with these ids that this process has seen. What was read of them is old.
    pub fn seen(&self, ids: &BTreeSet<&str>) -> BTreeMap<String, ServiceKey> {
        let mut mirror = self.memory().mirror();
        let seen = mirror.keys_of_ids(|id| ids.contains(id));
        mirror.outdate(seen.values());
        seen
    }

    /// Reads the services with these ids, and the instances of those of which this process knows nothing.
    pub async fn find(&self, ids: &[&str]) -> BTreeMap<String, ServiceKey> {
        let mut found = Registry::default();
        let mut keys = BTreeMap::new();
        let cloud_map = self.cloud_map.with(Urgency::Rest);
        let reads = ids.iter().map(|id| async { (*id, cloud_map.service_of_id(id).await) });
        let reads: Vec<_> = stream::iter(reads).buffered(ids.len().max(1)).collect().await;
        let mut services = Vec::new();
        for (id, read) in reads {
            match read {
                Ok(read) => services.extend(read.map(|(namespace, it)| (id, namespace, it))),
                Err(error) => {
                    let error = chain(&error);
                    tracing::info!("a changed service is left to the next full sync: {error}");
                }
            }
        }
        if services.is_empty() {
            return keys;
        }
        let namespaces = self.some_namespaces().await.unwrap_or_default();
        let start = (self.memory().mirror().take_moment(), self.now());
        for (id, namespace, service) in services {
            let Some(namespace) = namespaces.get(&namespace) else { continue };
            let key = ServiceKey::new(namespace, &service.name);
            self.memory().known().others.remove(&service.arn);
            self.memory().mirror().keep_entry(&key, &service, start);
            keys.insert(id.to_owned(), key.clone());
            if self.last_read(&key).is_some_and(|it| it.instances.is_none()) {
                found.services.insert(key, service);
            }
        }
        // Of others the marks are needed.
        self.memory().for_each_place(|_, _, key| _ = found.services.remove(key));
        let unread = found.services.keys().cloned().collect();
        self.read_instances(&mut found, &unread).await;
        keys
    }

    /// The Services that changed services concern. Of the records of a member, which are all in one service, those that the
    /// changes name.
    pub fn concerned(&self, changed: &Changed, owner: &str) -> BTreeMap<ServiceKey, Concerned> {
        let mut concerned: BTreeMap<ServiceKey, Concerned> = BTreeMap::new();
        let mut add = |key: &ServiceKey, cluster: &ClusterArn, service: &ServiceRef| {
            let all = concerned.entry(key.clone()).or_default();
            all.insert((cluster.clone(), service.clone()));
        };
        self.memory().for_each_place(|of, service, key| {
            if changed.contains_key(key) {
                add(key, &of.cluster, service);
            }
        });
        for (key, named) in changed {
            let instances = self.last_read(key).and_then(|it| it.instances).unwrap_or_default();
            let is_meant = |id: &String| !id.starts_with(EXPORT_RECORD) || named.contains(id);
            for (_, attributes) in instances.iter().filter(|(id, _)| is_meant(id)) {
                if let Some(of) = Owner::of(attributes).filter(|of| of.id == owner)
                    && let Some(service) = of.service_of(attributes).filter(ServiceRef::can_exist)
                {
                    add(key, &of.cluster, &service);
                }
            }
        }
        concerned
    }

    /// A service as this process has read it last.
    fn last_read(&self, key: &ServiceKey) -> Option<CloudMapService> {
        self.memory().mirror().service(key, Moment::default())
    }
}
