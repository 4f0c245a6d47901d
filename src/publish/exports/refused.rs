//! The reasons why nothing of a member is published: its id, its records, the registry, or another controller.

use super::adopt::Finalized;
use crate::model::clusterset::ClusterId;
use crate::model::{Owner, ServiceRef};

/// The reason why nothing of a member is published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the id {id} belongs to {holder}: purge that cluster first, or give this one another id"
    )]
    ClusterIdTaken { id: String, holder: String },
    /// The `OWNER_ID` of this installation was changed, or another one serves the same cluster.
    #[error(
        "the records of this cluster in {namespace}/{id} are of the OWNER_ID {owner}, and so are its instances and imports: \
         nothing is exported, and nothing leaves, until {{\"action\":\"adopt\",\"owner\":\"{owner}\"}} takes them over, \
         IPs and all, or OWNER_ID is {owner} again"
    )]
    OtherOwner { namespace: String, id: String, owner: String },
    #[error(
        "several Cloud Map namespaces are named {0}, and one has the records of the clusterset"
    )]
    AmbiguousNamespace(String),
    #[error(
        "the cluster has imports, and this Cloud Map has no record of the cluster: it may be of another account or Region"
    )]
    UnfamiliarRegistry,
    #[error(
        "the Cloud Map namespace {namespace} for the records of the clusterset does not exist, and is not created: {why}"
    )]
    NoNamespace { namespace: String, why: &'static str },
    #[error(
        "the AWS Cloud Map MCS Controller runs in this cluster, or did: ServiceExport {0} has its finalizer; \
         nothing is exported or imported here; to move the cluster, see docs/moving-from-other-tools.md"
    )]
    AnotherController(ServiceRef),
    #[error(
        "ServiceExports have the finalizer of AWS's controller: scale it to zero, then run: {}",
        .0.commands().join("; ")
    )]
    NotReleased(Finalized),
    #[error(
        "the record by which the imports of this cluster know their Cloud Map could not be written: {0}; until it is, \
         endpoints come and none leaves"
    )]
    NoRecord(String),
    #[error("the records of the cluster could not be read: {0}")]
    Unreadable(String),
}

impl Refused {
    /// Another cluster holds the id of a member; `None`: its record cannot be read.
    pub fn taken(id: &ClusterId, holder: Option<&Owner>) -> Self {
        let name =
            |owner: &Owner| format!("cluster {} of the installation {}", owner.cluster, owner.id);
        let unknown = || "an owner whose record cannot be read".to_owned();
        Self::ClusterIdTaken { id: id.to_string(), holder: holder.map_or_else(unknown, name) }
    }

    /// Whether nothing is imported into the cluster either: it belongs to AWS's controller, or its id to another cluster.
    pub fn leaves_the_cluster(&self) -> bool {
        matches!(
            self,
            Self::AnotherController(_) | Self::NotReleased(_) | Self::ClusterIdTaken { .. }
        )
    }

    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ClusterIdTaken { .. } | Self::OtherOwner { .. } => "ClusterIdTaken",
            Self::AmbiguousNamespace(_) | Self::NoNamespace { .. } => "Namespace",
            Self::AnotherController(_) | Self::NotReleased(_) => "AnotherController",
            Self::UnfamiliarRegistry => "UnfamiliarRegistry",
            Self::NoRecord(_) => "NoRecord",
            Self::Unreadable(_) => "Unreadable",
        }
    }
}
