//! Services with instances that could not be read: the memory of this process and their tags show whether they may be
//! ours.

use super::World;
use crate::model::{Registry, Tags};
use crate::publish::plan::{self, Holders, Observation};

impl World<'_> {
    /// Marks the services that could not be read and in which something of ours was seen before.
    pub(super) fn recall_ours(&self, registry: &mut Registry) {
        let services = registry.services.values_mut();
        for service in services.filter(|service| service.unreadable.is_some()) {
            service.was_ours = self.registry.memory().was_ours(&service.arn);
        }
    }

    /// Reads the tags of services that may not be read and may be ours, each once in a process.
    pub(super) async fn read_tags_of_unread(
        &self,
        observation: &mut Observation,
        holders: &Holders,
    ) {
        let mut keys = plan::tags_of_unread(observation, holders);
        let (memory, registry) = (self.registry.memory(), &mut observation.registry);
        keys.retain(|key| {
            let Some(service) = registry.services.get_mut(key) else { return false };
            let known = memory.tags_of_others(&service.arn);
            let is_known = known.is_some();
            service.tags = known.unwrap_or_default();
            !is_known
        });
        self.registry.cloud_map().read_tags(registry, &keys).await;
        let read = keys.iter().filter_map(|key| registry.services.get(key));
        let read = read.filter(|service| matches!(service.tags, Tags::Read { .. }));
        for service in read.filter(|service| !service.is_tagged(&self.owner.id)) {
            memory.note_others(&service.arn, &service.tags);
        }
    }
}
