//! The situations: a world, a change of it, and the invocation that follows. In most of them a task of ECS and an
//! instance that a person made stand beside ours.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::clusterset::Exporter;
use super::super::play::Scene;
use super::super::world::{Claim, Endpoint, Reference, Service};
use crate::fleet::attributes;
use crate::queue::{batch, message, scope};
use testbed::cloud_map::ServiceKind;
use testbed::kubernetes::{Headless, Pod};

/// A world and what happens in it.
pub struct Situation {
    pub name: &'static str,
    pub settings: &'static [(&'static str, &'static str)],
    pub has_exports: bool,
    /// Puts the world.
    pub before: fn(&mut Scene),
    /// Whether a full sync has followed.
    pub is_converged: bool,
    pub change: fn(&mut Scene),
    /// The time between the change and the run in which a call goes wrong, and before each run after that one.
    pub pauses: [Duration; 2],
    /// The payload of the run in which a call goes wrong.
    pub cause: fn() -> Value,
    /// The payload of the runs after it.
    pub again: fn() -> Value,
}

/// The places of Services: their cluster, and their name among those of the worlds.
pub const API: (usize, usize) = (0, 0);
pub const CART: (usize, usize) = (0, 1);
pub const PAY: (usize, usize) = (0, 2);
pub const WEB: (usize, usize) = (0, 3);
pub const GREEN_WEB: (usize, usize) = (1, 3);
/// Of exported ones.
pub const BOOKS: (usize, usize) = (0, 0);
pub const GREEN_BOOKS: (usize, usize) = (1, 0);
pub const GREEN_MAIL: (usize, usize) = (1, 1);

/// The namespaces of a world.
pub const PROD: Reference = Reference::Name(0);
pub const PROD_LOCAL: Reference = Reference::Name(1);

pub const READER: &str = "arn:aws:iam::111122223333:role/reader";
const WITH_A_ROLE: &[(&str, &str)] = &[(
    "CLUSTERS",
    r#"["blue", {"cluster": "green", "roleArn": "arn:aws:iam::111122223333:role/reader"}]"#,
)];
/// Of a Service of another Kubernetes namespace no name is allowed.
const SHOP_ALONE: &[(&str, &str)] = &[(
    "NAME_POLICY",
    r#"[{"clusters": ["*"], "kubernetesNamespaces": ["shop"], "cloudMapNamespaces": ["*"], "names": ["*"]}]"#,
)];

impl Situation {
    /// A converged world with `web` of two clusters and `cart` of one, which a full sync follows.
    pub fn new(name: &'static str, change: fn(&mut Scene)) -> Self {
        let sync = || json!({ "action": "sync" });
        Self {
            name,
            settings: &[],
            has_exports: false,
            before: shop,
            is_converged: true,
            change,
            pauses: [Duration::ZERO; 2],
            cause: sync,
            again: sync,
        }
    }

    /// The same of a clusterset with `books` of two members and `mail` of one.
    pub fn of_exports(name: &'static str, change: fn(&mut Scene)) -> Self {
        Self { has_exports: true, before: clusterset, ..Self::new(name, change) }
    }

    pub fn first_sync() -> Self {
        Self { is_converged: false, ..Self::new("first sync", |_| {}) }
    }

    pub fn scale() -> Self {
        Self::new("scale", |scene| {
            scene.give(WEB, &[1, 3, 4]);
            scene.give(CART, &[]);
        })
    }

    pub fn rolling_replacement() -> Self {
        Self::new("rolling replacement", |scene| {
            scene.give(WEB, &[3, 4]);
            scene.give(CART, &[7]);
        })
    }

    pub fn rename() -> Self {
        Self::new("rename", |scene| scene.change(CART, |it| it.claim.names = vec!["basket"]))
    }

    pub fn annotation_removed() -> Self {
        Self::new("annotation removed", |scene| scene.change(WEB, |it| it.prefix = "none/"))
    }

    pub fn service_deleted() -> Self {
        Self::new("service deleted", |scene| scene.remove(WEB))
    }

    pub fn ttl() -> Self {
        Self::new("ttl", |scene| scene.change(PAY, |it| it.claim.ttl = Some(15)))
    }

    pub fn shared_name() -> Self {
        Self::new("shared name", |scene| {
            scene.give(GREEN_WEB, &[3]);
            scene.give(WEB, &[1]);
        })
    }

    pub fn new_namespace() -> Self {
        let change = |scene: &mut Scene| {
            scene.claim(API, "team", Reference::New, &[9]);
            scene.claim((1, 0), "team", Reference::New, &[9]);
        };
        let settings = &[("CREATE_NAMESPACES", "true")];
        Self { settings, ..Self::new("new namespace", change) }
    }

    /// Messages about two Services, which the queue delivers again if they are failed back.
    pub fn message() -> Self {
        let cause = || {
            let body = |service| scope("blue", service);
            batch(&[message("of-web", &body("web")), message("of-cart", &body("cart"))])
        };
        Self { cause, name: "message", ..Self::rolling_replacement() }
    }

    /// A Service of a Kubernetes namespace that may claim no name stands beside one that may.
    pub fn name_policy() -> Self {
        let change = |scene: &mut Scene| {
            scene.give(WEB, &[1, 3]);
            let stray = Headless::new("ops", "web").created("2020-01-01T00:00:00Z");
            let cluster = &scene.fleet.cluster;
            cluster.service(stray.claim("stray", "prod.local"));
            cluster.pods("ops", "web", &[Pod::new("web-ops", "10.0.7.1")]);
        };
        Self { settings: SHOP_ALONE, ..Self::new("name policy", change) }
    }

    /// The guard holds the loss back, whatever goes wrong.
    pub fn mass_loss() -> Self {
        let settings = &[("GUARD_MINIMUM", "1"), ("GUARD_SHARE", "10")];
        let change = |scene: &mut Scene| {
            scene.give(CART, &[]);
            scene.give(PAY, &[]);
            scene.give(WEB, &[1]);
        };
        Self { settings, ..Self::new("mass loss", change) }
    }

    pub fn adoption() -> Self {
        let before = |scene: &mut Scene| {
            let service = scene.fleet.ecs_service("web", "10.0.9.1");
            for (id, address) in [("hand-1", "10.0.1.1"), ("hand-2", "10.0.1.2")] {
                let made = [("AWS_INSTANCE_IPV4", address), ("weight", "10")];
                scene.fleet.put(&service, id, &attributes(&made));
            }
            let by_hand = [(service.as_str(), "hand-1"), (service.as_str(), "hand-2")];
            scene.fleet.cloud_map.allow_adoption(&by_hand);
            scene.claim(WEB, "web", PROD_LOCAL, &[1, 2]);
        };
        let adopt = || json!({ "action": "adopt", "confirm": true });
        let new = Self::new("adoption", |_| {});
        Self { before, cause: adopt, again: adopt, is_converged: false, ..new }
    }

    pub fn purge() -> Self {
        let purge = || json!({ "action": "purge", "cluster": "green", "confirm": true });
        let new = Self::new("purge", |scene| scene.remove(GREEN_WEB));
        Self { cause: purge, again: purge, ..new }
    }

    /// A cluster whose role the function assumes.
    pub fn through_a_role() -> Self {
        let new = Self::new("through a role", |scene| scene.give(GREEN_WEB, &[1, 2]));
        Self { settings: WITH_A_ROLE, ..new }
    }

    pub fn first_export() -> Self {
        Self { is_converged: false, ..Self::of_exports("first export", |_| {}) }
    }

    pub fn exported_pods() -> Self {
        Self::of_exports("exported pods", |scene| {
            scene.change_exporter(BOOKS, |it| it.pods = Some([2, 3].into()));
            scene.change_exporter(GREEN_BOOKS, |it| it.pods = Some([2].into()));
        })
    }

    pub fn unexported() -> Self {
        Self::of_exports("unexported", |scene| {
            scene.change_exporter(BOOKS, |it| it.is_exported = false);
            scene.change_exporter(GREEN_MAIL, |it| it.is_exported = false);
        })
    }
}

/// `web` of two clusters beside a task of ECS, `cart` beside an instance by hand, and `pay` with records of its own.
pub fn shop(scene: &mut Scene) {
    let fleet = &scene.fleet;
    fleet.ecs_service("web", "10.0.9.1");
    let cart = fleet.cloud_map.service(&fleet.http, "cart", ServiceKind::Http);
    let by_hand = [("AWS_INSTANCE_IPV4", "10.0.9.2"), ("colour", "red")];
    fleet.put(&cart, "by-hand", &attributes(&by_hand));
    scene.claim(WEB, "web", PROD_LOCAL, &[1, 2]);
    scene.claim(CART, "cart", PROD, &[5]);
    scene.claim(PAY, "pay", PROD_LOCAL, &[6]);
    scene.claim(GREEN_WEB, "web", PROD_LOCAL, &[1]);
}

/// `books` of two members and `mail` of one, beside an endpoint that AWS's controller registered.
fn clusterset(scene: &mut Scene) {
    scene.world.clusterset.set_amber(&scene.fleet, [1].into());
    scene.export(BOOKS, 1, &[1, 2]);
    scene.export(GREEN_BOOKS, 2, &[1]);
    scene.export(GREEN_MAIL, 3, &[5]);
}

fn ready(numbers: &[u8]) -> BTreeMap<u8, Endpoint> {
    numbers.iter().map(|number| (*number, Endpoint::default())).collect()
}

impl Scene {
    /// A Service that claims a name, with these ready endpoints.
    pub fn claim(
        &mut self,
        place: (usize, usize),
        name: &'static str,
        namespace: Reference,
        numbers: &[u8],
    ) {
        let claim = Claim { names: vec![name], namespace, ..Claim::default() };
        self.put(place, Service::plain(claim, self.world.settings.prefix, ready(numbers)));
    }

    /// A Service has these ready endpoints alone.
    pub fn give(&mut self, place: (usize, usize), numbers: &[u8]) {
        self.world.services.get_mut(&place).expect("a Service").endpoints = ready(numbers);
        self.project(place);
    }

    /// A Service is exported, with these pods.
    pub fn export(&mut self, place: (usize, usize), created: u8, pods: &[u8]) {
        let pods = Some(pods.iter().copied().collect());
        let exporter = Exporter { created, pods, ..Exporter::default() };
        self.world.clusterset.exporters.insert(place, exporter);
        self.change_exporter(place, |_| {});
    }
}
