//! The deployments that docs/sizing.md compares, for any number of clusters with 2,000 Services each, and the number of
//! clusters with which each of them ends.

use super::calls::{Fleet, Names};
use super::deployment::{Deployment, SCHEDULES, SHARE, Time};

/// The number of clusters of the tables.
pub const CLUSTERS: usize = 100;
/// No layout is looked at with more clusters.
pub const MOST: usize = 1000;
/// Cloud Map's quota of instances of a service, which AWS does not raise.
const OF_A_SERVICE: usize = 1000;

/// Each cluster by itself.
const CLUSTER: Fleet = Fleet {
    clusters: 1,
    services: 2000,
    endpoints: 5,
    namespaces: 5,
    accounts: 1,
    names: Names::Separate,
};

/// The Cloud Maps of the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One for all, in which each cluster has names of its own.
    One,
    /// One for all, with the same names for all clusters.
    Shared,
    /// One in an account for each cluster.
    Each,
}

/// The largest number of clusters, and what ends it: nothing up to the number that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub clusters: usize,
    pub cause: Option<String>,
}

impl Layout {
    pub const ALL: [Self; 3] = [Self::One, Self::Shared, Self::Each];

    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one account",
            Self::Shared => "shared names",
            Self::Each => "an account each",
        }
    }

    /// It with a number of clusters.
    pub fn with(self, clusters: usize) -> Deployment {
        let names = if self == Self::Shared { Names::Shared } else { Names::Separate };
        let accounts = if self == Self::Each { clusters } else { 1 };
        Deployment { fleet: Fleet { clusters, accounts, names, ..CLUSTER }, share: SHARE }
    }

    /// The most clusters with which every round ends before the next one, with one of these schedules.
    pub fn end(self, schedules: &[usize]) -> End {
        let problem = |clusters| problem(&self.with(clusters), schedules);
        let end = (1..=MOST + 1).find_map(|clusters| Some((clusters - 1, problem(clusters)?)));
        match end {
            Some((clusters, cause)) if clusters <= MOST => End { clusters, cause: Some(cause) },
            _ => End { clusters: MOST, cause: None },
        }
    }
}

/// The reason why a deployment does not keep pace with the longest of these schedules.
fn problem(deployment: &Deployment, schedules: &[usize]) -> Option<String> {
    if deployment.fleet.instances_of_service(0) > OF_A_SERVICE {
        return Some("1,000 instances under one name; **AWS does not raise it**".to_owned());
    }
    if deployment.memory().is_none() {
        return Some("Lambda's memory of 10,240 MB".to_owned());
    }
    let longest = schedules.iter().max().copied().unwrap_or(SCHEDULES[0]);
    if let Err(time) = deployment.keeps_pace(longest) {
        return Some(cause(time, "the schedule"));
    }
    if let Err(time) = deployment.ends_in_time() {
        return Some(cause(time, "15 minutes"));
    }
    let time = deployment.starts_in_time().err()?;
    Some(cause(time, "15 minutes, in a new process"))
}

fn cause(time: Time, within: &str) -> String {
    if time.cause.starts_with("the ") {
        format!("{}, within {within}", time.cause)
    } else {
        format!("`{}`, within {within}", time.cause)
    }
}

/// It with a number of accounts, over which the clusters are spread.
pub fn spread(accounts: usize, share: f64) -> Deployment {
    Deployment { fleet: Fleet { clusters: CLUSTERS, accounts, ..CLUSTER }, share }
}
