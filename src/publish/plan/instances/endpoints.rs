//! Derives the instances that the holders of a name want from their claims and endpoints. `shape` has the rules for an
//! endpoint.

use std::collections::{BTreeMap, BTreeSet};

use super::health;
use super::identity::new_id;
use super::shape::{Fit, Shape};
use super::wanted::{Surplus, Wanted};
use crate::model::{
    Claims, CloudMapService, Health, NewService, PublishedService, ServiceKey, ServiceKind,
    ServiceRef,
};
use crate::publish::plan::maximum::smallest;
use crate::publish::plan::service::{
    may_register_in, new_service, overridden_settings, refusal, remarks, update,
};
use crate::publish::plan::{Observation, Permit, Reason};

/// The instances that all holders of `key`, the oldest first, want in its Cloud Map service. A service that does not
/// exist is created with the settings of the oldest.
///
/// # Errors
/// Returns the reason if nothing can be registered there.
pub fn wanted<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    holders: &[ServiceRef],
) -> Result<Vec<Wanted<'a>>, Reason> {
    let mut wanted = Vec::with_capacity(holders.len());
    for holder in holders {
        wanted.push(wanted_by(observation, key, holder, holders)?);
    }
    Ok(wanted)
}

fn wanted_by<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
    holders: &[ServiceRef],
) -> Result<Wanted<'a>, Reason> {
    let permit = observation.permit(holder, key).map_err(Reason::NotAllowed)?;
    let (published, claims) = claims(observation, holder)?;
    let existing = observation.registry.services.get(key);
    let create = match existing {
        Some(service) => {
            may_register_in(service, key, observation)?;
            None
        }
        None => new_service(observation, key, holders),
    };
    let has_check = has_check(existing, create.as_ref());
    let shape = shape(existing, create.as_ref(), (published, claims), permit);
    let refused = refusal(observation, shape.kind);
    let mut wanted = Wanted { create, refused, ..nothing_wanted(holder, &shape) };
    if claims.publish {
        wanted.add_endpoints(observation, &shape, has_check);
    }
    if let Some(service) = existing {
        wanted.add_settings(service, key, observation, claims);
    }
    let oldest = &holders[0];
    if holder != oldest {
        (wanted.update, wanted.note) = (None, None);
        wanted.held_back.extend(overridden_settings(observation, key, holder, oldest));
    }
    Ok(wanted)
}

/// The rules for endpoints in the Cloud Map service, existing or to be created.
fn shape<'a>(
    existing: Option<&CloudMapService>,
    create: Option<&NewService>,
    (published, claims): (&'a PublishedService, &'a Claims),
    permit: Permit<'a>,
) -> Shape<'a> {
    let kind = existing.map(|service| service.kind).or(create.map(|new| new.kind));
    let kind = kind.unwrap_or(ServiceKind::Http);
    let is_checked = existing.is_some_and(|service| service.health_check.is_some());
    Shape { kind, is_checked, published, claims, permit }
}

/// The settings of a holder for a name, without instances.
fn nothing_wanted<'a>(holder: &ServiceRef, shape: &Shape<'a>) -> Wanted<'a> {
    let Shape { published, claims, permit, .. } = *shape;
    Wanted {
        holder: holder.clone(),
        create: None,
        update: None,
        note: None,
        tells_ports_apart: shape.tells_ports_apart(),
        instances: BTreeMap::new(),
        owned_by_sharer: BTreeSet::new(),
        unclear: BTreeSet::new(),
        ready: false,
        maximum: smallest(claims.maximum, permit.maximum()),
        beyond_maximum: BTreeMap::new(),
        permit,
        withdrawn: !claims.publish,
        surplus: surplus(published, claims),
        refused: None,
        held_back: shape.remarks(),
    }
}

fn has_check(existing: Option<&CloudMapService>, create: Option<&NewService>) -> bool {
    let created = create.is_some_and(|create| create.custom_health);
    existing.map_or(created, |service| service.custom_health)
}

fn surplus(published: &PublishedService, claims: &Claims) -> Surplus {
    match claims.publish {
        true if published.truncated => Surplus::Keep,
        true if claims.keeps_last => Surplus::KeepIfNoneReady,
        _ => Surplus::Deregister,
    }
}

fn claims<'a>(
    observation: &'a Observation,
    holder: &ServiceRef,
) -> Result<(&'a PublishedService, &'a Claims), Reason> {
    let unread = || Reason::Unreadable("its claim was not read".to_owned());
    let published = observation.desired.services.get(holder).ok_or_else(unread)?;
    let claims = published.claims.as_ref().map_err(|_| unread())?;
    if published.endpoints.is_none() {
        return Err(Reason::Unreadable("the Service's endpoints were not read".to_owned()));
    }
    Ok((published, claims))
}

impl Wanted<'_> {
    /// Adds the instances of the endpoints.
    fn add_endpoints(&mut self, observation: &Observation, shape: &Shape<'_>, has_check: bool) {
        let Shape { published, claims, .. } = shape;
        let custom = health::is_custom(claims, has_check).unwrap_or_else(|setting| {
            self.held_back.push(setting.into());
            false
        });
        let mut held_back = BTreeSet::new();
        for endpoint in published.endpoints.iter().flatten() {
            let Some(health) = health::of_endpoint(endpoint, claims, custom) else { continue };
            let mut fit = shape.fit(endpoint, &self.holder, &observation.owner);
            if custom {
                let instances = fit.instances.iter_mut();
                instances.for_each(|(_, attributes)| attributes.extend(health::attributes(health)));
            }
            // A thousand endpoints may lack the same port: one reason.
            held_back.extend(fit.held_back.drain(..));
            self.add_fit(observation, fit, health);
        }
        self.held_back.extend(held_back);
    }

    fn add_fit(&mut self, observation: &Observation, fit: Fit, health: Health) {
        let Fit { instances, unclear, .. } = fit;
        let asks = !instances.is_empty() || !unclear.is_empty();
        self.ready |= asks && health == Health::Healthy;
        for (identity, attributes) in instances {
            let id = new_id(&observation.owner, &self.holder, &identity);
            self.add(id, (identity, attributes));
        }
        self.unclear.extend(unclear);
    }

    /// Compares the service itself with the annotations of its holder.
    fn add_settings(
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
            Ok((Some(_), note)) if self.refused.is_some() => {
                self.note = note;
                self.held_back.extend(self.refused.clone());
            }
            Ok((update, note)) => (self.update, self.note) = (update, note),
            Err(setting) => self.held_back.push(setting.into()),
        }
    }
}
