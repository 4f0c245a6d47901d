//! What other parties do in Cloud Map: namespaces, services and instances of their own, and hands on those of ours.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::super::oracle;
use super::super::play::Scene;
use super::super::world::{AMBER, CLUSTERS, NAMES, Namespace, Reference};
use super::{Move, Table};
use crate::fleet::OTHER_ACCOUNT;
use testbed::cloud_map::RecordType::{self, A, Aaaa, Srv};
use testbed::cloud_map::ServiceKind;

const SLOW: Duration = Duration::from_secs(14);

/// The most attributes of an instance.
const FULL: usize = 30;

/// The records of services that others make; none are HTTP services.
const RECORDS: &[&[RecordType]] = &[&[A], &[A], &[Aaaa], &[A, Aaaa], &[Srv], &[]];

pub fn table() -> Table {
    kinds! {
        3 second_namespace();
        3 service_of_another_party();
        3 foreign_instance();
        1 foreign_instance_goes();
        2 attributes_are_added();
        1 all_of_ours_are_full();
        1 ours_is_withdrawn();
        1 empty_service_is_deleted();
        2 service_is_made_again();
        1 service_is_filled();
        1 share_is_withdrawn();
        1 namespace_is_made_again();
        1 cluster_is_gone();
        1 calls_are_slow();
    }
}

fn key() -> impl Strategy<Value = (usize, &'static str)> {
    (0..4_usize, select(&NAMES[1..]))
}

impl Scene {
    /// The id of a Cloud Map service, if it is there.
    fn service_id(&self, (namespace, name): (usize, &str)) -> Option<String> {
        let namespace = Some(self.world.namespace(namespace)).filter(|it| !it.is_withdrawn)?;
        let services = self.fleet.cloud_map.services(&namespace.id).into_iter();
        services.filter(|view| view.name == name).map(|view| view.id).next()
    }

    /// From now on an adoption may take instances that others registered for addresses of pods.
    pub fn allow_adoption(&self) {
        self.fleet.allow_adoption_in(&self.known_services(), |_, attributes| {
            attributes.get("AWS_INSTANCE_IPV4").is_some_and(|it| it.starts_with("10.0.1."))
        });
    }

    /// The ids of the services in the namespaces of the world.
    fn known_services(&self) -> Vec<String> {
        let namespaces = self.world.namespaces.iter().filter(|it| !it.is_withdrawn);
        let services = namespaces.flat_map(|it| self.fleet.cloud_map.services(&it.id));
        services.map(|it| it.id).collect()
    }

    /// A namespace goes with all that is in it.
    fn remove_namespace(&self, id: &str) {
        let cloud_map = &self.fleet.cloud_map;
        cloud_map.services(id).iter().for_each(|it| cloud_map.remove_service(&it.id));
        cloud_map.remove_namespace(id);
    }

    /// Adds attributes to each of ours in a service, as far as there is room.
    fn add_attributes(&self, service: &str, count: usize) {
        for (id, mut attributes) in self.fleet.cloud_map.instances(service) {
            if oracle::marks(&self.world, &attributes).is_some() {
                let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
                let added = own..(own + count).min(FULL);
                attributes.extend(added.map(|it| (format!("by-hand-{it}"), "x".to_owned())));
                self.fleet.put(service, &id, &attributes);
            }
        }
    }

    /// Under `web` in `prod.local` an instance stands that the function registered for a cluster that is gone. It has
    /// what records of any type require.
    pub fn leave_of_amber(&mut self) {
        let Some(service) = self.service_id((1, NAMES[3])) else { return };
        let mut attributes = self.fleet.ours(NAMES[3], "10.0.3.1");
        let required = [("AWS_INSTANCE_IPV6", "fd00::3:1"), ("AWS_INSTANCE_PORT", "8080")];
        attributes.extend(required.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let arn = self.fleet.sandbox.cluster_arn(CLUSTERS[0]).replace(CLUSTERS[0], AMBER);
        attributes.insert("cloud-map-sync/cluster".to_owned(), arn);
        attributes.insert("cloud-map-sync/owner".to_owned(), self.world.settings.owner.to_owned());
        self.fleet.put(&service, "of-amber", &attributes);
    }

    pub fn unsettle_name(&mut self, name: &str) {
        (0..2).for_each(|cluster| self.ledger.unsettle(cluster, name));
    }
}

fn second_namespace() -> impl Strategy<Value = Move> {
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.6));
    (0..2_usize, flags).prop_map(|(number, (is_shared, has_names))| {
        let whose = if is_shared { "shared by another account" } else { "of another VPC" };
        let name = ["prod", "prod.local"][number];
        let with = if has_names { ", with services of all names, and api moves there" } else { "" };
        Move::new(format!("a second namespace {name} appears, {whose}{with}"), move |scene| {
            if scene.world.namespaces.len() >= 4 {
                return;
            }
            let first = scene.world.namespaces[number].clone();
            let cloud_map = &scene.fleet.cloud_map;
            let id = match is_shared {
                true => cloud_map.shared_namespace(first.name, first.kind, OTHER_ACCOUNT),
                // No account has two HTTP namespaces of one name.
                false if number == 0 => return,
                false => cloud_map.namespace(first.name, first.kind),
            };
            if has_names {
                let kind = match number {
                    0 => ServiceKind::Http,
                    _ => ServiceKind::of_records(&[A]),
                };
                for name in &NAMES[1..] {
                    cloud_map.service(&id, name, kind.clone());
                }
            }
            let youngest = Reference::Id(scene.world.namespaces.len());
            scene.world.namespaces.push(Namespace { id, is_shared, ..first });
            if has_names {
                (0..2).for_each(|cluster| {
                    scene.change((cluster, 0), |it| it.claim.namespace = youngest);
                });
            }
            for service in scene.world.services.clone().into_values() {
                scene.world.note_asked(&service);
            }
        })
    })
}

fn service_of_another_party() -> impl Strategy<Value = Move> {
    let records = select(RECORDS);
    (key(), records, any::<bool>()).prop_map(|((namespace, name), records, custom_health)| {
        let sentence = format!("another party makes {name} in namespace {namespace}: {records:?}");
        Move::new(sentence, move |scene| {
            let there = scene.world.namespace(namespace).clone();
            if scene.service_id((namespace, name)).is_some() {
                return;
            }
            let is_dns = there.name.contains('.') && !records.is_empty();
            let records = records.iter().map(|it| (*it, 60)).collect();
            let kind = ServiceKind::Dns { records, custom_health };
            let kind = if is_dns { kind } else { ServiceKind::Http };
            if !there.is_withdrawn {
                scene.fleet.cloud_map.service(&there.id, name, kind);
            }
        })
    })
}

fn foreign_instance() -> impl Strategy<Value = Move> {
    (key(), 1..4_u8, any::<bool>()).prop_map(|(key, number, is_ours)| {
        // An address of a pod, too: an equal address does not stop ours.
        let address = if is_ours { format!("10.0.1.{number}") } else { format!("10.0.9.{number}") };
        let sentence = format!("another party registers {address} under {} in {}", key.1, key.0);
        Move::new(sentence, move |scene| {
            let Some(service) = scene.service_id(key) else { return };
            let mut attributes = vec![("AWS_INSTANCE_IPV4", address.as_str()), ("by-hand", "red")];
            if !is_ours {
                attributes.extend([("AWS_INSTANCE_IPV6", "fd00::99"), ("AWS_INSTANCE_PORT", "80")]);
            }
            let id = format!("by-hand-{number}");
            scene.fleet.cloud_map.instance(&service, &id, &attributes);
            // An adoption of all that is under way may not have read it yet.
            scene.is_adopting &= !scene.runs.is_empty();
            if scene.is_adopting {
                scene.allow_adoption();
            }
        })
    })
}

fn foreign_instance_goes() -> impl Strategy<Value = Move> {
    (key(), 1..4_u8).prop_map(|(key, number)| {
        let sentence = format!("another party deregisters its {number} of {} in {}", key.1, key.0);
        Move::new(sentence, move |scene| {
            let Some(service) = scene.service_id(key) else { return };
            let id = format!("by-hand-{number}");
            if scene.fleet.cloud_map.instances(&service).contains_key(&id) {
                scene.fleet.cloud_map.withdraw(&service, &id);
            }
        })
    })
}

fn attributes_are_added() -> impl Strategy<Value = Move> {
    key().prop_map(|key| {
        let sentence = format!("another party adds an attribute to ours under {}", key.1);
        Move::new(format!("{sentence} in {}", key.0), move |scene| {
            if let Some(service) = scene.service_id(key) {
                scene.add_attributes(&service, 1);
            }
        })
    })
}

fn all_of_ours_are_full() -> impl Strategy<Value = Move> {
    let sentence = "another party adds attributes to all of ours until there is no room";
    Just(Move::new(sentence, |scene| {
        for service in scene.known_services() {
            scene.add_attributes(&service, FULL);
        }
    }))
}

fn ours_is_withdrawn() -> impl Strategy<Value = Move> {
    key().prop_map(|key| {
        let sentence =
            format!("another party deregisters one of ours under {} in {}", key.1, key.0);
        Move::new(sentence, move |scene| {
            let Some(service) = scene.service_id(key) else { return };
            let instances = scene.fleet.cloud_map.instances(&service).into_iter();
            let mut ours = instances.filter(|(_, it)| oracle::marks(&scene.world, it).is_some());
            if let Some((id, _)) = ours.next() {
                scene.unsettle_name(key.1);
                scene.fleet.cloud_map.withdraw(&service, &id);
            }
        })
    })
}

fn empty_service_is_deleted() -> impl Strategy<Value = Move> {
    key().prop_map(|key| {
        let sentence = format!("another party deletes {} in {} if it is empty", key.1, key.0);
        Move::new(sentence, move |scene| {
            let Some(service) = scene.service_id(key) else { return };
            if scene.fleet.cloud_map.instances(&service).is_empty() {
                scene.fleet.cloud_map.remove_service(&service);
            }
        })
    })
}

/// A service with all that is in it is deleted, and comes back as another party's, with its old id.
fn service_is_made_again() -> impl Strategy<Value = Move> {
    (key(), select(RECORDS)).prop_map(|(key, records)| {
        let sentence = format!("another party deletes {} in {} and makes it again", key.1, key.0);
        Move::new(format!("{sentence}: {records:?}"), move |scene| {
            let Some(service) = scene.service_id(key) else { return };
            let there = scene.world.namespace(key.0).clone();
            scene.unsettle_name(key.1);
            scene.fleet.cloud_map.remove_service(&service);
            let is_dns = there.name.contains('.') && !records.is_empty();
            let kind = if is_dns { ServiceKind::of_records(records) } else { ServiceKind::Http };
            scene.fleet.cloud_map.service(&there.id, key.1, kind);
        })
    })
}

/// Cloud Map has room for 1,000 instances under a name.
fn service_is_filled() -> impl Strategy<Value = Move> {
    (key(), 0..3_usize).prop_map(|(key, room)| {
        let sentence = format!("another party leaves room for {room} under {}", key.1);
        Move::new(format!("{sentence} in {}", key.0), move |scene| {
            let Some(service) = scene.service_id(key) else { return };
            let present = scene.fleet.cloud_map.instances(&service).len();
            for number in present..oracle::MOST - room {
                let address = format!("10.8.{}.{}", number / 250, number % 250);
                let attributes = [("AWS_INSTANCE_IPV4", address.as_str())];
                scene.fleet.cloud_map.instance(&service, &format!("many-{number}"), &attributes);
            }
        })
    })
}

/// Nothing of a namespace that another account shares no more can be seen.
fn share_is_withdrawn() -> impl Strategy<Value = Move> {
    Just(Move::new("another account shares no namespace any more", |scene| {
        for number in 0..scene.world.namespaces.len() {
            let namespace = scene.world.namespaces[number].clone();
            if namespace.is_shared && !namespace.is_withdrawn {
                scene.remove_namespace(&namespace.id);
                scene.world.namespaces[number].is_withdrawn = true;
            }
        }
        for name in NAMES {
            scene.unsettle_name(name);
        }
    }))
}

fn cluster_is_gone() -> impl Strategy<Value = Move> {
    let sentence = format!("{AMBER}, which EKS knows no more, has left an instance under web");
    Just(Move::new(sentence, Scene::leave_of_amber))
}

/// A namespace is deleted with all that is in it, and made again: it has another id.
fn namespace_is_made_again() -> impl Strategy<Value = Move> {
    (0..2_usize).prop_map(|number| {
        let sentence = format!("namespace {number} is deleted with all in it, and made again");
        Move::new(sentence, move |scene| {
            let namespace = scene.world.namespaces[number].clone();
            scene.remove_namespace(&namespace.id);
            let id = scene.fleet.cloud_map.namespace(namespace.name, namespace.kind);
            scene.world.namespaces[number].id = id;
            // Whoever named it by its id follows.
            for place in scene.world.services.keys().copied().collect::<Vec<_>>() {
                scene.project(place);
            }
            for name in NAMES {
                scene.unsettle_name(name);
            }
        })
    })
}

/// Exports and imports make more calls one after the other, which have no time then.
fn calls_are_slow() -> impl Strategy<Value = Move> {
    Just(Move::new("Cloud Map takes 14 s for each call", |scene| {
        if scene.behaviour.latency.is_zero() && !scene.world.clusterset.is_on {
            scene.behave(|it| it.latency = SLOW);
            scene.slowest += SLOW;
        }
    }))
}
