//! One change to Cloud Map: all that its API call needs, and one line that says it to a person.

use std::fmt;

use super::Place;
use super::wanted::NewService;
use crate::model::{Attributes, ServiceRef};

/// One call that changes Cloud Map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Create the Cloud Map service.
    CreateService {
        /// Where.
        place: Place,
        /// How.
        service: NewService,
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
    /// Register an instance of ours again, since its attributes are not what they should be.
    Rewrite {
        /// Where.
        place: Place,
        /// The id it has.
        instance: String,
        /// All its attributes, those carried over included.
        attributes: Attributes,
        /// What differs.
        differences: Vec<Difference>,
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
        because: Because,
        /// What must be seen first.
        waits_for: Option<WaitsFor>,
    },
}

/// One attribute that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The attribute's key.
    pub attribute: String,
    /// What stands there.
    pub present: Option<String>,
    /// What should.
    pub wanted: Option<String>,
}

/// Why an instance of ours goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Because {
    /// The claim stands, and none of its ready endpoints has this address and port.
    #[error("no ready endpoint has this address and port")]
    NoReadyEndpoint,
    /// Another instance of ours says the same.
    #[error("another instance of ours has the same address and port")]
    Duplicate,
    /// The Service asks for fewer instances than it has endpoints.
    #[error("max-instances of the Service leaves it out")]
    BeyondMaximum,
    /// The Service asks for no instances.
    #[error("publish of the Service is false")]
    Withdrawn,
    /// Its Service is deleted, or is no annotated headless Service any more.
    #[error("Service {0} is gone, or no longer annotated and headless")]
    ServiceGone(ServiceRef),
    /// Its Service asks for another name now.
    #[error("Service {0} asks for another name now")]
    NameChanged(ServiceRef),
    /// Another Service of the cluster holds the name.
    #[error("Service {0} holds the name now")]
    NameHeldBy(ServiceRef),
}

impl Because {
    /// Whether the claim to the name still stands.
    pub fn leaves_the_claim(&self) -> bool {
        !matches!(self, Self::ServiceGone(_) | Self::NameChanged(_) | Self::NameHeldBy(_))
    }
}

/// What must be seen in Cloud Map before an instance may go, so that no name goes empty on the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum WaitsFor {
    /// One of the holder's present endpoints must be registered.
    #[error("until one of the ready endpoints is registered")]
    FirstRegistration,
    /// The new holder of the name must have an instance.
    #[error("until Service {0} has an instance under this name")]
    Holder(ServiceRef),
    /// All endpoints must be found under the new name.
    #[error("until every endpoint is registered under the new name of Service {0}")]
    NewName(ServiceRef),
}

/// The order of one Service's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Cloud Map services.
    Create,
    /// New and rewritten instances.
    Register,
    /// Instances that go.
    Deregister,
}

impl Change {
    /// When it is made, among the changes of its Service.
    pub fn stage(&self) -> Stage {
        match self {
            Self::CreateService { .. } => Stage::Create,
            Self::Register { .. } | Self::Rewrite { .. } => Stage::Register,
            Self::Deregister { .. } => Stage::Deregister,
        }
    }

    /// The Cloud Map service it changes.
    pub fn place(&self) -> &Place {
        match self {
            Self::CreateService { place, .. }
            | Self::Register { place, .. }
            | Self::Rewrite { place, .. }
            | Self::Deregister { place, .. } => place,
        }
    }

    /// The instance it changes.
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::CreateService { .. } => None,
            Self::Register { instance, .. }
            | Self::Rewrite { instance, .. }
            | Self::Deregister { instance, .. } => Some(instance),
        }
    }

    /// What changes are sorted by: place, then the order in which they are made, then instance.
    pub fn order(&self) -> impl Ord {
        (self.place(), self.stage(), self.instance())
    }

    /// The Service in the marks of an instance that goes. It may not be the one whose turn it is.
    pub fn marked(&self) -> Option<&ServiceRef> {
        match self {
            Self::Deregister { marked, .. } => Some(marked),
            _ => None,
        }
    }

    /// One word for tables and logs.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateService { .. } => "create",
            Self::Register { .. } => "register",
            Self::Rewrite { .. } => "rewrite",
            Self::Deregister { .. } => "deregister",
        }
    }

    /// What else a person wants to know of it: address and pod, differences, or why it goes.
    pub fn detail(&self) -> String {
        match self {
            Self::CreateService { service, .. } => service.to_string(),
            Self::Register { attributes, .. } => describe(attributes),
            Self::Rewrite { differences, .. } => {
                let texts: Vec<String> = differences.iter().map(Difference::to_string).collect();
                texts.join(", ")
            }
            Self::Deregister { address, because, waits_for: None, .. } => {
                format!("{address}: {because}")
            }
            Self::Deregister { address, because, waits_for: Some(wait), .. } => {
                format!("{address}: {because}; stays {wait}")
            }
        }
    }
}

/// Address, port and pod of an instance, in one phrase.
pub fn describe(attributes: &Attributes) -> String {
    use crate::model::attributes::{IPV4, IPV6, POD, PORT};
    let addresses = [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key));
    let addresses: Vec<&str> = addresses.map(String::as_str).collect();
    let mut text = addresses.join(" and ");
    if let Some(port) = attributes.get(PORT) {
        text = format!("{text} port {port}");
    }
    match attributes.get(POD) {
        Some(pod) => format!("{text} (pod {pod})"),
        None => text,
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, place) = (self.verb(), self.place());
        match self.instance() {
            Some(instance) => write!(f, "{verb} {instance} in {place}"),
            None => write!(f, "{verb} {place}"),
        }
    }
}

impl fmt::Display for NewService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            crate::model::ServiceKind::Http => write!(f, "an HTTP service"),
            records @ crate::model::ServiceKind::Dns(_) => {
                write!(f, "a DNS service of {records} records, TTL {} s", self.ttl)
            }
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{} {} -> {}", self.attribute, text(&self.present), text(&self.wanted))
    }
}
