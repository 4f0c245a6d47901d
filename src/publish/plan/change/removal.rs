//! The reason why an instance of ours is deregistered, and the condition that Cloud Map must meet first. A removal that
//! waits is reported, and not carried out.

use crate::model::{ServiceRef, Timestamp};
use crate::publish::plan::SetBy;

/// The reason why an instance of ours is deregistered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum DeregisterReason {
    /// The claim is valid, and none of its ready endpoints has this address and port.
    #[error("no ready endpoint has this address and port")]
    NoReadyEndpoint,
    /// Another instance of ours has the same address and port.
    #[error("another instance of ours has the same address and port")]
    Duplicate,
    /// The Service requests fewer instances than it has endpoints, or exceeds its limit.
    #[error("it exceeds {0}")]
    BeyondMaximum(SetBy),
    /// `NAME_POLICY` does not allow its address.
    #[error("NAME_POLICY does not allow the Service this address")]
    AddressNotAllowed,
    /// The Service requests no instances.
    #[error("publish of the Service is false")]
    Withdrawn,
    /// Its Service is deleted, or is not an annotated headless Service any more.
    #[error("Service {0} is gone, or no longer annotated and headless")]
    ServiceGone(ServiceRef),
    /// Its Service is not exported any more.
    #[error("Service {0} is gone, or no longer exported")]
    NotExported(ServiceRef),
    /// `NAME_POLICY` does not allow its Service the name.
    #[error("NAME_POLICY does not allow Service {0} this name")]
    NotAllowed(ServiceRef),
    /// Its Service requests another name now.
    #[error("Service {0} asks for another name now")]
    NameChanged(ServiceRef),
    /// Another Service of the cluster holds the name.
    #[error("Service {0} holds the name now")]
    NameHeldBy(ServiceRef),
    /// The record has another id in its place.
    #[error("its cluster has another id now")]
    ClusterIdChanged,
    /// A person requested it.
    #[error("its cluster is purged")]
    Purged,
    /// Its cluster is deleted, and the waiting time for its instances is over.
    #[error("its cluster is gone, first noticed at {0}")]
    ClusterGone(Timestamp),
}

impl DeregisterReason {
    /// Whether the claim to the name is still valid.
    pub fn leaves_the_claim(&self) -> bool {
        !matches!(
            self,
            Self::ServiceGone(_)
                | Self::NotExported(_)
                | Self::NotAllowed(_)
                | Self::NameChanged(_)
                | Self::NameHeldBy(_)
                | Self::ClusterIdChanged
                | Self::Purged
                | Self::ClusterGone(_)
        )
    }
}

/// An instance of ours that a new endpoint displaces under its id: that needs no further capacity in Cloud Map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The id that the endpoint would have without the exchange.
    pub newcomer: String,
    /// The Service in the marks of the displaced instance.
    pub marked: ServiceRef,
    /// The address of the displaced instance, for the reader.
    pub address: String,
    /// The reason why the displaced instance is removed.
    pub because: DeregisterReason,
}

/// The condition that Cloud Map must meet before an instance is added or removed, so that no name becomes empty. If
/// there are several names, the last one decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum WaitsFor {
    /// One of the holder's present endpoints must be registered.
    #[error("until one of the ready endpoints is registered")]
    FirstRegistration,
    /// The new holder of the name must have an instance.
    #[error("until Service {0} has an instance under this name")]
    Holder(ServiceRef),
    /// All endpoints must be registered under the new name.
    #[error("until every endpoint is registered under the new name of Service {0}")]
    NewName(ServiceRef),
    /// Both conditions, if another Service took over the name that this one left.
    #[error(
        "until Service {holder} has an instance under this name and every endpoint is registered under the new name of Service {renamed}"
    )]
    HolderAndNewName {
        holder: ServiceRef,
        /// The Service that requests another name.
        renamed: ServiceRef,
    },
    /// An endpoint cannot be registered under the new name: the wait lasts until a person solves the problem.
    #[error("until the problem under {name}, the new name of Service {renamed}, is solved")]
    BlockedRename {
        /// The Service that requests another name.
        renamed: ServiceRef,
        /// The name it requests, with its namespace.
        name: String,
    },
    /// Another Service holds the new name: the wait lasts until that ends.
    #[error("until Service {holder} gives up {name}, the new name of Service {renamed}")]
    ContestedName {
        /// The Service that requests another name.
        renamed: ServiceRef,
        /// The name it requests, with its namespace.
        name: String,
        /// The Service that holds that name.
        holder: ServiceRef,
    },
    /// The name is registered in two namespaces that are named alike: the wait lasts until a person chooses one.
    #[error(
        "as long as its endpoint does: two namespaces of one name have instances of Service {0}, so its annotation should name one by id"
    )]
    NamespaceById(ServiceRef),
}

impl WaitsFor {
    /// Whether the instance stays until another one is registered under the same name, or at least until the end of
    /// this run.
    pub fn keeps_the_name(&self) -> bool {
        !matches!(self, Self::NewName(_))
    }

    /// The renamed Service whose endpoints it waits for under the new names, if they may be registered in this run.
    pub fn renamed(&self) -> Option<&ServiceRef> {
        match self {
            Self::NewName(renamed) | Self::HolderAndNewName { renamed, .. } => Some(renamed),
            _ => None,
        }
    }

    /// The Services with registrations that it waits for, if they may be made in this run.
    pub fn services(&self) -> Vec<&ServiceRef> {
        match self {
            Self::Holder(service) | Self::NewName(service) => vec![service],
            Self::HolderAndNewName { holder, renamed } => vec![holder, renamed],
            Self::FirstRegistration
            | Self::ContestedName { .. }
            | Self::BlockedRename { .. }
            | Self::NamespaceById(_) => Vec::new(),
        }
    }
}
