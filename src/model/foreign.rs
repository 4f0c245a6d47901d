//! The kinds of owners of instances that are not ours.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The likely owner of a foreign instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// A task of Amazon ECS.
    Ecs,
    /// Another cluster, or another installation, of this function.
    OtherCluster,
    /// This function, or another installation of it, for a `ServiceExport` of any cluster.
    Export,
    /// The AWS MCS controller for Kubernetes.
    McsController,
    /// The App Mesh controller for Kubernetes.
    AppMesh,
    /// Any other owner: a user, Terraform, another controller.
    Unknown,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ecs => "ECS",
            Self::OtherCluster => "of another cluster",
            Self::Export => "of a ServiceExport",
            Self::McsController => "AWS MCS controller",
            Self::AppMesh => "App Mesh controller",
            Self::Unknown => "of no known owner",
        })
    }
}
