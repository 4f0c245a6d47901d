//! A Cloud Map in memory: the effect of each call on the world, which is the truth. Every single call is checked
//! against the results that must never happen.

use std::collections::BTreeMap;

use super::simulation::Simulation;
use super::world::tagged;
use crate::model::{
    Attributes, CloudMapService, NewService, Outcome, ServiceKey, ServiceKind, ServiceUpdate,
};
use crate::publish::group::Effect;
use crate::publish::plan::{Change, Stage, with_note};

/// The error text of Cloud Map if a namespace is full.
const FULL: &str = "ResourceLimitExceeded: the namespace is full";

impl Simulation {
    /// Makes one call and returns its effect. It fails if the course requires it, or if there is no service to call it
    /// for.
    pub(super) fn make(&mut self, change: &Change, knows_full: bool) -> Effect {
        self.interrupt();
        let failed = || Effect::Settled(Outcome::failed("it fails"));
        let key = change.place().key.clone();
        if !knows_full
            && matches!(change, Change::Register { .. })
            && self.refusals.contains(&key.namespace)
        {
            // As `FullNamespaces` says, without a call.
            return Effect::Full(FULL.to_owned());
        }
        let fails = self.course.failing.checked_shr(self.calls).unwrap_or(0) & 1 == 1;
        self.calls += 1;
        if fails {
            // Every second registration is late, as if its endpoint had changed for a moment.
            let is_late = change.stage() == Stage::Register && self.calls.is_multiple_of(2);
            return if is_late { Effect::Outdated } else { failed() };
        }
        if let Some(name) = change.missing_namespace() {
            self.create_namespace(name);
        }
        if let Change::CreateService { service, .. } = change {
            // Another cluster may have been faster.
            if self.world.0.registry.services.contains_key(&key) {
                return Effect::Contested;
            }
            self.writes += 1;
            return Effect::Created(self.create_service(key, service));
        }
        if !self.world.0.registry.services.contains_key(&key) {
            return failed();
        }
        if matches!(change, Change::Register { .. }) && self.is_full(&key) {
            let is_first = self.refusals.insert(key.namespace.clone());
            assert!(is_first || knows_full, "{change}: refused twice");
            return Effect::Full(FULL.to_owned());
        }
        match change {
            Change::Register { instance, attributes, .. } => {
                self.assert_allowed(change, attributes);
                let present = self.instance(&key, instance);
                assert_eq!(present, None, "{change}: somebody has that id");
                self.instances(&key).insert(instance.clone(), attributes.clone());
                self.assert_within_limits(change);
            }
            Change::Rewrite { instance, attributes, exchange, adopted, .. } => {
                if exchange.is_some() {
                    self.assert_may_go(change);
                }
                match adopted {
                    Some(adopted) => {
                        let present = self.instance(&key, instance);
                        assert_eq!(present, Some(&adopted.present), "{change}");
                    }
                    None => _ = self.assert_ours(change),
                }
                self.assert_allowed(change, attributes);
                self.instances(&key).insert(instance.clone(), attributes.clone());
            }
            Change::Deregister { instance, .. } => {
                self.assert_may_go(change);
                self.instances(&key).remove(instance);
                self.assert_still_served(change);
            }
            Change::UpdateService { update, .. } => self.update_service(&key, update),
            Change::Note { instance, service, text, .. } => {
                let observation = &self.world.0;
                // One that is gone is not registered again.
                let noted = observation.registry.instance(&key, instance).and_then(|present| {
                    with_note(&observation.owner, service, present, text.as_deref())
                });
                if let Some(attributes) = noted {
                    self.instances(&key).insert(instance.clone(), attributes);
                }
            }
            Change::CreateNamespace { .. } | Change::CreateService { .. } => {}
        }
        self.writes += 1;
        Effect::Settled(Outcome::Applied)
    }

    /// Whether Cloud Map takes no more instances in the namespace.
    pub fn is_full(&self, key: &ServiceKey) -> bool {
        let services = self.world.0.registry.services.iter();
        let here = services.filter(|(it, _)| it.namespace == key.namespace);
        let held: usize = here.map(|(_, service)| service.instance_total()).sum();
        held >= self.course.namespace_quota
    }

    /// The first writer that needs a missing namespace creates it.
    fn create_namespace(&mut self, name: &str) {
        assert!(self.course.rules.create_namespaces, "no rule allows the namespace {name}");
        let namespace = self.world.0.registry.namespaces.get_mut(name).expect("it is expected");
        namespace.arn = Some(name.to_owned());
    }

    fn create_service(&mut self, key: ServiceKey, service: &NewService) -> String {
        let arn = format!("arn-{}", key.name);
        let name = service.name.as_str();
        let mut created = CloudMapService::created(arn.clone(), name, service.kind);
        if service.kind != ServiceKind::Http {
            created.ttls.insert(service.ttl);
        }
        created.tags = tagged(&self.world.0.owner.id);
        let former = self.world.0.registry.services.insert(key, created);
        assert_eq!(former, None, "{name} exists");
        arn
    }

    fn update_service(&mut self, key: &ServiceKey, update: &ServiceUpdate) {
        let service = self.world.0.registry.services.get_mut(key).expect("the service is there");
        assert_eq!(service.tags, tagged("cloud-map-sync"), "{key:?} is not ours to update");
        assert_eq!(service.kind, ServiceKind::Dns(update.records), "{key:?} loses records");
        service.ttls = [update.ttl].into();
    }

    fn instances(&mut self, key: &ServiceKey) -> &mut BTreeMap<String, Attributes> {
        let service = self.world.0.registry.services.get_mut(key).expect("the service is there");
        service.instances.as_mut().expect("its instances were read")
    }

    pub fn instance(&self, key: &ServiceKey, id: &str) -> Option<&Attributes> {
        self.world.0.registry.services[key].instances.as_ref()?.get(id)
    }

    /// Everything that is not ours.
    pub fn foreign(&self) -> Vec<(ServiceKey, String, Attributes)> {
        let registry = &self.world.0.registry;
        let all = registry.services.keys().flat_map(|key| {
            registry.instances(key).map(move |(id, attributes)| (key, id, attributes))
        });
        let foreign = all.filter(|(_, _, it)| !self.world.0.owner.owns(it));
        foreign.map(|(key, id, it)| (key.clone(), id.clone(), it.clone())).collect()
    }
}
