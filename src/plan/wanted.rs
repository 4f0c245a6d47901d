//! What should be registered under a name for its holder: the Cloud Map service, existing or to be
//! created, and in it one instance for everything that `shape` makes of the endpoints to be found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::health;
use super::identity::{Identity, new_id};
use super::maximum::{Maximum, smallest};
use super::service::{NewService, ServiceUpdate, has_ours, new_service, remarks, update};
use super::shape::{Fit, Shape};
use super::{Observation, Permit, Reason, subset};
use crate::model::attributes::INITIAL_HEALTH;
use crate::model::{
    AnnotatedService, Attributes, Claims, CloudMapService, Health, Records, ServiceKey,
    ServiceKind, ServiceRef, Tags,
};

/// The instances that a Cloud Map service should have for its holder.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The Kubernetes Service that holds the name.
    pub holder: ServiceRef,
    /// The Cloud Map service is to be created like this first, where there is none.
    pub create: Option<NewService>,
    /// What of an existing Cloud Map service is to be changed.
    pub update: Option<ServiceUpdate>,
    /// Whether instances that differ in their port alone are different instances.
    pub tells_ports_apart: bool,
    /// Each instance, by the id that it gets where it is new.
    pub instances: BTreeMap<String, (Identity, Attributes)>,
    /// Addresses of endpoints that could not be shaped: what is registered for them stays.
    pub unclear: BTreeSet<IpAddr>,
    /// Whether one of the endpoints is ready, be it one that could not be shaped.
    pub ready: bool,
    /// The most instances to keep or register, and who says so.
    pub maximum: Option<Maximum>,
    /// Which addresses may be published.
    pub permit: Permit<'a>,
    /// Whether the Service wants none, and keeps its claim.
    pub withdrawn: bool,
    /// What becomes of instances that no endpoint asks for.
    pub unasked: Unasked,
    /// What is held back, and why.
    pub held_back: Vec<Reason>,
}

/// What becomes of instances that no endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// They go.
    Go,
    /// They stay while no endpoint is ready at all.
    StayAsLast,
    /// They stay: there may be more endpoints than those that were read.
    Stay,
}

/// Shapes the holder's endpoints for the Cloud Map service under `key`, existing or to be created.
///
/// # Errors
/// The reason for which nothing at all can be done there.
pub fn wanted<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Result<Wanted<'a>, Reason> {
    let permit = observation.permit(holder, key).map_err(Reason::NotAllowed)?;
    let (annotated, claims) = claims(observation, holder)?;
    let existing = observation.registry.services.get(key);
    let create = match existing {
        Some(service) => {
            may_register_in(service, key, observation)?;
            None
        }
        None => new_service(observation, key, annotated, claims),
    };
    let kind = existing.map(|service| service.kind).or(create.as_ref().map(|new| new.kind));
    let shape = Shape { kind: kind.unwrap_or(ServiceKind::Http), annotated, claims, permit };
    let mut wanted = Wanted {
        holder: holder.clone(),
        create,
        update: None,
        tells_ports_apart: shape.tells_ports_apart(),
        instances: BTreeMap::new(),
        unclear: BTreeSet::new(),
        ready: false,
        maximum: smallest(claims.maximum, permit.maximum()),
        permit,
        withdrawn: !claims.publish,
        unasked: match claims.publish {
            true if annotated.truncated => Unasked::Stay,
            true if claims.keeps_last => Unasked::StayAsLast,
            _ => Unasked::Go,
        },
        held_back: shape.remarks(),
    };
    if let Some(service) = existing {
        wanted.look_at(service, key, observation, claims);
    }
    if !claims.publish {
        return Ok(wanted);
    }
    let custom = health::is_custom(claims, existing).unwrap_or_else(|reason| {
        wanted.held_back.push(reason);
        false
    });
    for endpoint in annotated.endpoints.iter().flatten() {
        let Some(health) = health::of_endpoint(endpoint, claims, custom) else { continue };
        let mut fit = shape.fit(endpoint, holder, &observation.owner);
        if custom {
            let instances = fit.instances.iter_mut();
            instances.for_each(|(_, attributes)| attributes.extend(health::attributes(health)));
        }
        wanted.take(fit, health, |identity| new_id(&observation.owner, holder, identity));
    }
    Ok(wanted)
}

impl Wanted<'_> {
    /// Compares the service itself with what its holder's annotations say.
    fn look_at(
        &mut self,
        service: &CloudMapService,
        key: &ServiceKey,
        observation: &Observation,
        claims: &Claims,
    ) {
        if let Some(namespace) = observation.registry.namespaces.get(&key.namespace) {
            self.held_back.extend(remarks(service, namespace.kind, claims));
        }
        match update(service, claims, &observation.owner) {
            Ok(update) => self.update = update,
            Err(reason) => self.held_back.push(reason),
        }
    }

    fn take(&mut self, fit: Fit, health: Health, new_id: impl Fn(&Identity) -> String) {
        let Fit { instances, held_back, unclear } = fit;
        let asks = !instances.is_empty() || !unclear.is_empty();
        self.ready |= asks && health == Health::Healthy;
        for (identity, attributes) in instances {
            self.add(new_id(&identity), (identity, attributes));
        }
        self.held_back.extend(held_back);
        self.unclear.extend(unclear);
    }

    /// Pods on the host's network share their address, and so are one instance, as healthy as the best
    /// of them. Where one of them has a second address, that one stands for all.
    fn add(&mut self, id: String, mut instance: (Identity, Attributes)) {
        let known = self.instances.entry(id).or_insert_with(|| instance.clone());
        let best = health::initial(&known.1).min(health::initial(&instance.1));
        for (_, attributes) in [&mut *known, &mut instance] {
            attributes.entry(INITIAL_HEALTH.to_owned()).and_modify(|it| *it = best.to_string());
        }
        if instance > *known {
            *known = instance;
        }
    }

    /// Takes out what is beyond the maximum, healthy ones last, and of those that are equally healthy
    /// those that are `present` last. Returns the ids taken out.
    pub fn keep_within_maximum(&mut self, present: impl Fn(&String) -> bool) -> BTreeSet<String> {
        let exceeded = |maximum: &Maximum| self.instances.len() > maximum.count;
        let Some(Maximum { count, set_by }) = self.maximum.filter(exceeded) else {
            return BTreeSet::new();
        };
        let mut in_order = subset::in_order(self.instances.keys(), present);
        in_order.sort_by_key(|id| health::initial(&self.instances[*id].1));
        let beyond: BTreeSet<String> = in_order.into_iter().skip(count).cloned().collect();
        let wanted = self.instances.len();
        self.held_back.push(Reason::Maximum { maximum: count, set_by, wanted });
        self.instances.retain(|id, _| !beyond.contains(id));
        beyond
    }

    /// What tells an instance here from others.
    pub fn identity_of(&self, attributes: &Attributes) -> Identity {
        Identity::of(attributes, self.tells_ports_apart)
    }

    /// Whether an instance that no endpoint asks for stays nevertheless.
    pub fn keeps_unasked(&self) -> bool {
        self.unasked == Unasked::Stay || self.keeps_last_set()
    }

    /// Whether nothing is ready and the last instances stay.
    pub fn keeps_last_set(&self) -> bool {
        self.unasked == Unasked::StayAsLast && !self.ready
    }

    /// Whether an endpoint asks for an instance, be it one that could not be shaped.
    pub fn asks(&self) -> bool {
        !self.instances.is_empty() || !self.unclear.is_empty()
    }
}

fn claims<'a>(
    observation: &'a Observation,
    holder: &ServiceRef,
) -> Result<(&'a AnnotatedService, &'a Claims), Reason> {
    let unread = || Reason::Unreadable("its claim was not read".to_owned());
    let annotated = observation.desired.services.get(holder).ok_or_else(unread)?;
    let claims = annotated.claims.as_ref().map_err(|_| unread())?;
    if annotated.endpoints.is_none() {
        return Err(Reason::Unreadable("the Service's endpoints were not read".to_owned()));
    }
    Ok((annotated, claims))
}

fn may_register_in(
    service: &CloudMapService,
    key: &ServiceKey,
    observation: &Observation,
) -> Result<(), Reason> {
    if let Some(problem) = &service.unreadable {
        return Err(Reason::Unreadable(problem.clone()));
    }
    if service.instances.is_none() {
        return Err(Reason::Unreadable("they were not asked for".to_owned()));
    }
    if matches!(service.kind, ServiceKind::Dns(Records { cname: true, .. })) {
        return Err(Reason::CnameService);
    }
    match &service.tags {
        _ if service.kind != ServiceKind::Http || has_ours(observation, key) => Ok(()),
        Tags::Read { managed_by_ecs: true, .. } => Err(Reason::ServiceConnect),
        // Whether ECS manages it cannot be told.
        Tags::Unreadable(problem) => Err(Reason::Unreadable(problem.clone())),
        Tags::Read { .. } | Tags::Unread => Ok(()),
    }
}
