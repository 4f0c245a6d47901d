//! Services that other writers created during the run. Lists of services are scarce, two a second, and overlapping runs
//! meet many such services at once: all requests during one list share the next one.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{Failure, SharedRegistry, missing};
use crate::model::{Namespace, Registry, ServiceKey};
use crate::publish::observe::memory::Services;

impl SharedRegistry {
    /// Adds services that did not exist when the registry was read, and returns their keys.
    pub(super) async fn find_new_services(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<BTreeSet<ServiceKey>, Failure> {
        let asked = Instant::now();
        let missing = missing(registry, keys);
        let ids: BTreeSet<&String> = missing.iter().map(|key| &key.namespace).collect();
        for id in ids {
            let namespace = registry.namespaces.get(id).filter(|it| it.arn.is_some()).cloned();
            let Some(namespace) = namespace else { continue };
            let listed = self.services_since(&namespace, asked).await?;
            registry.services.extend(listed.into_iter().filter(|(key, _)| missing.contains(key)));
        }
        Ok(missing)
    }

    /// The services of a namespace by a list that was begun after a moment.
    async fn services_since(
        &self,
        namespace: &Namespace,
        moment: Instant,
    ) -> Result<Services, Failure> {
        let mut anew = self.anew.lock().await;
        if let Some((began, services)) = anew.get(&namespace.id)
            && *began > moment
        {
            return Ok(services.clone());
        }
        let began = Instant::now();
        let services = self.list_services(std::iter::once(namespace)).await?;
        anew.insert(namespace.id.clone(), (began, services.clone()));
        Ok(services)
    }
}
