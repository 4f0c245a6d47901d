//! Gives out the room in Cloud Map's services and namespaces: first to each Service what it makes itself,
//! so that nobody loses a place to another by exchanging a pod; then what is free, and what others
//! make, to all in order.

use std::collections::BTreeMap;

use super::count::signed;
use super::going::AllGoing;
use super::newcomer::Newcomer;
use crate::model::{ServiceKey, ServiceRef};
use crate::plan::{Change, Observation, Place, Plan};

/// What has no place left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Full {
    /// The Cloud Map service.
    Service,
    /// Its namespace.
    Namespace,
}

/// How many instances must go before a place is free, in the service and in the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub service: usize,
    pub namespace: usize,
}

/// Whose places are given out.
#[derive(Clone, Copy)]
enum Pool {
    /// Those that each Service makes.
    Own,
    /// All others.
    Shared,
}

/// The room that a plan is about.
pub struct Room {
    services: BTreeMap<ServiceKey, Places>,
    namespaces: BTreeMap<String, Places>,
    /// The places that each Service makes in a namespace, and has not given to others.
    own: BTreeMap<(ServiceRef, String), isize>,
    /// What goes under the names that have got no newcomer yet.
    going: AllGoing,
}

/// The places in one service or namespace; negative where there are too many instances.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    /// Those that are asked for.
    asked: isize,
    /// Those that are free now.
    free: isize,
    /// Those that are to be given out.
    left: isize,
}

impl Room {
    /// The room for what a plan registers.
    pub fn of(observation: &Observation, plan: &Plan, going: AllGoing) -> Self {
        let limit = signed(observation.rules.limits.service);
        let (mut services, mut namespaces) = (BTreeMap::new(), BTreeMap::new());
        for (id, free) in observation.room() {
            namespaces.insert(id, Places { asked: 0, free, left: free });
        }
        for change in plan.changes.values().flatten() {
            let Change::Register { place: Place { key, .. }, .. } = change else { continue };
            let service = services.entry(key.clone()).or_insert_with(|| {
                let free = limit - signed(observation.registry.instances(key).count());
                Places { asked: 0, free, left: free }
            });
            service.asked += 1;
            namespaces.entry(key.namespace.clone()).or_default().asked += 1;
        }
        let mut room = Self { services, namespaces, own: BTreeMap::new(), going };
        room.add_what_goes();
        room
    }

    /// Where a namespace holds too many instances, what goes brings it back to its limit first.
    fn add_what_goes(&mut self) {
        for ((turn, key), going) in &self.going {
            if let Some(service) = self.services.get_mut(key) {
                service.left += signed(going.at_once + going.before_first);
            }
            let namespace = self.namespaces.entry(key.namespace.clone()).or_default();
            if namespace.free < 0 {
                namespace.left += signed(going.at_once);
            } else {
                let own = self.own.entry((turn.clone(), key.namespace.clone())).or_default();
                *own += signed(going.at_once);
            }
        }
    }

    /// Whether all that is asked for is free.
    pub fn is_ample(&self) -> bool {
        let mut places = self.services.values().chain(self.namespaces.values());
        places.all(|places| places.asked <= places.free.max(0))
    }

    /// Gives out places in order, and says who got none.
    pub fn give(&mut self, newcomers: &[Newcomer]) -> BTreeMap<Newcomer, Full> {
        let all = newcomers.iter().collect();
        let open = self.give_from(Pool::Own, all).into_iter().map(|(newcomer, _)| newcomer);
        for ((_, namespace), own) in std::mem::take(&mut self.own) {
            self.namespaces.entry(namespace).or_default().left += own;
        }
        let refused = self.give_from(Pool::Shared, open.collect());
        refused.into_iter().map(|(newcomer, full)| (newcomer.clone(), full)).collect()
    }

    /// Where a newcomer brings room for others, those before it are asked again.
    fn give_from<'n>(
        &mut self,
        pool: Pool,
        mut open: Vec<&'n Newcomer>,
    ) -> Vec<(&'n Newcomer, Full)> {
        loop {
            let mut refused = Vec::new();
            let mut next = open.into_iter();
            let grown = next.by_ref().any(|newcomer| match self.take(pool, newcomer) {
                Ok(more) => more && !refused.is_empty(),
                Err(full) => {
                    refused.push((newcomer, full));
                    false
                }
            });
            if !grown {
                return refused;
            }
            open = refused.into_iter().map(|(newcomer, _)| newcomer).chain(next).collect();
        }
    }

    /// Takes a place, and says whether that makes more.
    fn take(&mut self, pool: Pool, newcomer: &Newcomer) -> Result<bool, Full> {
        let Newcomer { service, key, .. } = newcomer;
        let name = (service.clone(), key.clone());
        let going = self.going.get(&name).copied().unwrap_or_default();
        let places = self.services.entry(key.clone()).or_default();
        let namespace = self.namespaces.entry(key.namespace.clone()).or_default();
        if places.left <= 0 {
            return Err(Full::Service);
        }
        let left = match pool {
            Pool::Own if namespace.free < 0 => return Err(Full::Namespace),
            Pool::Own => self.own.entry((service.clone(), key.namespace.clone())).or_default(),
            Pool::Shared => &mut namespace.left,
        };
        if *left + signed(going.before_first) <= 0 {
            return Err(Full::Namespace);
        }
        *left += signed(going.before_first + going.after_first) - 1;
        places.left += signed(going.after_first) - 1;
        self.going.remove(&name);
        Ok(going.before_first + going.after_first > 0)
    }

    /// Takes a free place for one who got one; `None` where there is none yet.
    pub fn enter(&mut self, newcomer: &Newcomer) -> Option<Wait> {
        let service = self.services.entry(newcomer.key.clone()).or_default();
        let namespace = self.namespaces.entry(newcomer.key.namespace.clone()).or_default();
        if service.free > 0 && namespace.free > 0 {
            (service.free, namespace.free) = (service.free - 1, namespace.free - 1);
            return None;
        }
        let in_service = if service.free > 0 { service.enter() } else { service.must_go() };
        Some(Wait { service: in_service, namespace: namespace.must_go() })
    }
}

impl Places {
    fn enter(&mut self) -> usize {
        self.free -= 1;
        0
    }

    /// How many must go for one more; the first pays for what is too many.
    fn must_go(&mut self) -> usize {
        let over = self.free.min(0);
        self.free -= over;
        1 + over.unsigned_abs()
    }
}
