//! What holds at every moment: nothing foreign is touched, a registered endpoint stays registered while it is ready and
//! its Service alone claims the name, or held it when an older one began to claim it, and a name that such a Service
//! holds is not empty while any of its endpoints is ready that its records take. An endpoint that was away for a moment
//! is left out until its removal cannot be under way any more (docs/guarantees.md), and what is registered was there a
//! moment ago.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::world::{Claim, NAMES, Service, World, addresses};
use super::{
    Key, Registry, addresses_of, endpoints, is_served, marks, of, opted_in, possible_keys,
};
use testbed::cloud_map::RecordType;

type Name = (usize, Key);
type Names = BTreeMap<Name, BTreeSet<String>>;

/// What was seen so far.
#[derive(Default)]
pub struct Ledger {
    /// Ready endpoints at the last look, of names that one Service claims.
    ready: Names,
    /// Those among them that are registered.
    kept: Names,
    /// Names that hold something of ours and have a ready endpoint.
    served: BTreeSet<Name>,
    /// Endpoints that went since all was quiet, and those that came back.
    gone: BTreeSet<(Name, String)>,
    back: BTreeMap<(Name, String), Instant>,
    /// Names whose claims changed since all was quiet.
    unsettled: BTreeSet<(usize, String)>,
    /// Names that a Service held for certain when an older one began to claim them.
    held: BTreeMap<Name, usize>,
    /// What was registered at the last look, unless all may have changed since.
    registered: Option<Names>,
    /// The addresses of each cluster, and when those went that are gone.
    there: BTreeSet<(usize, String)>,
    went: BTreeMap<(usize, String), Instant>,
}

impl Ledger {
    /// The claims of a name change, or another party changes what is registered under it.
    pub fn unsettle(&mut self, cluster: usize, name: &str) {
        self.unsettled.insert((cluster, name.to_owned()));
        self.held.retain(|(of, key), _| *of != cluster || key.1 != name);
    }

    /// A Service holds a name, and keeps it from others while it claims it and has an endpoint under it.
    pub fn holds(&mut self, name: Name, service: usize) {
        self.held.insert(name, service);
    }

    /// No run is under way, nor any operation.
    pub fn is_quiet(&mut self) {
        self.gone.clear();
        self.back.clear();
        self.unsettled.clear();
    }

    /// Everything may change: what a person asks for, or other settings.
    pub fn forget(&mut self) {
        self.kept.clear();
        self.served.clear();
        self.held.clear();
        self.registered = None;
    }

    /// Compares the registry with what was there at the last look. What is `under_way` rests on a read that is not older.
    pub fn look(
        &mut self,
        world: &World,
        registry: &Registry,
        under_way: Duration,
    ) -> Result<(), String> {
        let ready = self.ready_now(world, registry);
        let there = registered(world, registry, |_, _| true);
        self.look_at_new(world, &there, under_way)?;
        for (name, was) in &self.ready {
            let left = was.difference(of(&ready, name));
            self.gone.extend(left.map(|it| (name.clone(), it.clone())));
        }
        for (name, now) in &ready {
            let was = of(&self.ready, name);
            let came = now.difference(was).map(|it| (name.clone(), it.clone()));
            // Of a name that had none ready the removal of its last one may be under way, too.
            let was_empty = was.is_empty() && self.gone.iter().any(|(of, _)| of == name);
            let back = came.filter(|it| was_empty || self.gone.contains(it));
            self.back.extend(back.map(|it| (it, Instant::now())));
        }
        self.back
            .retain(|it, since| of(&ready, &it.0).contains(&it.1) && since.elapsed() < under_way);
        self.ready = ready;
        for (name, kept) in &self.kept {
            let now = of(&self.ready, name);
            let present = of(&there, name);
            let is_back = |it: &&String| self.back.contains_key(&(name.clone(), (*it).clone()));
            let lost = kept.intersection(now).filter(|it| !is_back(it) && !present.contains(*it));
            let lost: Vec<&String> = lost.collect();
            if !lost.is_empty() {
                return Err(format!("{name:?} lost {lost:?}, which are ready; left: {present:?}"));
            }
        }
        for name in &self.served {
            let ready = of(&self.ready, name);
            let returns = self.back.keys().any(|(it, _)| it == name);
            if !ready.is_empty() && !returns && of(&there, name).is_empty() {
                return Err(format!("{name:?} is empty, and {ready:?} are ready"));
            }
        }
        // What a former claimant left there at the same address goes when that one has its new name.
        let claimed = registered(world, registry, |service, key| {
            possible_keys(world, &service.claim).contains(key)
        });
        let both = self.ready.iter().filter_map(|(name, ready)| {
            let present = claimed.get(name)?;
            Some((name.clone(), ready.intersection(present).cloned().collect()))
        });
        self.kept = both.collect();
        // One whose last endpoint goes leaves no trace, and the next claimant follows.
        let is_lost = |name: &&Name| of(&self.kept, name).is_empty();
        let given_up: Vec<Name> = self.held.keys().filter(is_lost).cloned().collect();
        for (cluster, key) in &given_up {
            self.unsettle(*cluster, &key.1);
        }
        let has_some = |name: &&Name| !of(&there, name).is_empty();
        self.served = self.ready.keys().filter(has_some).cloned().collect();
        Ok(())
    }

    /// No endpoint is registered long after it went.
    fn look_at_new(
        &mut self,
        world: &World,
        registered: &Names,
        under_way: Duration,
    ) -> Result<(), String> {
        let all = world.services.iter().flat_map(|((cluster, _), service)| {
            let all = service.endpoints.keys().map(|it| addresses(*cluster, *it));
            all.flat_map(|(v4, v6)| [(*cluster, v4), (*cluster, v6)])
        });
        let there = all.collect();
        let left = self.there.difference(&there).cloned();
        self.went.extend(left.map(|it| (it, Instant::now())));
        self.there = there;
        let Some(known) = self.registered.replace(registered.clone()) else { return Ok(()) };
        for (name, addresses) in registered {
            for it in addresses.difference(of(&known, name)) {
                let address = (name.0, it.clone());
                let went = self.went.get(&address);
                let is_late = went.is_some_and(|went| went.elapsed() > under_way);
                if !is_late || self.there.contains(&address) {
                    continue;
                }
                return Err(format!("{address:?} is registered as {name:?} long after it went"));
            }
        }
        Ok(())
    }

    /// The ready endpoints under each name that one Service of its cluster claims; in one of several namespaces of one name
    /// only if it stands there.
    fn ready_now(&self, world: &World, registry: &Registry) -> Names {
        let mut ready = Names::new();
        for cluster in (0..2).filter(|it| is_served(world, *it)) {
            let mut claimants: BTreeMap<Key, Vec<_>> = BTreeMap::new();
            for (name, service) in opted_in(world, cluster) {
                for key in possible_keys(world, &service.claim) {
                    claimants.entry(key).or_default().push((name, service));
                }
            }
            let stands = |key: &Key, name: usize| {
                let mut instances =
                    registry.get(key).into_iter().flat_map(|it| it.instances.values());
                instances.any(|it| marks(world, it) == Some((cluster, NAMES[name])))
            };
            for (key, claimants) in claimants {
                let holder = self.held.get(&(cluster, key.clone()));
                let claimants = claimants.into_iter();
                let claimants = claimants.filter(|(name, _)| holder.is_none_or(|it| it == name));
                let claimants: Vec<_> = claimants.collect();
                let [(name, service)] = claimants[..] else { continue };
                let Claim { is_published, maximum, bad, .. } = service.claim;
                let is_owed = is_published
                    && maximum.is_none()
                    && bad.is_none()
                    && (world.candidates(&service.claim).len() == 1 || stands(&key, name));
                let is_unsettled = self.unsettled.contains(&(cluster, key.1.clone()));
                if !is_owed || is_unsettled && holder.is_none() {
                    continue;
                }
                let seen = endpoints(cluster, service, false).into_iter();
                // Records of one family take no address of the other one, and records of both no endpoint of one.
                let records = registry.get(&key).and_then(|it| it.records.as_deref());
                let addresses = seen.flat_map(|it| match records {
                    Some([RecordType::A]) => [it.v4, None],
                    Some([RecordType::Aaaa]) => [None, it.v6],
                    Some([_, _]) if it.v4.is_none() || it.v6.is_none() => [None, None],
                    _ => [it.v4, it.v6],
                });
                let addresses: BTreeSet<String> = addresses.flatten().collect();
                if !addresses.is_empty() {
                    ready.insert((cluster, key), addresses);
                }
            }
        }
        ready
    }
}

/// The addresses that are registered under each name by each cluster, of Services with `counts`; those of none count, too.
fn registered(
    world: &World,
    registry: &Registry,
    counts: impl Fn(&Service, &Key) -> bool,
) -> Names {
    let mut there = Names::new();
    for (key, held) in registry {
        for attributes in held.instances.values() {
            if let Some((cluster, name)) = marks(world, attributes)
                && opted_in(world, cluster)
                    .find(|(it, _)| NAMES[*it] == name)
                    .is_none_or(|(_, service)| counts(service, key))
            {
                let addresses = addresses_of(attributes).cloned();
                there.entry((cluster, key.clone())).or_default().extend(addresses);
            }
        }
    }
    there
}
