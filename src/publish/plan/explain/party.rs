//! The owners of the instances in each Cloud Map service, for display only: every cluster of this function by its ARN,
//! ECS by its services, other tools.

use std::collections::BTreeMap;

use crate::model::{Attributes, CloudMapService, Registry, attributes};
use crate::publish::plan::Foreign;
use crate::publish::plan::Place;
use crate::publish::plan::ownership::likely_owner;

/// The party that registered an instance, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// This function, or another installation of it, for a cluster.
    Cluster {
        cluster: String,
        /// The installation's `OWNER_ID`.
        owner: String,
    },
    Ecs {
        /// The ECS service and its cluster, if the instance's attributes contain them.
        service: Option<String>,
    },
    /// Another tool, or an unknown party.
    Other(Foreign),
}

impl Party {
    pub fn of(id: &str, of_instance: &Attributes) -> Self {
        if let Some((owner, cluster)) = attributes::marked(of_instance) {
            return Self::Cluster { cluster: cluster.to_owned(), owner: owner.to_owned() };
        }
        let text = |key: &str| of_instance.get(key);
        match likely_owner(id, of_instance) {
            Foreign::Ecs => {
                let service = text("ECS_SERVICE_NAME").map(|service| {
                    let cluster = text("ECS_CLUSTER_NAME").unwrap_or("default");
                    format!("{cluster}/{service}")
                });
                Self::Ecs { service }
            }
            other => Self::Other(other),
        }
    }
}

/// All parties in one Cloud Map service, with the number of their instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parties<'a> {
    pub place: Place,
    pub service: &'a CloudMapService,
    pub instances: BTreeMap<Party, usize>,
}

/// All parties in every service of a registry, by the names of namespace and service.
pub fn parties(registry: &Registry) -> Vec<Parties<'_>> {
    let mut all: Vec<Parties<'_>> = registry
        .services
        .iter()
        .map(|(key, service)| {
            let mut instances = BTreeMap::new();
            for (id, attributes) in registry.instances(key) {
                *instances.entry(Party::of(id, attributes)).or_default() += 1;
            }
            Parties { place: Place::of(key, registry), service, instances }
        })
        .collect();
    all.sort_by(|a, b| a.place.cmp(&b.place));
    all
}
