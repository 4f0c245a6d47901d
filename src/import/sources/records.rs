//! The records of one member, as Cloud Map has them.

use std::collections::BTreeMap;

use crate::clusterset::record::{self, ClusterRecord, ExportRecord, Record, UnusableRecord};
use crate::model::attributes::SIGHTING;
use crate::model::clusterset::ClusterId;
use crate::model::{Registry, ServiceKey, ServiceRef};

/// The records of one member.
#[derive(Default)]
pub(super) struct Records {
    pub exports: BTreeMap<ServiceRef, ExportRecord>,
    pub unusable: Vec<UnusableRecord>,
    /// Whether they could not be read.
    pub is_unread: bool,
    /// The record of the cluster itself.
    pub cluster: Option<ClusterRecord>,
    /// The loss of imports that the guard saw first, on the record of the cluster.
    pub sighting: Option<String>,
}

impl Records {
    pub fn read(registry: &Registry, key: &ServiceKey, cluster: &ClusterId) -> Self {
        let service = registry.services.get(key);
        let is_unread = service.is_some_and(|service| service.unreadable.is_some());
        let mut records = Self { is_unread, ..Self::default() };
        for (id, attributes) in registry.instances(key) {
            match record::read(cluster, id, attributes) {
                Ok(Some(Record::Export(record))) => {
                    records.exports.insert(record.service.clone(), record);
                }
                Ok(Some(Record::Cluster(record))) => {
                    records.cluster = Some(record);
                    records.sighting = attributes.get(SIGHTING).map(str::to_owned);
                }
                Ok(None) => {}
                Err(unusable) => records.unusable.push(unusable),
            }
        }
        records
    }
}
