//! One change to Cloud Map: all that its API call needs. `removal` has why an instance goes and what
//! it waits for, `stage` the order of changes, `text` their lines for people.

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

/// One call that changes Cloud Map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Create the HTTP namespace of a Cloud Map service that is to be created.
    CreateNamespace {
        /// The service that needs it.
        place: Place,
        /// The namespace's name.
        name: String,
    },
    /// Create the Cloud Map service.
    CreateService {
        /// Where.
        place: Place,
        /// How.
        service: NewService,
    },
    /// Change the TTL of the records of a Cloud Map service that is tagged ours.
    UpdateService {
        /// Where.
        place: Place,
        /// The new TTL, and all that is said again with it.
        update: ServiceUpdate,
    },
    /// Register an instance under an id that nobody has.
    Register {
        /// Where.
        place: Place,
        /// The id.
        instance: String,
        /// All its attributes.
        attributes: Attributes,
    },
    /// Register an instance of ours again, since its attributes are not what they should be, or since its id
    /// passes to another endpoint.
    Rewrite {
        /// Where.
        place: Place,
        /// The id it has.
        instance: String,
        /// All its attributes, those carried over included.
        attributes: Attributes,
        /// What differs.
        differences: Vec<Difference>,
        /// The instance that the endpoint displaces, if there is no place for both.
        exchange: Option<Exchange>,
    },
    /// Report the health of an instance of ours.
    Health {
        /// Where.
        place: Place,
        /// The id it has.
        instance: String,
        /// What it says of its address, for the reader.
        address: String,
        /// What Cloud Map knows.
        present: Health,
        /// What it is to know.
        wanted: Health,
    },
    /// Register an instance of somebody else again under its own id, with our marks.
    Adopt {
        /// Where.
        place: Place,
        /// The id it has.
        instance: String,
        /// All its attributes as they were read. It is left alone where they are others by now.
        present: Attributes,
        /// All its attributes as they shall be.
        attributes: Attributes,
        /// Whose it was.
        former: Former,
    },
    /// Take an instance of ours out.
    Deregister {
        /// Where.
        place: Place,
        /// The id it has.
        instance: String,
        /// The Service in its marks.
        marked: ServiceRef,
        /// What it says of its address, for the reader.
        address: String,
        /// Why it goes.
        because: DeregisterReason,
        /// What must be seen first.
        waits_for: Option<WaitsFor>,
    },
}

impl Change {
    /// The Cloud Map service it changes.
    pub fn place(&self) -> &Place {
        match self {
            Self::CreateNamespace { place, .. }
            | Self::CreateService { place, .. }
            | Self::UpdateService { place, .. }
            | Self::Register { place, .. }
            | Self::Rewrite { place, .. }
            | Self::Adopt { place, .. }
            | Self::Health { place, .. }
            | Self::Deregister { place, .. } => place,
        }
    }

    /// The instance it changes.
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::CreateNamespace { .. }
            | Self::CreateService { .. }
            | Self::UpdateService { .. } => None,
            Self::Register { instance, .. }
            | Self::Rewrite { instance, .. }
            | Self::Adopt { instance, .. }
            | Self::Health { instance, .. }
            | Self::Deregister { instance, .. } => Some(instance),
        }
    }

    /// The same, with its Cloud Map service.
    pub fn instance_key(&self) -> Option<InstanceKey> {
        Some(InstanceKey::new(&self.place().key, self.instance()?))
    }

    /// Whether it changes this instance.
    pub fn is_about(&self, instance: &InstanceKey) -> bool {
        self.place().key == instance.service && self.instance() == Some(instance.id.as_str())
    }

    /// Whether `RegisterInstance` makes it.
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

    /// How many more instances there are under its name when it is made. A removal that waits for
    /// something under that name does not empty it.
    pub fn difference(&self) -> isize {
        match self {
            Self::Register { .. } => 1,
            Self::Deregister { waits_for: Some(wait), .. } if wait.keeps_the_name() => 0,
            Self::Deregister { .. } => -1,
            _ => 0,
        }
    }

    /// The Service in the marks of an instance that goes. It may not be the one whose turn it is.
    pub fn marked(&self) -> Option<&ServiceRef> {
        match self {
            Self::Deregister { marked, .. } => Some(marked),
            _ => None,
        }
    }

    /// The Service that loses an instance by it.
    pub fn loses(&self) -> Option<&ServiceRef> {
        self.marked().or_else(|| self.exchange().map(|exchange| &exchange.marked))
    }

    /// What must be seen before it is made.
    pub fn waits_for(&self) -> Option<&WaitsFor> {
        match self {
            Self::Deregister { waits_for, .. } => waits_for.as_ref(),
            _ => None,
        }
    }

    /// The instance that it displaces.
    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::Rewrite { exchange, .. } => exchange.as_ref(),
            _ => None,
        }
    }

    /// What it does, for tables and logs.
    pub fn verb(&self) -> Verb {
        match self {
            Self::CreateNamespace { .. } => Verb::CreateNamespace,
            Self::CreateService { .. } => Verb::Create,
            Self::UpdateService { .. } => Verb::Update,
            Self::Register { .. } => Verb::Register,
            Self::Rewrite { .. } => Verb::Rewrite,
            Self::Adopt { .. } => Verb::Adopt,
            Self::Health { .. } => Verb::Health,
            Self::Deregister { .. } => Verb::Deregister,
        }
    }
}
