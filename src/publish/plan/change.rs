//! One change to Cloud Map: all data that its API call needs, the stage in which it is made, the policies that allow
//! it, and its text for people. The changes of a Service under one name are sorted by stage: creations, registrations,
//! removals, and last the removals of notes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::adopt::Adopted;
use super::removals::{DeregisterReason, Exchange, WaitsFor};
use crate::clusterset::attributes::is_age_of_export;
use crate::model::attributes::{EXPORT, HEARTBEAT, INITIAL_HEALTH, IPV4, IPV6, POD, PORT, SCHEMA};
use crate::model::{
    Attributes, InstanceKey, NewService, Owner, Place, Policy, RoutingPolicy, ServiceKind,
    ServiceRef, ServiceUpdate, Verb, display, join,
};

/// One call that changes Cloud Map. Fields that few changes have are boxed, since a first sync has tens of thousands of
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Create the HTTP namespace of a Cloud Map service that will be created.
    CreateNamespace {
        /// The service that needs it.
        place: Place,
        name: String,
    },
    CreateService {
        place: Place,
        service: NewService,
    },
    /// Change the TTL of the records of a Cloud Map service that is tagged ours.
    UpdateService {
        place: Place,
        /// The new TTL, and the other settings that the API call must repeat.
        update: ServiceUpdate,
    },
    /// Write the guard's note on an instance of ours, or remove the note. The instance is read just before the call,
    /// and its other attributes are sent unchanged.
    Note {
        place: Place,
        instance: String,
        /// The Service in the marks of the instance.
        service: ServiceRef,
        difference: Difference,
        /// `None` removes the note.
        text: Option<String>,
    },
    /// Register an instance under an unused id.
    Register {
        place: Place,
        instance: String,
        attributes: Attributes,
    },
    /// Register an instance again, since its attributes differ, its id passes to another endpoint, or it becomes ours.
    Rewrite {
        place: Place,
        instance: String,
        /// All its attributes, including those carried over.
        attributes: Attributes,
        differences: Vec<Difference>,
        /// The instance that the endpoint displaces, if there is no capacity for both.
        exchange: Option<Box<Exchange>>,
        /// The former state of the instance, if this change adopts it.
        adopted: Option<Box<Adopted>>,
    },
    /// Deregister an instance of ours.
    Deregister {
        place: Place,
        instance: String,
        /// The Service in its marks.
        marked: ServiceRef,
        /// Its address, port and pod, for the reader.
        address: String,
        because: DeregisterReason,
        /// The condition that Cloud Map must meet first.
        waits_for: Option<Box<WaitsFor>>,
    },
}

/// The changes, by the Service for which they are planned.
pub type ChangesByService = BTreeMap<ServiceRef, Vec<Change>>;

impl Change {
    /// A rewrite that neither adopts an instance nor exchanges it for another one.
    pub fn rewrite(
        place: Place,
        instance: String,
        attributes: Attributes,
        differences: Vec<Difference>,
    ) -> Self {
        let exchange = None;
        let adopted = None;
        Self::Rewrite { place, instance, attributes, differences, exchange, adopted }
    }

    pub fn place(&self) -> &Place {
        match self {
            Self::CreateNamespace { place, .. }
            | Self::CreateService { place, .. }
            | Self::UpdateService { place, .. }
            | Self::Note { place, .. }
            | Self::Register { place, .. }
            | Self::Rewrite { place, .. }
            | Self::Deregister { place, .. } => place,
        }
    }

    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Register { instance, .. }
            | Self::Rewrite { instance, .. }
            | Self::Note { instance, .. }
            | Self::Deregister { instance, .. } => Some(instance),
            _ => None,
        }
    }

    /// The key of the instance that the change is about.
    pub fn instance_key(&self) -> Option<InstanceKey> {
        Some(InstanceKey::new(&self.place().key, self.instance()?))
    }

    pub fn is_about(&self, instance: &InstanceKey) -> bool {
        self.place().key == instance.service && self.instance() == Some(instance.id.as_str())
    }

    /// Whether the change writes or removes the guard's note.
    pub fn is_note(&self) -> bool {
        matches!(self, Self::Note { .. })
    }

    /// Whether the change registers planned attributes. A note is not counted, although its API call is
    /// `RegisterInstance`, too.
    pub fn is_registration(&self) -> bool {
        matches!(self, Self::Register { .. } | Self::Rewrite { .. })
    }

    /// The name of the missing namespace that the change creates or needs.
    pub fn missing_namespace(&self) -> Option<&str> {
        match self {
            Self::CreateNamespace { name, .. } => Some(name),
            Self::CreateService { service, .. } if service.namespace.arn.is_none() => {
                Some(&service.namespace.name)
            }
            _ => None,
        }
    }

    /// The difference that the change makes to the number of instances under its name. A removal that waits for
    /// something under its own name may not happen in this run, so it counts as 0. A removal that waits only for
    /// registrations under another name counts as -1.
    pub fn count_difference(&self) -> isize {
        match self {
            Self::Register { .. } => 1,
            Self::Deregister { waits_for: Some(wait), .. } if wait.keeps_the_name() => 0,
            Self::Deregister { .. } => -1,
            _ => 0,
        }
    }

    /// The Service in the marks of a deregistered instance. The removal may be planned for another Service.
    pub fn deregisters_instance_of(&self) -> Option<&ServiceRef> {
        match self {
            Self::Deregister { marked, .. } => Some(marked),
            _ => None,
        }
    }

    /// The Service that loses an instance by the change.
    pub fn losing_service(&self) -> Option<&ServiceRef> {
        self.deregisters_instance_of().or_else(|| self.exchange().map(|exchange| &exchange.marked))
    }

    /// The reason for which an instance is deregistered.
    pub fn because(&self) -> Option<&DeregisterReason> {
        match self {
            Self::Deregister { because, .. } => Some(because),
            _ => None,
        }
    }

    /// Lets a removal proceed without its wait.
    pub fn clear_wait(&mut self) {
        if let Self::Deregister { waits_for, .. } = self {
            *waits_for = None;
        }
    }

    /// The condition that must be met before the change is made.
    pub fn waits_for(&self) -> Option<&WaitsFor> {
        match self {
            Self::Deregister { waits_for, .. } => waits_for.as_deref(),
            _ => None,
        }
    }

    /// The instance that the change displaces.
    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::Rewrite { exchange, .. } => exchange.as_deref(),
            _ => None,
        }
    }

    fn facts(&self) -> (Verb, Stage) {
        match self {
            Self::CreateNamespace { .. } => (Verb::CreateNamespace, Stage::CreateNamespace),
            Self::CreateService { .. } => (Verb::Create, Stage::Create),
            Self::UpdateService { .. } => (Verb::Update, Stage::Update),
            Self::Note { text: Some(_), .. } => (Verb::Rewrite, Stage::Note),
            Self::Note { text: None, .. } => (Verb::Rewrite, Stage::Forget),
            Self::Register { .. } => (Verb::Register, Stage::Register),
            Self::Rewrite { adopted: Some(_), .. } => (Verb::Adopt, Stage::Adopt),
            Self::Rewrite { .. } => (Verb::Rewrite, Stage::Register),
            Self::Deregister { .. } => (Verb::Deregister, Stage::Deregister),
        }
    }

    /// The kind of change, for tables and logs.
    pub fn verb(&self) -> Verb {
        self.facts().0
    }

    pub fn stage(&self) -> Stage {
        self.facts().1
    }

    /// The sort key of changes: place, then stage, then instance.
    pub fn order(&self) -> impl Ord {
        (self.place(), self.stage(), self.instance())
    }

    /// Details of the change: address and pod, differences, or the reason of a removal.
    pub fn detail(&self) -> String {
        match self {
            Self::CreateNamespace { name, .. } => format!("{name}, an HTTP namespace"),
            Self::CreateService { service, .. } => service.to_string(),
            Self::UpdateService { update, .. } => update.to_string(),
            Self::Note { difference, .. } => difference.to_string(),
            Self::Register { attributes, .. } => attributes.describe(),
            Self::Rewrite { attributes, exchange: Some(exchange), .. } => {
                let Exchange { address, because, .. } = &**exchange;
                format!("{} in place of {address}: {because}", attributes.describe())
            }
            Self::Rewrite { differences, adopted: Some(adopted), .. } => {
                let Adopted { present, former } = &**adopted;
                let changed = if differences.is_empty() { "" } else { "; " };
                format!("{}: {former}{changed}{}", present.describe(), join(differences, ", "))
            }
            Self::Rewrite { differences, .. } => join(differences, ", "),
            Self::Deregister { address, because, waits_for: None, .. } => {
                format!("{address}: {because}")
            }
            Self::Deregister { address, because, waits_for: Some(wait), .. } => {
                format!("{address}: {because}; stays {wait}")
            }
        }
    }
}

impl Policy {
    pub fn allows(self, change: &Change) -> bool {
        match (self, change) {
            (Self::Sync, _) => true,
            (Self::UpsertOnly, Change::Deregister { because, .. }) => because.is_claim_valid(),
            (Self::UpsertOnly, change) => {
                change.exchange().is_none_or(|exchange| exchange.because.is_claim_valid())
            }
            (Self::CreateOnly, change) => matches!(
                change,
                Change::CreateNamespace { .. }
                    | Change::CreateService { .. }
                    | Change::Register { .. }
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Cloud Map namespaces.
    CreateNamespace,
    /// Cloud Map services.
    Create,
    /// Instances of other owners that become ours.
    Adopt,
    /// New and rewritten instances.
    Register,
    /// Settings of Cloud Map services. The registrations come first, since clients need the pods more.
    Update,
    /// The guard's notes, after the additions.
    Note,
    /// Removals of instances.
    Deregister,
    /// Removals of notes, after the removals of instances: if one of those fails, the Service keeps its note.
    Forget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub attribute: String,
    /// The registered value.
    pub present: Option<String>,
    /// The value that it should have.
    pub wanted: Option<String>,
}

impl Difference {
    /// Returns the attributes that differ. The schema version in the marks, the initial health and the age of an export
    /// are not compared.
    pub fn between(present: &Attributes, wanted: &Attributes) -> Vec<Self> {
        let keys: BTreeSet<&str> = present.keys().chain(wanted.keys()).collect();
        let differing = keys.into_iter().filter(|key| *key != SCHEMA && *key != INITIAL_HEALTH);
        differing
            .filter(|key| present.get(key) != wanted.get(key) && !is_age_of_export(key, present))
            .map(|key| Self {
                attribute: key.to_owned(),
                present: present.get(key).map(str::to_owned),
                wanted: wanted.get(key).map(str::to_owned),
            })
            .collect()
    }
}

display!(Difference { attribute, present, wanted } => "{attribute} {} -> {}",
    present.as_deref().unwrap_or("nothing"), wanted.as_deref().unwrap_or("nothing"));

/// The attribute with the first piece of an export's properties. Every export record has it.
const FIRST_PIECE_OF_EXPORT: &str = EXPORT[0];

impl Attributes {
    /// Address, port and pod of an instance, in one phrase.
    pub fn describe(&self) -> String {
        let addresses = [IPV4, IPV6].into_iter().filter_map(|key| self.get(key));
        let addresses: Vec<&str> = addresses.collect();
        if let (true, Some(record)) = (addresses.is_empty(), self.describe_record()) {
            return record;
        }
        let mut text = addresses.join(" and ");
        if let Some(port) = self.get(PORT) {
            text = format!("{text} port {port}");
        }
        match self.get(POD) {
            Some(pod) => format!("{text} (pod {pod})"),
            None => text,
        }
    }

    /// The description of a record, which has no address; `None` for any other instance.
    fn describe_record(&self) -> Option<String> {
        let text = |key| self.get(key).unwrap_or_default();
        if self.contains_key(HEARTBEAT) {
            return Some(format!("the record of the cluster, synced at {}", text(HEARTBEAT)));
        }
        let service = Owner::of(self)?.service_of(self)?;
        self.contains_key(FIRST_PIECE_OF_EXPORT)
            .then(|| format!("the record of the export {service}"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.verb().as_str();
        let place = self.place();
        match self.instance() {
            Some(instance) => write!(f, "{verb} {instance} in {place}"),
            None => write!(f, "{verb} {place}"),
        }
    }
}

impl fmt::Display for NewService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ServiceKind::Http => write!(f, "an HTTP service")?,
            records @ ServiceKind::Dns(_) => {
                write!(f, "a DNS service of {records} records, TTL {} s", self.ttl)?;
                if self.routing_policy == RoutingPolicy::Weighted {
                    f.write_str(", WEIGHTED")?;
                }
            }
        }
        Ok(())
    }
}
