//! What should be registered under a name for one who holds it: the Cloud Map service, existing or to be
//! created, and in it one instance for everything that `shape` makes of the endpoints to be found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::health;
use super::identity::{Identity, new_id};
use super::maximum::{Maximum, smallest};
use super::shape::{Fit, Shape};
use super::sharing;
use super::subset;
use crate::model::attributes::INITIAL_HEALTH;
use crate::model::{
    AnnotatedService, Attributes, Claims, CloudMapService, Health, ServiceKey, ServiceKind,
    ServiceRef,
};
use crate::plan::service::{may_register_in, new_service, remarks, update};
use crate::plan::{NewService, Note, Observation, Permit, Reason, ServiceUpdate, service};

/// The instances that a Cloud Map service should have for one who holds the name.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The Kubernetes Service that holds the name, alone or with others.
    pub holder: ServiceRef,
    /// The Cloud Map service is to be created like this first, where there is none.
    pub create: Option<NewService>,
    /// What of an existing Cloud Map service is to be changed.
    pub update: Option<ServiceUpdate>,
    /// What else is to be known of it.
    pub note: Option<Note>,
    /// Whether instances that differ in their port alone are different instances.
    pub tells_ports_apart: bool,
    /// Each instance, by the id that it gets where it is new.
    pub instances: BTreeMap<String, (Identity, Attributes)>,
    /// Those that it asks for, too, and that are another's who shares the name.
    pub ceded: BTreeSet<Identity>,
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
    /// Why no registration can succeed here, if none can.
    pub refused: Option<Reason>,
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

/// Shapes the endpoints of all who hold `key`, the oldest first, for the Cloud Map service under it,
/// existing or to be created as the oldest asks.
///
/// # Errors
/// The reason for which nothing at all can be done there.
pub fn wanted<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    holders: &[ServiceRef],
) -> Result<Vec<Wanted<'a>>, Reason> {
    let wanted = holders.iter().map(|holder| wanted_by(observation, key, holder, &holders[0]));
    wanted.collect()
}

fn wanted_by<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
    oldest: &ServiceRef,
) -> Result<Wanted<'a>, Reason> {
    let permit = observation.permit(holder, key).map_err(Reason::NotAllowed)?;
    let (annotated, claims) = claims(observation, holder)?;
    let existing = observation.registry.services.get(key);
    let create = match existing {
        Some(service) => {
            may_register_in(service, key, observation)?;
            None
        }
        None => new_service(observation, key, oldest),
    };
    let created_with_check = create.as_ref().is_some_and(|create| create.custom_health);
    let kind = existing.map(|service| service.kind).or(create.as_ref().map(|new| new.kind));
    let kind = kind.unwrap_or(ServiceKind::Http);
    let is_checked = existing.is_some_and(|service| service.health_check.is_some());
    let shape = Shape { kind, is_checked, annotated, claims, permit };
    let mut wanted = Wanted {
        holder: holder.clone(),
        create,
        update: None,
        note: None,
        tells_ports_apart: shape.tells_ports_apart(),
        instances: BTreeMap::new(),
        ceded: BTreeSet::new(),
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
        refused: service::refusal(observation, shape.kind),
        held_back: shape.remarks(),
    };
    let has_check = existing.map_or(created_with_check, |service| service.custom_health);
    if claims.publish {
        wanted.take_endpoints(observation, &shape, has_check);
    }
    if let Some(service) = existing {
        wanted.look_at(service, key, observation, claims);
    }
    if wanted.update.is_some() && wanted.refused.is_some() {
        wanted.update = None;
        wanted.held_back.extend(wanted.refused.clone());
    }
    if holder != oldest {
        (wanted.update, wanted.note) = (None, None);
        wanted.held_back.extend(sharing::outvoted(observation, key, holder, oldest));
    }
    Ok(wanted)
}

impl Wanted<'_> {
    /// Shapes the endpoints to be found.
    fn take_endpoints(&mut self, observation: &Observation, shape: &Shape<'_>, has_check: bool) {
        let Shape { annotated, claims, .. } = shape;
        let (owner, holder) = (&observation.owner, self.holder.clone());
        let custom = health::is_custom(claims, has_check).unwrap_or_else(|setting| {
            self.held_back.push(setting.into());
            false
        });
        for endpoint in annotated.endpoints.iter().flatten() {
            let Some(health) = health::of_endpoint(endpoint, claims, custom) else { continue };
            let mut fit = shape.fit(endpoint, &holder, owner);
            if custom {
                let instances = fit.instances.iter_mut();
                instances.for_each(|(_, attributes)| attributes.extend(health::attributes(health)));
            }
            self.take(fit, health, |identity| new_id(owner, &holder, identity));
        }
    }

    /// Compares the service itself with what its holder's annotations say.
    fn look_at(
        &mut self,
        service: &CloudMapService,
        key: &ServiceKey,
        observation: &Observation,
        claims: &Claims,
    ) {
        if let Some(namespace) = observation.registry.namespaces.get(&key.namespace) {
            let remarks = remarks(service, namespace.kind, claims);
            self.held_back.extend(remarks.into_iter().map(Reason::from));
        }
        match update(service, claims, &observation.owner) {
            Ok((update, note)) => (self.update, self.note) = (update, note),
            Err(setting) => self.held_back.push(setting.into()),
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

    /// Whether an endpoint asks for an instance, be it one that could not be shaped or is another's.
    pub fn asks(&self) -> bool {
        !self.instances.is_empty() || !self.ceded.is_empty() || !self.unclear.is_empty()
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
