//! Plans the records of a member: the changes that make the records in its Cloud Map service those that are wanted. A
//! record of another owner is never changed, and one that is not named is left alone.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Difference};
use super::observation::{Look, Observation, Plan};
use super::reason::Reason;
use super::removals::DeregisterReason;
use crate::clusterset::id::CLUSTER_RECORD;
use crate::model::{
    Attributes, NewService, Place, RoutingPolicy, ServiceKind, ServiceName, ServiceRef,
};

/// The records to write and to take away, in the Cloud Map service of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRecords {
    pub place: Place,
    /// The attributes to register by id, each with the Service for which it is planned.
    pub wanted: BTreeMap<String, (ServiceRef, Attributes)>,
    /// The Services of which the record goes.
    pub ended: BTreeSet<ServiceRef>,
    /// Whether all are one group, since the first of them creates their service. Later plans of that group find the
    /// service, and still have to make all of them.
    pub in_one_group: bool,
}

/// In the place of a Service, for records that belong to none.
pub fn no_service() -> ServiceRef {
    ServiceRef::new("", "")
}

impl WantedRecords {
    /// The changes on the records that were read. The plan of a group has those of its own Services: a member has a thousand
    /// records, each in a group of its own.
    pub(super) fn plan(&self, observation: &Observation) -> Plan {
        let mut plan = Plan::default();
        plan.changes.entry(no_service()).or_default().extend(self.creation(observation));
        for id in self.wanted.keys().filter(|id| *id != CLUSTER_RECORD) {
            self.add(observation, id, &mut plan);
        }
        for instance in observation.marked(&self.place.key) {
            if self.ended.contains(&instance.service)
                && is_about(observation, &instance.service)
                && !self.wanted.contains_key(instance.id)
            {
                let because = DeregisterReason::NotExported(instance.service.clone());
                let change = instance.removal(&self.place, because, None);
                plan.add(instance.service, change);
            }
        }
        plan.restrict(observation.rules.policy);
        // Under every policy: a member without a heartbeat is stale.
        self.add(observation, CLUSTER_RECORD, &mut plan);
        plan.add_namespaces();
        plan.in_order()
    }

    /// The Service for which a change of the record of a Service is planned.
    fn planned_for(&self, service: &ServiceRef) -> ServiceRef {
        if self.in_one_group { no_service() } else { service.clone() }
    }

    /// The ids of the records that the changes of these Services are about: those that are wanted, and those that stand.
    pub fn ids_of(
        &self,
        observation: &Observation,
        services: &BTreeSet<ServiceRef>,
    ) -> BTreeSet<String> {
        let standing = observation.marked(&self.place.key);
        let standing = standing.filter(|record| services.contains(&record.service));
        let mut ids: BTreeSet<String> = standing.map(|record| record.id.clone()).collect();
        for (id, (service, _)) in &self.wanted {
            if services.contains(&self.planned_for(service)) {
                ids.insert(id.clone());
            }
        }
        ids
    }

    /// Adds what makes a record as it should be, or the reason if it is another owner's.
    fn add(&self, observation: &Observation, id: &str, plan: &mut Plan) {
        let Some((service, wanted)) = self.wanted.get(id) else { return };
        let planned_for = self.planned_for(service);
        if !is_about(observation, &planned_for) {
            return;
        }
        let place = self.place.clone();
        let instance = id.to_owned();
        let Some(present) = observation.registry.instance(&place.key, id) else {
            let attributes = wanted.clone();
            return plan.add(planned_for, Change::Register { place, instance, attributes });
        };
        if !observation.owner.owns(present) {
            return plan.hold_back(service, &place, Reason::IdTaken(instance));
        }
        let attributes = present.carry_over(wanted);
        let differences = Difference::between(present, &attributes);
        if !differences.is_empty() {
            plan.add(planned_for, Change::rewrite(place, instance, attributes, differences));
        }
    }

    fn creation(&self, observation: &Observation) -> Option<Change> {
        let exists = observation.registry.services.contains_key(&self.place.key);
        if exists || self.wanted.is_empty() {
            return None;
        }
        let namespace = observation.registry.namespaces.get(&self.place.key.namespace)?;
        let service = NewService {
            namespace: namespace.clone(),
            name: ServiceName::parse(&self.place.name).ok()?,
            kind: ServiceKind::Http,
            ttl: 0,
            routing_policy: RoutingPolicy::default(),
        };
        Some(Change::CreateService { place: self.place.clone(), service })
    }
}

/// Whether a plan on the observation is about the changes of a Service.
fn is_about(observation: &Observation, service: &ServiceRef) -> bool {
    observation.look != Look::Group || observation.affected.contains(service)
}
