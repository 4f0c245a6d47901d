//! Plans the changes of a member's records in its Cloud Map service: writes the wanted records, and removes the records
//! of ended exports. All other records stay as they are. A record of another owner is changed only if the run takes it
//! over from another `OWNER_ID` of the same cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::adopt::Former;
use super::change::{Change, Difference};
use super::observation::{Observation, Plan, PlanPhase};
use super::reason::Reason;
use super::removals::DeregisterReason;
use crate::clusterset::id::CLUSTER_RECORD;
use crate::model::{
    Attributes, NewService, Owner, Place, RoutingPolicy, ServiceKind, ServiceName, ServiceRef,
};

/// The records to write and to remove, in the Cloud Map service of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRecords {
    pub place: Place,
    /// The attributes of each record, by id, with the Service of the record.
    pub wanted: BTreeMap<String, (ServiceRef, Attributes)>,
    /// The Services whose records are removed.
    pub ended: BTreeSet<ServiceRef>,
    /// Whether the Cloud Map service did not exist when the run began. All records are then one group, so that none is
    /// written before the service is created. The flag is stored, since a later plan of the group no longer sees that
    /// the service was missing.
    pub in_one_group: bool,
    /// The ids of the records that the run has read as those of the same cluster under another `OWNER_ID`, and takes
    /// over. A record that another function takes over after that read is missing here, so it is not taken back.
    pub taken_over: BTreeSet<String>,
}

/// The placeholder for the Service of a record that belongs to no Service.
pub fn no_service() -> ServiceRef {
    ServiceRef::new("", "")
}

impl WantedRecords {
    /// Returns the changes that make the records equal to the wanted ones, as far as the observation covers them. The
    /// plan of a group covers only its own Services, since a member may have a thousand records, each in its own group.
    pub(super) fn plan(&self, observation: &Observation) -> Plan {
        let mut plan = Plan::default();
        plan.changes.entry(no_service()).or_default().extend(self.creation(observation));
        for id in self.wanted.keys().filter(|id| *id != CLUSTER_RECORD) {
            self.add(observation, id, &mut plan);
        }
        for instance in observation.our_instances_with_service(&self.place.key) {
            if self.ended.contains(&instance.service)
                && covers(observation, &instance.service)
                && !self.wanted.contains_key(instance.id)
            {
                let because = DeregisterReason::NotExported(instance.service.clone());
                let change = instance.removal(&self.place, because, None);
                plan.add(instance.service, change);
            }
        }
        plan.restrict(observation.rules.policy);
        // The cluster record is written under every policy, since a member without a heartbeat is stale.
        self.add(observation, CLUSTER_RECORD, &mut plan);
        plan.add_namespaces();
        plan.in_order()
    }

    /// The Service for which a change of the record of a Service is planned.
    fn planned_for(&self, service: &ServiceRef) -> ServiceRef {
        if self.in_one_group { no_service() } else { service.clone() }
    }

    /// The ids of the present and wanted records whose changes are planned for these Services.
    pub fn ids_of(
        &self,
        observation: &Observation,
        services: &BTreeSet<ServiceRef>,
    ) -> BTreeSet<String> {
        let present = observation.our_instances_with_service(&self.place.key);
        let present = present.filter(|record| services.contains(&record.service));
        let mut ids: BTreeSet<String> = present.map(|record| record.id.clone()).collect();
        for (id, (service, _)) in &self.wanted {
            if services.contains(&self.planned_for(service)) {
                ids.insert(id.clone());
            }
        }
        ids
    }

    /// Adds the change that makes a record equal to the wanted one, or the reason if another owner has its id.
    fn add(&self, observation: &Observation, id: &str, plan: &mut Plan) {
        let Some((service, wanted)) = self.wanted.get(id) else { return };
        let planned_for = self.planned_for(service);
        if !covers(observation, &planned_for) {
            return;
        }
        let place = self.place.clone();
        let instance = id.to_owned();
        let Some(present) = observation.registry.instance(&place.key, id) else {
            let attributes = wanted.clone();
            return plan.add(planned_for, Change::Register { place, instance, attributes });
        };
        let attributes = present.carry_over(wanted);
        if !observation.owner.owns(present) {
            let Some(former) = self.former_owner(observation, id, present) else {
                return plan.hold_back(service, &place, Reason::IdTaken(instance));
            };
            let adoption = Change::adoption(place, instance, present, former, attributes);
            return plan.add(planned_for, adoption);
        }
        let differences = Difference::between(present, &attributes);
        if !differences.is_empty() {
            plan.add(planned_for, Change::rewrite(place, instance, attributes, differences));
        }
    }

    /// The owner from which a record is taken over: the same cluster under another `OWNER_ID`.
    fn former_owner(
        &self,
        observation: &Observation,
        id: &str,
        present: &Attributes,
    ) -> Option<Former> {
        let former = Owner::of(present).filter(|_| self.taken_over.contains(id))?;
        let is_same_cluster = observation.owner.formerly(&former.id) == former;
        is_same_cluster.then_some(Former::Owner(former.id))
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

/// Whether a plan from the observation covers the changes of a Service.
fn covers(observation: &Observation, service: &ServiceRef) -> bool {
    observation.phase != PlanPhase::Group || observation.affected.contains(service)
}
