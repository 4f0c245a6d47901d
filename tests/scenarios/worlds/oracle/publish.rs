//! What Cloud Map may hold at rest for annotated Services: one section for each rule. `start` is the registry as it was
//! when trouble ended, since the rules keep what stands; `rest` is what the full syncs after that led to.

use std::collections::{BTreeMap, BTreeSet};

use super::super::world::{CLUSTERS, Claim, Endpoint, NAMES, Reference, Service, TEAM, World};
use super::{
    Held, Key, MOST, MOST_IN_NAMESPACE, Registry, Seen, endpoints, instance, instances,
    is_of_amber, is_served, marks, opted_in, possible_keys, served,
};
use crate::fleet::Attributes;
use testbed::cloud_map::NamespaceKind;
use testbed::cloud_map::RecordType::{self, A, Aaaa, Srv};

/// An instance as a rule expects it: its addresses, and its port if it is an instance of its own for that.
type Entry = (Option<String>, Option<String>, Option<String>);

/// The whole relation: returns the first rule that is broken.
pub fn at_rest(world: &World, start: &Registry, rest: &Registry) -> Result<(), String> {
    // A namespace that the function does not use stays as it is, whatever was ours in it and whoever claims a name there.
    let [(start, was), (rest, is)] = [start, rest].map(|registry| {
        registry.clone().into_iter().partition::<Registry, _>(|(key, _)| world.is_used(&key.0))
    });
    if was != is {
        return Err(format!("in namespaces that are not used there was {was:?}, now {is:?}"));
    }
    let start = &start;
    let rest = &rest;
    for cluster in 0..CLUSTERS.len() {
        let view = View { world, start, rest, cluster, is_whole: true };
        if is_served(world, cluster) {
            view.names()?;
            view.leftovers()?;
            view.attributes()?;
        } else {
            view.unserved()?;
        }
    }
    created(world, rest)?;
    dead(world, start, rest)?;
    records(world, rest)?;
    ttls(world, start, rest)?;
    deletions(start, rest)
}

/// More instances than another cluster ever leaves under a name.
const MOST_OF_OTHERS: usize = 50;

/// The rules for one cluster, to which other clusters are foreign.
struct View<'a> {
    world: &'a World,
    start: &'a Registry,
    rest: &'a Registry,
    cluster: usize,
    /// Whether full syncs led to `rest`, and not messages.
    is_whole: bool,
}

impl View<'_> {
    /// The name of the Service whose marks an instance of the cluster has.
    fn mark<'a>(&self, attributes: &'a Attributes) -> Option<&'a str> {
        let of_cluster = marks(self.world, attributes).filter(|(of, _)| *of == self.cluster);
        of_cluster.map(|(_, name)| name)
    }
}

// A cluster that the function does not serve keeps its instances as they are: only a purge removes them.
impl View<'_> {
    fn unserved(&self) -> Result<(), String> {
        for (key, _, id, attributes) in instances(self.start) {
            let now = instance(self.rest, key, id);
            if self.mark(attributes).is_some() && now != Some(attributes) {
                return Err(format!("{id} in {key:?} is of a cluster that is not served: {now:?}"));
            }
        }
        Ok(())
    }
}

// Messages: they choose no namespace for a Service without instances, and register each of its endpoints under a name
// that it alone claims, whatever was refused before it changed.
pub fn after_messages(world: &World, start: &Registry, rest: &Registry) -> Result<(), String> {
    for cluster in served(world) {
        let view = View { world, start, rest, cluster, is_whole: false };
        for (number, service) in opted_in(world, cluster) {
            let claim = &service.claim;
            let name = NAMES[number];
            let candidates = world.candidates(claim);
            let stands = |registry: &Registry| {
                let of_claim = |key: &&Key| candidates.iter().any(|it| it.id == key.0);
                let mut keys = registry.keys().filter(of_claim);
                keys.any(|key| view.standing(registry, key).contains_key(name))
            };
            if candidates.len() > 1 && !stands(start) && stands(rest) {
                return Err(format!("a message has chosen a namespace for {name}"));
            }
            let is_owed = claim.is_published && claim.bad.is_none() && claim.maximum.is_none();
            for key in view.keys(number, claim).iter().filter(|_| is_owed) {
                let wanted = view.wanted_or_kept(key, (number, service));
                let now = view.all_standing(rest, key);
                let is_alone = candidates.len() == 1 && view.claimants(key).len() == 1;
                // A message does not come back for the room that another cluster leaves.
                let had_room = view.has_room(key, MOST_OF_OTHERS);
                let may_be_owed = is_alone && had_room && view.is_clear(key);
                if may_be_owed && !wanted.is_subset(&now) {
                    return Err(format!("after a message {name} has {now:?} under {key:?}"));
                }
            }
        }
    }
    Ok(())
}

// Namespaces: of several with one name the Service's instances decide, those under the name before others; then the
// only one that has a service of the name; else nothing is registered. Messages know the Service's instances alone.
impl View<'_> {
    /// The namespace of a name that a Service claims, if the rules have one.
    fn namespace(&self, service: usize, claim: &Claim, name: &str) -> Option<String> {
        let candidates = self.world.candidates(claim);
        if let [only] = candidates[..] {
            return Some(only.id.clone());
        }
        let ids: BTreeSet<&String> = candidates.iter().map(|it| &it.id).collect();
        let holds = |registry: &Registry, name: Option<&str>| {
            let here = instances(registry)
                .filter(|(key, ..)| ids.contains(&key.0) && name.is_none_or(|name| name == key.1));
            let here = here.filter(|(.., it)| self.mark(it) == Some(NAMES[service]));
            here.map(|(key, ..)| key.0.clone()).collect::<BTreeSet<_>>()
        };
        let by_own = |registry| {
            let mut all = [Some(name), None].into_iter().flat_map(|it| holds(registry, it));
            all.next()
        };
        let only = |found: BTreeSet<String>| found.first().filter(|_| found.len() == 1).cloned();
        let named = |registry: &Registry| {
            let named = ids.iter().filter(|id| registry.contains_key(&key(id, name)));
            only(named.map(|it| (*it).clone()).collect())
        };
        // Who reads all of Cloud Map only in several runs chooses by what stands then, and so does one that the records
        // of the first choice do not fit.
        let fits = |key: &Key| {
            let service = self.world.services.get(&(self.cluster, service));
            self.rest.contains_key(key)
                && service.is_some_and(|it| !self.wanted(key, it, false).is_empty())
        };
        let is_left = || named(self.start).is_some_and(|it| !fits(&key(&it, name)));
        let later = || by_own(self.rest).filter(|_| self.world.has_few_reads || is_left());
        let by_own = by_own(self.start).or_else(later);
        if !self.is_whole {
            return by_own;
        }
        // Another claim, by id, may create the first service of the name meanwhile.
        by_own.or_else(|| named(self.start)).or_else(|| named(self.rest))
    }

    /// The keys that a Service claims; none while the namespace of one of its names is ambiguous.
    fn keys(&self, service: usize, claim: &Claim) -> BTreeSet<Key> {
        let mut keys = self.made_out(service, claim).unwrap_or_default();
        keys.retain(|key| self.world.allows(&key.1));
        keys
    }

    fn made_out(&self, service: usize, claim: &Claim) -> Option<BTreeSet<Key>> {
        let of_name = |name: &&str| Some(key(&self.namespace(service, claim, name)?, name));
        claim.names.iter().map(of_name).collect()
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

// Endpoints: a pod is one instance with both addresses in HTTP, SRV and A+AAAA services, else one for the address that
// fits. Of an A+AAAA service only endpoints with both addresses are accepted. SRV records need a port. Nothing is created
// for an endpoint that the new records would not take.
impl View<'_> {
    fn wanted(&self, key: &Key, service: &Service, are_terminating: bool) -> BTreeSet<Entry> {
        let seen = endpoints(self.cluster, service, are_terminating).into_iter();
        let port = service.claim.port.map(|it| number(it).to_owned());
        let records = match self.rest.get(key) {
            Some(held) => held.records.clone(),
            None => self.new_records(key, service),
        };
        match records.as_deref() {
            Some([Srv]) if port.is_none() => BTreeSet::new(),
            None | Some([Srv]) => {
                seen.flat_map(apart).map(|it| (it.v4, it.v6, port.clone())).collect()
            }
            Some([A]) => seen.filter_map(|it| Some((Some(it.v4?), None, None))).collect(),
            Some([Aaaa]) => seen.filter_map(|it| Some((None, Some(it.v6?), None))).collect(),
            Some(_) => {
                let both = seen.flat_map(apart);
                both.filter_map(|it| Some((Some(it.v4?), Some(it.v6?), None))).collect()
            }
        }
    }

    /// The records that a missing service is created with: as its holder asks, or without families of its own as its
    /// endpoints have them.
    fn new_records(&self, key: &Key, service: &Service) -> Option<Vec<RecordType>> {
        if is_http(self.world, key) {
            return None;
        }
        if service.claim.port.is_some() {
            return Some(vec![Srv]);
        }
        Some(families(service)).filter(|families| !families.is_empty())
    }

    /// What stands for this cluster under a key, by the Service in its marks.
    fn standing(&self, registry: &Registry, key: &Key) -> BTreeMap<String, BTreeSet<Entry>> {
        let mut standing: BTreeMap<String, BTreeSet<Entry>> = BTreeMap::new();
        let Some(held) = registry.get(key) else { return standing };
        for attributes in held.instances.values() {
            if let Some(service) = self.mark(attributes) {
                standing.entry(service.to_owned()).or_default().insert(entry(held, attributes));
            }
        }
        standing
    }

    fn all_standing(&self, registry: &Registry, key: &Key) -> BTreeSet<Entry> {
        self.standing(registry, key).into_values().flatten().collect()
    }

    fn ready(&self, service: &Service) -> Vec<Seen> {
        endpoints(self.cluster, service, false)
    }
}

fn is_http(world: &World, key: &Key) -> bool {
    world.namespaces.iter().any(|it| it.id == key.0 && it.kind == NamespaceKind::Http)
}

/// The records that a Service asks for: of its families, or else of those of its endpoints, ready or not.
fn families(service: &Service) -> Vec<RecordType> {
    let endpoints = || service.endpoints.values();
    let is_both = |it: &Endpoint| it.has_v4 && it.has_v6 && it.is_pod;
    let (v4, v6) = match service.has_selector {
        true => (service.families.contains(&"IPv4"), service.families.contains(&"IPv6")),
        false if endpoints().any(is_both) => (true, true),
        false if endpoints().any(|it| it.has_v4) => (true, false),
        false => (false, endpoints().any(|it| it.has_v6)),
    };
    let records = [(v4, A), (v6, Aaaa)];
    records.into_iter().filter(|(is_so, _)| *is_so).map(|(_, it)| it).collect()
}

fn number(port: &str) -> &str {
    match port {
        "http" => "8080",
        "admin" => "9090",
        number => number,
    }
}

/// Only entries of a Pod are one endpoint.
fn apart(seen: Seen) -> Vec<Seen> {
    if seen.is_pod || seen.v4.is_none() || seen.v6.is_none() {
        return vec![seen];
    }
    let v4 = Seen { v6: None, ..seen.clone() };
    let v6 = Seen { v4: None, ..seen };
    vec![v4, v6]
}

fn entry(held: &Held, attributes: &Attributes) -> Entry {
    let value = |key: &str| attributes.get(key).cloned();
    let has_ports = matches!(held.records.as_deref(), None | Some([Srv]));
    let port = value("AWS_INSTANCE_PORT").filter(|_| has_ports);
    (value("AWS_INSTANCE_IPV4"), value("AWS_INSTANCE_IPV6"), port)
}

// Names: the Service that holds a name keeps it while it claims it; a free name goes to the older Service. The holder has
// all of its ready endpoints registered, and nothing else.
impl View<'_> {
    fn claimants(&self, key: &Key) -> Vec<(usize, &Service)> {
        let claim =
            |(name, service): &(usize, &Service)| self.keys(*name, &service.claim).contains(key);
        let mut all: Vec<_> = opted_in(self.world, self.cluster).filter(claim).collect();
        all.sort_by_key(|(_, service)| service.created);
        all
    }

    /// The Service that stood under a key and still claims it; of several the older.
    fn holder(&self, key: &Key) -> Option<(usize, &Service)> {
        let stood = self.standing(self.start, key);
        self.claimants(key).into_iter().find(|(name, _)| stood.contains_key(NAMES[*name]))
    }

    /// The Services that stood under a key and do not claim it any more.
    fn left(&self, key: &Key) -> impl Iterator<Item = (usize, &Service)> {
        let stood = self.standing(self.start, key);
        let claimants = self.claimants(key);
        let is_claimant = move |name| claimants.iter().any(|(it, _)| *it == name);
        let all = opted_in(self.world, self.cluster);
        all.filter(move |(it, _)| stood.contains_key(NAMES[*it]) && !is_claimant(*it))
    }

    /// Whether a key is claimed, and no claim to it has a mistake. Whoever claims what cannot be made out keeps what
    /// it stood under, and the name if no claimant stood there.
    fn is_clear(&self, key: &Key) -> bool {
        let claimants = self.claimants(key);
        let keeps = |(name, it): (usize, &Service)| {
            it.claim.bad.is_some() || self.made_out(name, &it.claim).is_none()
        };
        !claimants.is_empty()
            && claimants.iter().all(|(_, it)| it.claim.bad.is_none())
            && (self.holder(key).is_some() || !self.left(key).any(keeps))
    }

    fn names(&self) -> Result<(), String> {
        for key in self.all_keys() {
            if !self.is_clear(&key) {
                continue;
            }
            let claimants = self.claimants(&key);
            let [stood, now] = [self.start, self.rest].map(|it| self.all_standing(it, &key));
            // One that holds the name with nothing to register leaves no trace: the older one is next.
            let has_any = |it: &Service| it.claim.is_published && !self.ready(it).is_empty();
            let holders = match self.holder(&key).filter(|(_, it)| has_any(it)) {
                Some(only) => vec![only],
                None => claimants.clone(),
            };
            if !holders.iter().any(|holder| self.is_whole(&key, *holder, &now, &stood)) {
                return Err(format!(
                    "{} has {now:?} under {key:?}, and it was {stood:?}; claimed by {claimants:?}",
                    CLUSTERS[self.cluster]
                ));
            }
        }
        Ok(())
    }

    /// Whether what stands under a key is what this holder wants.
    fn is_whole(
        &self,
        key: &Key,
        holder: (usize, &Service),
        now: &BTreeSet<Entry>,
        stood: &BTreeSet<Entry>,
    ) -> bool {
        let (number, service) = holder;
        let is_published = service.claim.is_published;
        let mut wanted = BTreeSet::new();
        let mut may = BTreeSet::new();
        let mut unknown = Vec::new();
        if is_published {
            wanted = self.wanted_or_kept(key, holder);
            if service.claim.serves_on {
                may.extend(self.wanted(key, service, true));
            }
            // What stands at an endpoint for which nothing can be registered, since no port is known for it, stays: at one
            // that terminates, too, if that serves on.
            if self.wanted(key, service, false).is_empty() {
                unknown = endpoints(self.cluster, service, service.claim.serves_on);
            }
        }
        let is_unknown = |entry: &&Entry| {
            unknown.iter().any(|it| {
                it.v4.is_some() && it.v4 == entry.0 || it.v6.is_some() && it.v6 == entry.1
            })
        };
        may.extend(stood.iter().filter(is_unknown).cloned());
        // A service that is made again under its id while registrations are under way gets those, which its new records
        // might not take.
        if is_published {
            let as_they_are = self.ready(service).into_iter().map(|it| (it.v4, it.v6, None));
            may.extend(as_they_are.filter(|it| stood.contains(it)));
        }
        // What a Service left that waits for its other names, and the last set of the holder.
        let is_none_ready = self.ready(service).is_empty();
        let left = self.left(key).filter(|(it, service)| self.waits(*it, service, key));
        let left: Vec<usize> = left.map(|(it, _)| it).collect();
        let keeps = service.claim.keeps_last && is_none_ready;
        let stood_of = self.standing(self.start, key);
        let stay = left.iter().copied().chain(keeps.then_some(number));
        may.extend(stay.filter_map(|it| stood_of.get(NAMES[it])).flatten().cloned());
        let stays = stood.intersection(&may).filter(|it| !wanted.contains(*it)).count();
        // What a Service left behind, or an endpoint that is gone: `upsert-only` keeps the first, `create-only` both.
        if self.world.settings.policy != "sync" {
            may.extend(stood.iter().cloned());
        }
        // What another Service left stays until the holder has something ready, and what stands until one of the ready
        // endpoints is registered.
        if wanted.is_empty() && (!is_none_ready || self.is_handed_on(key)) {
            may.extend(stood.iter().cloned());
        }
        if wanted.is_empty() && service.claim.keeps_last && is_published {
            // The last ready set stays, and no name that had one is empty.
            return now.is_subset(&(stood | &may))
                && (!now.is_empty() || stood.is_empty() || self.is_handed_on(key));
        }
        if !self.has_room(key, 1) {
            // What is new takes the places of what goes, by `create-only` nothing, by `upsert-only` nothing that another
            // Service left, and nothing that stands gives way.
            let own = stood_of.get(NAMES[number]).map_or(0, BTreeSet::len);
            let places = match self.world.settings.policy {
                "create-only" => wanted.intersection(stood).count(),
                "upsert-only" => own.saturating_sub(stays),
                _ => stood.len() - stays,
            };
            return now.intersection(&wanted).count() >= wanted.len().min(places)
                && now.is_subset(&(&(&wanted | &may) | stood));
        }
        if let Some(most) = service.claim.maximum.filter(|_| !wanted.is_empty()) {
            // What another Service left is none of the holder's, though it wants that as well.
            let standing = self.standing(self.rest, key);
            let of_left = left.iter().filter_map(|it| standing.get(NAMES[*it])).flatten();
            let of_left: BTreeSet<Entry> = of_left.cloned().collect();
            // `create-only` takes none of them out.
            let is_kept = self.world.settings.policy == "create-only";
            let most = most.max(if is_kept { stood.intersection(&wanted).count() } else { 0 });
            return now.is_subset(&(&wanted | &may))
                && !now.is_disjoint(&wanted)
                && now.intersection(&wanted).filter(|it| !of_left.contains(*it)).count() <= most;
        }
        wanted.is_subset(now) && now.is_subset(&(&wanted | &may))
    }

    /// Whether Cloud Map takes so many more instances under a key.
    fn has_room(&self, key: &Key, count: usize) -> bool {
        let of_namespace = self.rest.iter().filter(|(it, _)| it.0 == key.0);
        let in_namespace: usize = of_namespace.map(|(_, held)| held.instances.len()).sum();
        let is_free = |held: &Held| held.instances.len() + count <= MOST;
        self.rest.get(key).is_none_or(is_free) && in_namespace + count <= MOST_IN_NAMESPACE
    }

    /// What a Service wants under a key. `create-only` rewrites nothing, and no policy an instance that others have filled with
    /// attributes: what stands for the Service at an address stays as it is, though its endpoint has lost the other one.
    fn wanted_or_kept(&self, key: &Key, (number, service): (usize, &Service)) -> BTreeSet<Entry> {
        let own: BTreeSet<Entry> = if self.world.settings.policy == "create-only" {
            self.standing(self.start, key).remove(NAMES[number]).unwrap_or_default()
        } else {
            let here = self.rest.get(key).into_iter();
            let here = here.flat_map(|held| held.instances.values().map(move |it| (held, it)));
            let full = here.filter(|(_, it)| is_full(it) && self.mark(it) == Some(NAMES[number]));
            full.map(|(held, it)| entry(held, it)).collect()
        };
        let as_it_stands = |it: Entry| {
            let is_same = |old: &&Entry| it.0.is_some() && (&old.0, &old.2) == (&it.0, &it.2);
            let old = own.iter().find(is_same).filter(|_| !own.contains(&it));
            old.cloned().unwrap_or(it)
        };
        self.wanted(key, service, false).into_iter().map(as_it_stands).collect()
    }

    /// Whether a Service that does not hold the key stood under it.
    fn is_handed_on(&self, key: &Key) -> bool {
        let claimants = self.claimants(key);
        let is_first = |name: &String| claimants.first().is_some_and(|(it, _)| NAMES[*it] == name);
        self.standing(self.start, key).keys().any(|name| !is_first(name))
    }

    fn all_keys(&self) -> BTreeSet<Key> {
        let claimed = opted_in(self.world, self.cluster);
        let claimed = claimed.flat_map(|(name, service)| self.keys(name, &service.claim));
        claimed.chain(self.start.keys().cloned()).chain(self.rest.keys().cloned()).collect()
    }
}

/// Whether another account shares a namespace and no valid claim of a cluster can mean it: only a process that saw ours
/// there reads it for this cluster.
pub fn is_of_another_account(world: &World, cluster: usize, namespace: &str) -> bool {
    let is_named = |(_, service): (usize, &Service)| {
        let claim = &service.claim;
        claim.bad.is_none() && world.candidates(claim).iter().any(|it| it.id == namespace)
    };
    world.namespaces.iter().any(|it| it.is_shared && it.id == namespace)
        && !opted_in(world, cluster).any(is_named)
}

// What ended: under a key that no Service of the cluster claims nothing of it stays, but for what waits for another name,
// for a mistake to be mended, or for an endpoint to leave a namespace of the same name; what the policy keeps; and what is
// in a namespace of another account that no claim names (docs/deploying.md).
impl View<'_> {
    fn leftovers(&self) -> Result<(), String> {
        if self.world.settings.policy != "sync" {
            return Ok(());
        }
        for key in self.all_keys() {
            let is_elsewhere = is_of_another_account(self.world, self.cluster, &key.0);
            if !self.claimants(&key).is_empty() || is_elsewhere {
                continue;
            }
            for (name, left) in self.standing(self.rest, &key) {
                let service = opted_in(self.world, self.cluster).find(|(it, _)| NAMES[*it] == name);
                if !service.is_some_and(|(name, service)| self.waits(name, service, &key)) {
                    let cluster = CLUSTERS[self.cluster];
                    return Err(format!("{cluster}/{name} left {left:?} under {key:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether what a Service left under a key that it does not claim waits.
    fn waits(&self, name: usize, service: &Service, key: &Key) -> bool {
        let waits = service.claim.bad.is_some()
            || possible_keys(self.world, &service.claim).contains(key)
            || !self.is_satisfied(name, service);
        waits && self.world.allows(&key.1)
    }

    /// Whether a Service has its names: one that does not, also since a name is denied or does not take a pod that serves
    /// while it ends, or any of those that are not ready, stays under its former ones.
    fn is_satisfied(&self, name: usize, service: &Service) -> bool {
        let keys = self.keys(name, &service.claim);
        let parts = |it: &Service, are_terminating: bool| -> Vec<Seen> {
            endpoints(self.cluster, it, are_terminating).into_iter().flat_map(apart).collect()
        };
        let serves_on = service.claim.serves_on;
        let mut all = service.clone();
        let are_unready = self.ready(service).is_empty();
        if are_unready {
            all.endpoints.values_mut().for_each(|it| it.is_ready = true);
        }
        !keys.is_empty()
            && service.claim.names.iter().all(|it| self.world.allows(it))
            && keys.iter().all(|key| {
                let standing = self.standing(self.rest, key);
                let wanted = self.wanted(key, service, false);
                let is_alone = self.claimants(key).len() == 1 && self.is_clear(key);
                let fits = [false, serves_on]
                    .iter()
                    .all(|it| self.wanted(key, &all, *it).len() >= parts(&all, *it).len());
                if are_unready {
                    return fits && is_alone && !service.claim.keeps_last;
                }
                fits && standing.get(NAMES[name]).is_some_and(|it| wanted.is_subset(it))
            })
    }
}

// Attributes: the marks and the annotated attributes are right on every instance that the rules may rewrite, and what
// others added is still there.
impl View<'_> {
    fn attributes(&self) -> Result<(), String> {
        for (key, held, id, attributes) in instances(self.rest) {
            let Some(name) = self.mark(attributes) else { continue };
            let before = instance(self.start, key, id).into_iter().flatten();
            let mut added = before.filter(|(it, _)| it.starts_with("by-hand"));
            let lost = added.find(|(attribute, value)| attributes.get(*attribute) != Some(*value));
            // One that takes the place of another has nothing of that one.
            if let Some((attribute, _)) = lost.filter(|_| held.instances.len() < MOST) {
                return Err(format!("{id} in {key:?} lost {attribute}: {attributes:?}"));
            }
            let service = opted_in(self.world, self.cluster).find(|(it, _)| NAMES[*it] == name);
            let Some((number, service)) = service else { continue };
            let is_owed = self.world.settings.policy == "sync"
                && service.claim.bad.is_none()
                && self.keys(number, &service.claim).contains(key)
                && self.holder(key).is_none_or(|(it, _)| it == number)
                && self.wanted(key, service, false).contains(&entry(held, attributes));
            let team = attributes.get("team").map(String::as_str);
            let wanted = service.claim.team;
            if is_owed && !is_full(attributes) && wanted.is_some() && team != wanted {
                return Err(format!("{id} in {key:?} has team {team:?}, not {wanted:?}"));
            }
        }
        Ok(())
    }
}

/// Whether other parties may have left no room for what the function adds.
fn is_full(attributes: &Attributes) -> bool {
    attributes.keys().filter(|it| it.starts_with("by-hand")).count() > 15
}

// New namespaces: one that is claimed for a ready endpoint and is not there is created if the setting says so. An older
// claimant without endpoints, or that is not published, or with a port that no endpoint has, holds the name from others.
fn created(world: &World, rest: &Registry) -> Result<(), String> {
    let is_there = world.namespaces.iter().any(|it| it.name == TEAM);
    let is_wanted = served(world).any(|cluster| {
        let is_valid = |(_, service): &(usize, &Service)| {
            let claim = &service.claim;
            claim.namespace == Reference::New && claim.names.iter().all(|it| world.allows(it))
        };
        let claimants: Vec<_> = opted_in(world, cluster).filter(is_valid).collect();
        let registers = |service: &Service| {
            service.claim.is_published
                && service.claim.bad.is_none()
                && !endpoints(cluster, service, false).is_empty()
        };
        claimants.iter().any(|(_, service)| {
            let shares = |other: &Service| {
                other.claim.names.iter().any(|it| service.claim.names.contains(it))
            };
            let mut rivals = claimants.iter().filter(|(_, other)| shares(other));
            registers(service) && rivals.all(|(_, other)| registers(other))
        })
    });
    let is_used = world.settings.namespaces.is_none();
    if is_wanted && is_used && world.creates_namespaces() && !is_there {
        return Err(format!("{TEAM} is not created: {:?}", rest.keys()));
    }
    Ok(())
}

// Clusters that are gone: their instances stay until a person purges them.
fn dead(world: &World, start: &Registry, rest: &Registry) -> Result<(), String> {
    let of_amber = |registry| -> BTreeSet<(Key, String)> {
        let all = instances(registry).filter(|(.., it)| is_of_amber(world, it));
        all.map(|(key, _, id, _)| (key.clone(), id.clone())).collect()
    };
    let was = of_amber(start);
    let is = of_amber(rest);
    if was == is {
        return Ok(());
    }
    Err(format!("{was:?} of a cluster that is gone are {is:?} now"))
}

// Records: a service that the function created has the records that a claim asked for.
fn records(world: &World, rest: &Registry) -> Result<(), String> {
    for (key, held) in rest.iter().filter(|(_, held)| held.is_tagged) {
        let asked = world.asked.get(key).cloned().unwrap_or_default();
        let is_right = match held.records.as_deref() {
            None => is_http(world, key),
            Some([A]) => asked.contains("IPv4"),
            Some([Aaaa]) => asked.contains("IPv6"),
            Some([Srv]) => asked.contains("SRV"),
            Some(_) => asked.contains("both"),
        };
        if !is_right {
            return Err(format!("{key:?} was created with {:?}, asked: {asked:?}", held.records));
        }
    }
    Ok(())
}

// TTL: that of a service which the function created is not raised while instances of several clusters stand there. One that
// goes and comes back under another id may have left a moment in which none of its cluster stood. If one cluster alone
// stands there, also at rest, by the only Service that claims the name, it is as that Service asks.
fn ttls(world: &World, start: &Registry, rest: &Registry) -> Result<(), String> {
    let has_records = |held: &Held| held.is_tagged && !held.ttls.is_empty();
    for (key, held) in rest.iter().filter(|(_, held)| has_records(held)) {
        let before = start.get(key);
        let was = before.and_then(|held| held.ttls.last());
        let mut stayed = held.clone();
        stayed.instances.retain(|id, _| before.is_some_and(|held| held.instances.contains_key(id)));
        let stays_shared = clusters(world, &stayed).len() > 1;
        if stays_shared && was.is_some_and(|was| held.ttls.last() > Some(was)) {
            return Err(format!("{key:?} had a TTL of {was:?}, and now {:?}", held.ttls));
        }
        let mut all = clusters(world, held);
        all.extend(before.into_iter().flat_map(|held| clusters(world, held)));
        let [Some(cluster)] = all.into_iter().collect::<Vec<_>>()[..] else { continue };
        if !is_served(world, cluster) || world.settings.policy != "sync" {
            continue;
        }
        let may_mean = |claim: &Claim| possible_keys(world, claim).contains(key);
        let claimants: Vec<_> =
            opted_in(world, cluster).filter(|(_, it)| may_mean(&it.claim)).collect();
        let [(name, Service { claim, .. })] = claimants[..] else { continue };
        let is_certain = claim.bad.is_none() && world.candidates(claim).len() == 1;
        let mut standing = held.instances.values().filter_map(|it| marks(world, it));
        let stands = clusters(world, held).contains(&Some(cluster));
        let is_owed = is_certain && stands && standing.all(|(_, it)| it == NAMES[name]);
        let asked = claim.ttl.map(i64::from).filter(|_| is_owed);
        if asked.is_some_and(|asked| held.ttls != BTreeSet::from([asked])) {
            return Err(format!("{key:?} has a TTL of {:?}, asked: {asked:?}", held.ttls));
        }
    }
    Ok(())
}

/// The clusters with an instance in a service; `None` is one that is gone.
fn clusters(world: &World, held: &Held) -> BTreeSet<Option<usize>> {
    let mut clusters = BTreeSet::new();
    for attributes in held.instances.values() {
        clusters.extend(marks(world, attributes).map(|(cluster, _)| Some(cluster)));
        clusters.extend(is_of_amber(world, attributes).then_some(None));
    }
    clusters
}

// Cloud Map services are never deleted.
fn deletions(start: &Registry, rest: &Registry) -> Result<(), String> {
    match start.iter().find(|(key, _)| !rest.contains_key(*key)) {
        Some((key, held)) => Err(format!("{key:?} was deleted: {held:?}")),
        None => Ok(()),
    }
}
