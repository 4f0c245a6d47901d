//! Compares the instances that a Cloud Map service should have for those who hold the name with those
//! of ours that it has: what is new, what differs, what is as it should be, what nobody asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::Comparison;
use super::health::{self, HealthDifference};
use super::identity::Identity;
use super::present::Present;
use super::rewrite;
use super::sharing::apportion;
use super::wanted::{Unasked, Wanted};
use crate::model::{Attributes, Health, ServiceKey, ServiceRef};
use crate::plan::change::describe;
use crate::plan::{Observation, Reason, Setting};

/// Compares what each holder asks for, the oldest first, with what stands under `key`.
pub fn compare(
    observation: &Observation,
    key: &ServiceKey,
    mut all: Vec<Wanted>,
) -> BTreeMap<ServiceRef, Comparison> {
    let tells_ports_apart = all.first().is_some_and(|wanted| wanted.tells_ports_apart);
    let present = Present::of(observation, key, tells_ports_apart);
    let holders: Vec<ServiceRef> = all.iter().map(|wanted| wanted.holder.clone()).collect();
    let beyond = apportion(&mut all, &present);
    let kept = present.kept_for(&all);
    let compared = all.iter().zip(beyond).map(|(wanted, beyond)| {
        let withdrawn = wanted.withdrawn;
        let mut comparison = Comparison { beyond, withdrawn, ..Comparison::default() };
        comparison.match_up(wanted, &present, &kept, &holders);
        comparison
    });
    let mut compared: Vec<Comparison> = compared.collect();
    let used: BTreeSet<&String> = kept.values().copied().collect();
    for id in present.ours.keys().filter(|id| !used.contains(*id)) {
        let marked = holders.iter().position(|holder| present.is_marked(id, holder));
        // What is marked for nobody who holds the name is counted with the oldest.
        let comparison = &mut compared[marked.unwrap_or(0)];
        let identity = present.identity(id);
        let allowed = all[marked.unwrap_or(0)].permit.allows_all(&identity);
        if !allowed {
            comparison.not_allowed.insert((*id).clone());
        }
        let lasts = allowed && marked.is_some_and(|index| all[index].keeps_unasked());
        let stays = comparison.file(id, &identity, &all, lasts);
        comparison.serves |= stays && marked.is_some();
    }
    let finished = all
        .into_iter()
        .zip(compared)
        .map(|(wanted, comparison)| (wanted.holder.clone(), comparison.finish(wanted, &present)));
    finished.collect()
}

/// Leaves the creation of the service to the first of `services` that registers something.
pub fn create_once(compared: &mut BTreeMap<ServiceRef, Comparison>, services: &[&ServiceRef]) {
    let creating = services.iter().filter(|service| compared[**service].create.is_some());
    for service in creating.skip(1).copied().collect::<Vec<_>>() {
        if let Some(comparison) = compared.get_mut(service) {
            comparison.create = None;
        }
    }
}

impl Comparison {
    /// Files what is wanted, by what is kept for it.
    fn match_up(
        &mut self,
        wanted: &Wanted,
        present: &Present,
        kept: &BTreeMap<&String, &String>,
        holders: &[ServiceRef],
    ) {
        let is_held = |id: &String| holders.iter().any(|holder| present.is_marked(id, holder));
        self.asked = wanted.asks();
        for identity in &wanted.ceded {
            match present.found(identity) {
                Some(id) => {
                    let healthy = present.health(id) == Health::Healthy;
                    self.serves |= is_held(id) && (healthy || !wanted.ready);
                }
                None => _ = self.awaited.insert(identity.clone()),
            }
        }
        for (new_id, (identity, attributes)) in &wanted.instances {
            match kept.get(new_id) {
                Some(id) => {
                    let found = present.identity(id) == *identity;
                    if !found {
                        self.misstated.insert((*id).clone());
                    }
                    let serves = found && wanted.serves(attributes);
                    self.serves |= serves && is_held(id);
                    let attributes = wanted.attributes_over(attributes, present.health(id));
                    let health = health::difference(&attributes, present.health(id));
                    let health = health.filter(|_| present.health_unreadable().is_none());
                    self.settle(id, present.ours[id], &attributes, health, wanted.refused.as_ref());
                }
                None => match present.spare_id(new_id) {
                    Some(_) if wanted.refused.is_some() => {
                        self.held_back.extend(wanted.refused.clone());
                    }
                    Some(id) if !self.register.contains_key(&id) => self.file_new(&id, attributes),
                    _ => self.held_back.push(Reason::IdTaken(new_id.clone())),
                },
            }
        }
    }

    /// Adds what is to be said and done besides.
    fn finish(mut self, wanted: Wanted, present: &Present) -> Self {
        if wanted.keeps_last_set() {
            self.held_back.push(Reason::NoneReady { kept: self.unchanged.len() });
        }
        if wanted.unasked == Unasked::Stay {
            self.held_back.push(Reason::EndpointsTruncated);
        }
        let unreadable = present.health_unreadable().cloned();
        self.held_back.extend(unreadable.map(|problem| Setting::HealthUnreadable(problem).into()));
        (self.update, self.note) = (wanted.update, wanted.note);
        self.create = wanted.create.filter(|_| !self.register.is_empty());
        self.held_back.extend(wanted.held_back);
        self
    }

    /// Files an instance under those to register.
    fn file_new(&mut self, id: &str, attributes: &Attributes) {
        match rewrite::beyond_limits(attributes) {
            Some(problem) => self.hold_attributes_back(id, problem),
            None => _ = self.register.insert(id.to_owned(), attributes.clone()),
        }
    }

    /// Files a present instance of ours under unchanged, rewrite or health. A registration says what its
    /// health is, so what is rewritten needs nothing else.
    fn settle(
        &mut self,
        id: &str,
        present: &Attributes,
        wanted: &Attributes,
        health: Option<HealthDifference>,
        refused: Option<&Reason>,
    ) {
        let rewritten = rewrite::carry_over(present, wanted);
        let mut differences = rewrite::differences(present, &rewritten);
        let problem = rewrite::beyond_limits(&rewritten).filter(|_| !differences.is_empty());
        let refused = refused.filter(|_| !differences.is_empty());
        if !differences.is_empty() && problem.is_none() && refused.is_none() {
            differences.extend(health.map(HealthDifference::into));
            self.rewrite.insert(id.to_owned(), (rewritten, differences));
            return;
        }
        match health {
            Some(health) => _ = self.health.insert(id.to_owned(), (describe(present), health)),
            None => _ = self.unchanged.insert(id.to_owned()),
        }
        self.held_back.extend(refused.cloned());
        if let Some(problem) = problem {
            self.hold_attributes_back(id, problem);
        }
    }

    fn hold_attributes_back(&mut self, instance: &str, problem: String) {
        let instance = instance.to_owned();
        self.held_back.push(Reason::AttributeLimit { instance, problem });
    }

    /// Files one of ours that no wanted instance is kept in, and says whether it is kept nevertheless.
    fn file(&mut self, id: &str, identity: &Identity, all: &[Wanted], lasts: bool) -> bool {
        let mut unclear = all.iter().flat_map(|wanted| &wanted.unclear);
        let mut instances = all.iter().flat_map(|wanted| wanted.instances.values());
        let stays = lasts || unclear.any(|unclear| identity.addresses().any(|it| it == *unclear));
        let group = if stays {
            &mut self.unchanged
        } else if instances.any(|(wanted, _)| wanted == identity) {
            &mut self.duplicates
        } else {
            &mut self.unwanted
        };
        group.insert(id.to_owned());
        stays
    }
}
