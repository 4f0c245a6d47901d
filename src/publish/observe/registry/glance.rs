//! A read of every service by discovery, at twenty times the rate of the control plane. It may be late and does not
//! show everything, so it can only show that nothing is to be done (`plan::in_doubt`): a change always rests on lists.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};

use super::{Failure, SharedRegistry};
use crate::cloud_map::SIDE_BY_SIDE;
use crate::error::chain;
use crate::model::{Registry, ServiceKey};

impl SharedRegistry {
    /// Every service, with the instances that discovery returns. Services that discovery does not show are listed.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed to the end.
    pub async fn glance(&self) -> Result<Registry, Failure> {
        let glance = self.glance.get_or_init(|| async {
            let namespaces = self.some_namespaces().await?;
            let whole = namespaces.values().filter(|it| self.is_read_whole(it));
            let services = self.list_services(whole, self.began).await?;
            let mut registry = self.ascertain(namespaces, services).await?;
            let services = registry.services.iter();
            let unread = services.filter(|(_, it)| it.instances.is_none() && it.held() > 0);
            let unread = unread.map(|(key, _)| key.clone()).collect();
            self.discover(&mut registry, &unread).await;
            self.remember_members(&registry);
            Ok(registry)
        });
        let glance = glance.await.clone()?;
        Ok(self.with_shared(glance).await)
    }

    /// Puts the instances of services into `registry`, from discovery or else from lists.
    pub(in crate::publish::observe) async fn discover(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) {
        let seen = &*registry;
        let looks = keys.iter().filter_map(|key| {
            let namespace = seen.namespaces.get(&key.namespace)?;
            Some((key, namespace, seen.services.get(key)?))
        });
        let looks: Vec<_> = stream::iter(looks)
            .map(|(key, namespace, service)| async move {
                let told = self.cloud_map.discovered(namespace, &service.name).await;
                (key, told)
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        let (mut untold, mut problem) = (BTreeSet::new(), None);
        for (key, told) in looks {
            match (told, registry.services.get_mut(key)) {
                (Ok(Some(told)), Some(service)) => service.instances = Some(told),
                (Err(error), _) => {
                    problem = Some(error);
                    untold.insert(key.clone());
                }
                _ => _ = untold.insert(key.clone()),
            }
        }
        // Nothing is missed, but the run is slower than REGISTRY_READ promises.
        if let Some(error) = problem {
            let (error, count) = (chain(&error), untold.len());
            tracing::info!(
                "{count} Cloud Map services are listed, since discovery failed: {error}"
            );
        }
        self.read_instances(registry, &untold).await;
    }
}
