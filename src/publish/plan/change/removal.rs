//! Why an instance of ours goes, and what must be seen in Cloud Map before it may.

use crate::model::{ServiceRef, Timestamp};
use crate::publish::plan::SetBy;

/// Why an instance of ours goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum DeregisterReason {
    /// The claim stands, and none of its ready endpoints has this address and port.
    #[error("no ready endpoint has this address and port")]
    NoReadyEndpoint,
    /// Another instance of ours says the same.
    #[error("another instance of ours has the same address and port")]
    Duplicate,
    /// The Service asks for fewer instances than it has endpoints, or may have no more.
    #[error("{0} leaves it out")]
    BeyondMaximum(SetBy),
    /// `NAME_POLICY` does not allow its address.
    #[error("NAME_POLICY does not allow the Service this address")]
    AddressNotAllowed,
    /// The Service asks for no instances.
    #[error("publish of the Service is false")]
    Withdrawn,
    /// Its Service is deleted, or is no annotated headless Service any more.
    #[error("Service {0} is gone, or no longer annotated and headless")]
    ServiceGone(ServiceRef),
    /// `NAME_POLICY` does not allow its Service the name.
    #[error("NAME_POLICY does not allow Service {0} this name")]
    NotAllowed(ServiceRef),
    /// Its Service asks for another name now.
    #[error("Service {0} asks for another name now")]
    NameChanged(ServiceRef),
    /// Another Service of the cluster holds the name.
    #[error("Service {0} holds the name now")]
    NameHeldBy(ServiceRef),
    /// A person asks for it.
    #[error("all of its cluster is purged")]
    Purged,
    /// Its cluster is gone, and the time has passed after which such instances go.
    #[error("its cluster is gone, first seen so {0}")]
    ClusterGone(Timestamp),
}

impl DeregisterReason {
    /// Whether the claim to the name still stands.
    pub fn leaves_the_claim(&self) -> bool {
        !matches!(
            self,
            Self::ServiceGone(_)
                | Self::NotAllowed(_)
                | Self::NameChanged(_)
                | Self::NameHeldBy(_)
                | Self::Purged
                | Self::ClusterGone(_)
        )
    }
}

/// An instance of ours that a new endpoint displaces under its id: that takes no place in Cloud Map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The id that the endpoint would have got.
    pub newcomer: String,
    /// The Service in the marks of the displaced instance.
    pub marked: ServiceRef,
    /// The address of the displaced instance, for the reader.
    pub address: String,
    /// Why that instance goes.
    pub because: DeregisterReason,
}

/// What must be seen in Cloud Map before an instance may come or go, so that no name goes empty. If several names are
/// waited for, the last of these decides.
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
    /// Both, where another Service took over the name that this one left.
    #[error(
        "until Service {holder} has an instance under this name and every endpoint is registered under the new name of Service {renamed}"
    )]
    HolderAndNewName {
        /// The new holder of the name.
        holder: ServiceRef,
        /// The Service that asks for another one.
        renamed: ServiceRef,
    },
    /// Not every endpoint can be found under the new name: nothing comes of it until somebody helps.
    #[error("until the problem under {name}, the new name of Service {renamed}, is solved")]
    BlockedRename {
        /// The Service that asks for another name.
        renamed: ServiceRef,
        /// The name it asks for, with its namespace.
        name: String,
    },
    /// The new name is another Service's: nothing comes of it until that ends.
    #[error("until Service {holder} gives up {name}, the new name of Service {renamed}")]
    ContestedName {
        /// The Service that asks for another name.
        renamed: ServiceRef,
        /// The name it asks for, with its namespace.
        name: String,
        /// Who holds that one.
        holder: ServiceRef,
    },
}

impl WaitsFor {
    /// Whether the instance stays until another one stands under the same name, or for good as far as
    /// this run is concerned.
    pub fn keeps_the_name(&self) -> bool {
        !matches!(self, Self::NewName(_))
    }

    /// The Services whose registrations it waits for, where they may come in this run.
    pub fn services(&self) -> Vec<&ServiceRef> {
        match self {
            Self::Holder(service) | Self::NewName(service) => vec![service],
            Self::HolderAndNewName { holder, renamed } => vec![holder, renamed],
            Self::FirstRegistration | Self::ContestedName { .. } | Self::BlockedRename { .. } => {
                Vec::new()
            }
        }
    }
}
