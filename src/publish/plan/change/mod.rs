//! One change to Cloud Map: all data that its API call needs. `removal` has the reason why an instance is deregistered
//! and the condition it waits for, `stage` the order of changes, `text` their lines for people.

mod difference;
mod removal;
mod stage;
mod text;

use super::{Former, NewService, Place, ServiceUpdate};
use crate::model::{Attributes, Health, InstanceKey, ServiceRef, Verb};

pub use difference::Difference;
pub use removal::{DeregisterReason, Exchange, WaitsFor};
pub use stage::Stage;
pub use text::describe;

/// One call that changes Cloud Map. What few changes have is boxed, since a first sync has tens of thousands of them.
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
    /// Write a note into an attribute of a Cloud Map service that is tagged ours, or remove it.
    NoteOnService {
        place: Place,
        difference: Difference,
        /// The note.
        text: Option<String>,
    },
    /// Register an instance under an unused id.
    Register {
        place: Place,
        instance: String,
        attributes: Attributes,
    },
    /// Register an instance of ours again, since its attributes differ or its id passes to another endpoint.
    Rewrite {
        place: Place,
        instance: String,
        /// All its attributes, including those carried over.
        attributes: Attributes,
        differences: Vec<Difference>,
        /// The instance that the endpoint displaces, if there is no capacity for both.
        exchange: Option<Box<Exchange>>,
    },
    /// Report the health of an instance of ours.
    Health {
        place: Place,
        instance: String,
        /// The address in its attributes, for the reader.
        address: String,
        /// The health in Cloud Map.
        present: Health,
        /// The health to report.
        wanted: Health,
    },
    /// Register an instance of another owner again under its own id, with our marks.
    Adopt {
        place: Place,
        instance: String,
        /// All its attributes as they were read. If they have changed since, the instance is left alone.
        present: Attributes,
        /// All its attributes after the adoption.
        attributes: Attributes,
        /// The former owner.
        former: Former,
    },
    /// Deregister an instance of ours.
    Deregister {
        place: Place,
        instance: String,
        /// The Service in its marks.
        marked: ServiceRef,
        /// The address in its attributes, for the reader.
        address: String,
        because: DeregisterReason,
        /// The condition that Cloud Map must meet first.
        waits_for: Option<Box<WaitsFor>>,
    },
}

impl Change {
    pub fn place(&self) -> &Place {
        match self {
            Self::CreateNamespace { place, .. }
            | Self::CreateService { place, .. }
            | Self::UpdateService { place, .. }
            | Self::NoteOnService { place, .. }
            | Self::Register { place, .. }
            | Self::Rewrite { place, .. }
            | Self::Adopt { place, .. }
            | Self::Health { place, .. }
            | Self::Deregister { place, .. } => place,
        }
    }

    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::CreateNamespace { .. }
            | Self::CreateService { .. }
            | Self::UpdateService { .. }
            | Self::NoteOnService { .. } => None,
            Self::Register { instance, .. }
            | Self::Rewrite { instance, .. }
            | Self::Adopt { instance, .. }
            | Self::Health { instance, .. }
            | Self::Deregister { instance, .. } => Some(instance),
        }
    }

    /// The instance it changes, with its Cloud Map service.
    pub fn instance_key(&self) -> Option<InstanceKey> {
        Some(InstanceKey::new(&self.place().key, self.instance()?))
    }

    pub fn is_about(&self, instance: &InstanceKey) -> bool {
        self.place().key == instance.service && self.instance() == Some(instance.id.as_str())
    }

    /// Whether the API call is `RegisterInstance`.
    pub fn is_registration(&self) -> bool {
        matches!(self, Self::Register { .. } | Self::Rewrite { .. } | Self::Adopt { .. })
    }

    /// The name of the namespace that must be created first.
    pub fn missing_namespace(&self) -> Option<&str> {
        match self {
            Self::CreateNamespace { name, .. } => Some(name),
            Self::CreateService { service, .. } if service.namespace.arn.is_none() => {
                Some(&service.namespace.name)
            }
            _ => None,
        }
    }

    /// The change in the number of instances under its name. A removal that waits for a registration under that name
    /// does not empty it.
    pub fn difference(&self) -> isize {
        match self {
            Self::Register { .. } => 1,
            Self::Deregister { waits_for: Some(wait), .. } if wait.keeps_the_name() => 0,
            Self::Deregister { .. } => -1,
            _ => 0,
        }
    }

    /// The Service in the marks of a deregistered instance. It may differ from the Service of this turn.
    pub fn marked(&self) -> Option<&ServiceRef> {
        match self {
            Self::Deregister { marked, .. } => Some(marked),
            _ => None,
        }
    }

    /// The Service that loses an instance by the change.
    pub fn loses(&self) -> Option<&ServiceRef> {
        self.marked().or_else(|| self.exchange().map(|exchange| &exchange.marked))
    }

    /// The condition that must be met before the change is made.
    pub fn waits_for(&self) -> Option<&WaitsFor> {
        match self {
            Self::Deregister { waits_for, .. } => waits_for.as_deref(),
            _ => None,
        }
    }

    /// The instance that it displaces.
    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::Rewrite { exchange, .. } => exchange.as_deref(),
            _ => None,
        }
    }

    /// The kind of change, for tables and logs.
    pub fn verb(&self) -> Verb {
        match self {
            Self::CreateNamespace { .. } => Verb::CreateNamespace,
            Self::CreateService { .. } => Verb::Create,
            Self::UpdateService { .. } | Self::NoteOnService { .. } => Verb::Update,
            Self::Register { .. } => Verb::Register,
            Self::Rewrite { .. } => Verb::Rewrite,
            Self::Adopt { .. } => Verb::Adopt,
            Self::Health { .. } => Verb::Health,
            Self::Deregister { .. } => Verb::Deregister,
        }
    }
}
