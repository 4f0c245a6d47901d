//! The setting `MULTI_CLUSTER`: whether the exports of a cluster are published, and those of its clusterset imported.

use serde::Deserialize;

use crate::model::SignedDuration;
use crate::model::clusterset::{ClusterId, ClustersetId};

/// `STALE_CLUSTERS_AFTER`, unless it is set.
pub const STALE_CLUSTERS_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// The part that a cluster takes in the Multi-Cluster Services API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MultiCluster {
    #[default]
    Off,
    /// It exports and imports.
    On,
    Export,
    Import,
}

impl MultiCluster {
    pub const ALL: [(Self, &str); 4] =
        [(Self::Off, "off"), (Self::On, "on"), (Self::Export, "export"), (Self::Import, "import")];

    pub fn exports(self) -> bool {
        matches!(self, Self::On | Self::Export)
    }

    pub fn imports(self) -> bool {
        matches!(self, Self::On | Self::Import)
    }
}

/// A cluster's own settings for the Multi-Cluster Services API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// `None`: as `MULTI_CLUSTER`.
    pub multi_cluster: Option<MultiCluster>,
    /// `None`: the `ClusterProperty` of the cluster.
    pub cluster_id: Option<ClusterId>,
    /// `None`: the `ClusterProperty` of the cluster.
    pub clusterset: Option<ClustersetId>,
}

/// Parses the setting.
///
/// # Errors
///
/// Returns the words that it takes if it has another one.
pub fn parse(text: Option<&str>) -> Result<MultiCluster, String> {
    let Some(text) = text else { return Ok(MultiCluster::default()) };
    let found = MultiCluster::ALL.into_iter().find(|(_, word)| *word == text);
    let problem = || format!("{text:?} is not one of off, on, export, import");
    found.map(|(multi_cluster, _)| multi_cluster).ok_or_else(problem)
}

/// Parses the ids of a cluster object.
///
/// # Errors
///
/// Returns the form of an id if one has another.
pub fn membership(
    multi_cluster: Option<MultiCluster>,
    cluster_id: Option<&str>,
    clusterset: Option<&str>,
) -> Result<Membership, String> {
    let cluster_id = cluster_id.map(|text| {
        let form = "one DNS label, or two with a dot, of at most 63 characters";
        ClusterId::parse(text).ok_or_else(|| format!("clusterId {text:?} is not {form}"))
    });
    let clusterset = clusterset.map(|text| {
        let form = "1 to 128 letters, digits, dots, underscores and hyphens";
        ClustersetId::parse(text).ok_or_else(|| format!("clusterset {text:?} is not {form}"))
    });
    let (cluster_id, clusterset) = (cluster_id.transpose()?, clusterset.transpose()?);
    Ok(Membership { multi_cluster, cluster_id, clusterset })
}

/// The warning for a `STALE_CLUSTERS_AFTER` that is too short for the schedule: a heartbeat may be that old although its
/// cluster is synced.
pub fn mismatch(stale_after: SignedDuration, period: SignedDuration) -> Option<String> {
    (stale_after < period * 2).then(|| {
        format!(
            "STALE_CLUSTERS_AFTER ({stale_after:#}) and SCHEDULE_MINUTES ({}) do not go together: clusters are reported as \
             stale between two full syncs; set it to at least twice the longest schedule of the clusterset",
            period.as_mins()
        )
    })
}
