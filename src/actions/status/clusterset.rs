//! The members of a clusterset in the status: who runs each, the age of its heartbeat, its exports and ready endpoints.

use serde::{Deserialize, Serialize};

use crate::clusterset::members::{MemberView, clustersets};
use crate::model::{ClusterId, Registry, Timestamp};
use crate::time::age;

/// The most problems that are listed of one member.
const PROBLEMS: usize = 10;

/// One clusterset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClustersetStatus {
    /// Its id.
    pub clusterset: String,
    pub members: Vec<MemberStatus>,
}

/// One member of a clusterset.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberStatus {
    /// Its cluster id.
    pub member: String,
    pub run_by: RunBy,
    /// `OWNER_ID` of the installation that runs it.
    pub owner: Option<String>,
    /// The cluster's ARN.
    pub cluster: Option<String>,
    /// The time of its last full sync, up to some minutes.
    pub heartbeat: Option<String>,
    /// The age of the heartbeat.
    pub age: Option<String>,
    pub exports: usize,
    pub ready_endpoints: usize,
    /// Whether its records were read.
    pub unread: bool,
    /// The records that cannot be used, and errors of the read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The program that registers the exports of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunBy {
    /// This function, or another installation of it.
    Installation,
    /// The AWS Cloud Map MCS Controller.
    McsController,
    /// Nothing of it can be read.
    #[default]
    Unknown,
}

impl ClustersetStatus {
    /// The clustersets of a registry.
    pub fn of(registry: &Registry, now: Timestamp) -> Vec<Self> {
        let all = clustersets(registry).into_iter();
        let all = all.map(|(clusterset, members)| Self {
            clusterset: clusterset.to_string(),
            members: members.iter().map(|(id, view)| MemberStatus::new(id, view, now)).collect(),
        });
        all.collect()
    }
}

impl MemberStatus {
    fn new(id: &ClusterId, view: &MemberView, now: Timestamp) -> Self {
        let owner = view.owner();
        let run_by = match owner {
            Some(_) => RunBy::Installation,
            None if view.of_aws.is_empty() => RunBy::Unknown,
            None => RunBy::McsController,
        };
        Self {
            member: id.to_string(),
            run_by,
            owner: owner.map(|owner| owner.id.clone()),
            cluster: owner.map(|owner| owner.cluster.to_string()),
            heartbeat: view.heartbeat().map(|time| time.to_string()),
            age: view.heartbeat().map(|time| age(time, now)),
            exports: view.exports(),
            ready_endpoints: view.ready_endpoints(),
            unread: view.records.unread.is_some(),
            problems: view.problems().take(PROBLEMS).collect(),
        }
    }

    /// The headings of the rows.
    pub const HEADINGS: [&'static str; 5] =
        ["MEMBER", "RUN BY", "HEARTBEAT", "EXPORTS", "READY ENDPOINTS"];

    /// The row under the headings.
    pub fn row(&self) -> [String; 5] {
        let run_by = match (self.run_by, &self.owner) {
            (RunBy::Installation, Some(owner)) => owner.clone(),
            (RunBy::McsController, _) => "AWS's controller".to_owned(),
            _ => "unknown".to_owned(),
        };
        let age = self.age.as_ref().map_or_else(|| "-".to_owned(), |age| format!("{age} ago"));
        let count = |count: usize| if count == 0 { "-".to_owned() } else { count.to_string() };
        [self.member.clone(), run_by, age, count(self.exports), count(self.ready_endpoints)]
    }
}
