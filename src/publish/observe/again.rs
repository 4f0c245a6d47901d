//! Observes again the data that the open changes of a turn rest on.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Error, SERVICES_SIDE_BY_SIDE, World};
use crate::model::Desired;
use crate::publish::plan::{self, Basis, Observation, Observed, RereadScope};

impl World<'_> {
    /// Reads again the data that a removal rests on: the named Cloud Map services, then the Services themselves with
    /// their endpoints. The result replaces the earlier observation of them.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn observe_again(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observed, Error> {
        let services = &scope.read;
        self.registry.read_again(&mut observation.registry, &scope.keys).await?;
        let reads = services.iter().map(|service| self.source.one(self.kubernetes, service));
        let reads = stream::iter(reads).buffered(SERVICES_SIDE_BY_SIDE);
        for (service, read) in services.iter().zip(reads.try_collect::<Vec<_>>().await?) {
            match read {
                Some(read) => _ = observation.desired.services.insert(service.clone(), read),
                None => _ = observation.desired.services.remove(service),
            }
        }
        let mut read = Observed::reread(observation, scope);
        let health = plan::health_needed(Basis { affected: services, ..read.basis() });
        let cloud_map = self.registry.cloud_map();
        cloud_map.read_health(&mut read.observation.registry, &health).await;
        self.read_endpoints(&mut read.observation.desired, services).await?;
        Ok(read)
    }

    /// Reads the endpoints of `services` again.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn observe_endpoints(&self, mut services: Desired) -> Result<Desired, Error> {
        let all = services.services.keys().cloned().collect();
        self.read_endpoints(&mut services, &all).await?;
        Ok(services)
    }
}
