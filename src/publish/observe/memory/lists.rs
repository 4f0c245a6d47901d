//! The namespaces and the services of the last lists, from which the next list is made with fewer calls: the namespace
//! of a service, which the list of all services lacks and which never changes, and the number of services that a
//! namespace must show at least.

use std::collections::BTreeMap;

use super::MEMBERS_STAND;
use crate::cloud_map::read::ListedNamespace;
use crate::model::{CloudMapService, Namespace, ServiceKey, SignedDuration, Timestamp};

/// Namespaces by id.
pub(in crate::publish::observe) type Namespaces = BTreeMap<String, Namespace>;
/// The entries of the services of one namespace.
pub(in crate::publish::observe) type Services = BTreeMap<ServiceKey, CloudMapService>;

/// Namespaces are not listed again for this time, unless there is a sign that they have changed.
const NAMESPACES_STAND: SignedDuration = SignedDuration::from_mins(5);

/// A denied GetService is not tried again for this time.
const DENIAL_STANDS: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Default)]
pub(in crate::publish::observe) struct Lists {
    namespaces: Option<(Timestamp, Namespaces)>,
    /// All namespaces of the last list by id, with those that are not read.
    counts: BTreeMap<String, Count>,
    /// By namespace id, with the time of the list.
    services: BTreeMap<String, (Timestamp, Services)>,
    /// The namespaces, by id, of the services that are in none of these lists, by ARN.
    elsewhere: BTreeMap<String, String>,
    denied: Option<Timestamp>,
}

/// The services of one namespace.
#[derive(Debug)]
struct Count {
    /// The account of the namespace.
    owner: Option<String>,
    /// Cloud Map's count, or that of the last list of its services; `None` if Cloud Map returned none.
    services: Option<usize>,
}

impl Lists {
    /// The namespaces, if they were listed recently.
    pub fn namespaces(&self, now: Timestamp) -> Option<Namespaces> {
        let (listed, namespaces) = self.namespaces.as_ref()?;
        let stands = now.duration_since(*listed) < NAMESPACES_STAND;
        stands.then(|| namespaces.clone())
    }

    /// Remembers those namespaces of a list that `is_read` accepts, and returns them.
    pub fn keep_namespaces(
        &mut self,
        listed: Vec<ListedNamespace>,
        is_read: impl Fn(&Namespace) -> bool,
        now: Timestamp,
    ) -> Namespaces {
        let count = |ListedNamespace { namespace, services }: &ListedNamespace| {
            (namespace.id.clone(), Count { owner: namespace.owner.clone(), services: *services })
        };
        self.counts = listed.iter().map(count).collect();
        let namespaces = listed.into_iter().map(|it| it.namespace).filter(is_read);
        let namespaces: Namespaces = namespaces.map(|it| (it.id.clone(), it)).collect();
        self.namespaces = Some((now, namespaces.clone()));
        namespaces
    }

    pub fn forget_namespaces(&mut self) {
        self.namespaces = None;
    }

    /// The entry of a service.
    pub fn service(&self, key: &ServiceKey) -> Option<CloudMapService> {
        self.services.get(&key.namespace)?.1.get(key).cloned()
    }

    /// Remembers the services of a namespace. Their number replaces Cloud Map's count, which may be older.
    pub fn keep_services(&mut self, namespace: &str, services: &Services, now: Timestamp) {
        if let Some(count) = self.counts.get_mut(namespace) {
            count.services = Some(services.len());
        }
        self.elsewhere.retain(|_, id| id != namespace);
        self.services.insert(namespace.to_owned(), (now, services.clone()));
    }

    /// Whether the last list of a namespace had no service.
    pub fn is_empty(&self, namespace: &str) -> bool {
        self.services.get(namespace).is_some_and(|(_, services)| services.is_empty())
    }

    /// The services of a namespace, if they were listed recently. In one of records there is one for each member.
    pub fn recent_services(&self, namespace: &str, now: Timestamp) -> Option<Services> {
        let (listed, services) = self.services.get(namespace)?;
        (now.duration_since(*listed) < MEMBERS_STAND).then(|| services.clone())
    }

    /// The namespace, by id, of each service that was ever seen, by ARN.
    pub fn namespaces_of_services(&self) -> BTreeMap<String, String> {
        let listed = self.services.iter().flat_map(|(id, (_, services))| {
            services.values().map(|service| (service.arn.clone(), id.clone()))
        });
        let elsewhere = self.elsewhere.iter().map(|(arn, id)| (arn.clone(), id.clone()));
        elsewhere.chain(listed).collect()
    }

    /// Remembers the namespace of a service that was created.
    pub fn note_service(&mut self, arn: String, namespace: String) {
        self.elsewhere.insert(arn, namespace);
    }

    /// Remembers the namespaces of the services of the list of all services: those that it lacks are gone.
    pub fn keep_elsewhere(&mut self, namespaces_of_services: BTreeMap<String, String>) {
        self.elsewhere = namespaces_of_services;
        self.elsewhere.retain(|_, id| !self.services.contains_key(id));
    }

    /// The number of services that a list of this namespace must show; `None` if it is unknown.
    pub fn expected(&self, namespace: &str) -> Option<usize> {
        self.counts.get(namespace)?.services
    }

    /// The number of the services in all namespaces, and of those in namespaces of `account` that were never seen.
    pub fn all_and_unseen(&self, account: Option<&str>) -> (usize, usize) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        self.elsewhere.values().for_each(|id| *seen.entry(id).or_default() += 1);
        self.services.iter().for_each(|(id, (_, services))| {
            seen.insert(id, services.len());
        });
        let unseen =
            self.counts.iter().filter(|(_, count)| count.is_of(account)).map(|(id, count)| {
                let seen = seen.get(id.as_str()).copied().unwrap_or_default();
                count.services.unwrap_or_default().saturating_sub(seen)
            });
        let all = self.counts.values().filter_map(|count| count.services).sum();
        (all, unseen.sum())
    }

    /// Whether GetService was denied a while ago.
    pub fn is_denied(&self, now: Timestamp) -> bool {
        self.denied.is_some_and(|at| now.duration_since(at) < DENIAL_STANDS)
    }

    pub fn note_denial(&mut self, now: Timestamp) {
        self.denied = Some(now);
    }
}

impl Count {
    /// Whether the namespace may be of an account; `None`: of any.
    fn is_of(&self, account: Option<&str>) -> bool {
        account.is_none() || self.owner.is_none() || account == self.owner.as_deref()
    }
}
