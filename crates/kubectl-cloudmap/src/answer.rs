//! The response of the function to a command: the JSON as received, and its parsed form for tables and Markdown. The
//! exit code is derived from it, as in `terraform plan -detailed-exitcode`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::format;
use super::markdown::Page;
use super::outside::{clean, code_block};
use cloud_map_sync::actions::doctor::Checkup;
use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::model::GuardState;
use cloud_map_sync::report::{Mode, Report};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// There are no changes to make.
    InStep,
    /// The command failed, or its answer is incomplete.
    Error,
    /// There are changes to make.
    Changes,
}

impl Code {
    /// The code of a command without a plan.
    pub fn from_success(success: bool) -> Self {
        if success { Self::InStep } else { Self::Error }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(match code {
            Code::InStep => 0,
            Code::Error => 1,
            Code::Changes => 2,
        })
    }
}

/// The response is not in the format of this release.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the function's response: the function may run another version than this plugin"
)]
pub struct Error(#[source] pub serde_json::Error);

/// A response of the function: the JSON as received, and its parsed form, in which each text is escaped for a terminal.
#[derive(Debug)]
pub struct Answer<T> {
    value: Value,
    pub parsed: T,
}

impl<T: DeserializeOwned> Answer<T> {
    pub fn read(value: Value) -> Result<Self, Error> {
        let parsed = T::deserialize(&clean(&value)).map_err(Error)?;
        Ok(Self { value, parsed })
    }
}

impl Answer<Report> {
    /// Whether the guard holds a loss that a confirmation carries out.
    pub fn is_held(&self) -> bool {
        use GuardState::{Held, HeldByFullSync, HeldUntilRead};
        let mut guards = self.parsed.clusters.iter().filter_map(|cluster| cluster.guard.as_ref());
        guards.any(|guard| matches!(guard.state, Held | HeldByFullSync | HeldUntilRead))
    }

    /// The number of Services, endpoints, exports and imports that are held back.
    pub fn held_back(&self) -> usize {
        let clustersets = self.parsed.clusters.iter().filter_map(|it| it.multi_cluster.as_ref());
        let of_clustersets: usize = clustersets.map(|it| it.held_back.len()).sum();
        self.parsed.counts.held_back + of_clustersets
    }

    /// The exit code: that of a plan shows whether there are changes, that of a sync whether they were made.
    pub fn code(&self) -> Code {
        let Report { mode, ok, counts, .. } = self.parsed;
        let mut clustersets =
            self.parsed.clusters.iter().filter_map(|it| it.multi_cluster.as_ref());
        let changes_imports = clustersets.any(|clusterset| !clusterset.changes.is_empty());
        match mode {
            _ if !ok => Code::Error,
            Mode::Plan | Mode::DryRun if counts.changes() > 0 || changes_imports => Code::Changes,
            Mode::Sync | Mode::Plan | Mode::DryRun => Code::InStep,
        }
    }
}

pub trait Shown {
    /// A table; `wide` has more columns.
    fn table(&self, wide: bool) -> String;
    fn markdown(&self) -> String;
    /// The names in Cloud Map.
    fn names(&self) -> Vec<String>;
}

impl<T: Shown> format::Shown for Answer<T> {
    fn value(&self) -> &Value {
        &self.value
    }

    fn table(&self, wide: bool) -> String {
        self.parsed.table(wide)
    }

    fn markdown(&self) -> String {
        self.parsed.markdown()
    }

    fn names(&self) -> Vec<String> {
        self.parsed.names()
    }
}

impl Shown for Report {
    fn table(&self, wide: bool) -> String {
        if wide { format!("{self:#}") } else { self.to_string() }
    }

    fn markdown(&self) -> String {
        Page(self).to_string()
    }

    /// Those with changes.
    fn names(&self) -> Vec<String> {
        let clusters = self.clusters.iter().chain(self.orphans.iter().map(|it| &it.done));
        let services = clusters.flat_map(|cluster| &cluster.services);
        let changed = services.filter(|service| !service.changes.is_empty());
        let changed = changed.map(|service| format!("{}/{}", service.namespace, service.name));
        let deleted = self.empty_services.deletions.iter();
        let deleted = deleted.map(|it| format!("{}/{}", it.namespace, it.name));
        changed.chain(deleted).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Shown for Explanation {
    fn table(&self, _: bool) -> String {
        self.to_string()
    }

    fn markdown(&self) -> String {
        code_block(&self.to_string())
    }

    fn names(&self) -> Vec<String> {
        self.names.iter().map(|it| format!("{}/{}", it.namespace, it.name)).collect()
    }
}

impl Shown for Checkup {
    fn table(&self, _: bool) -> String {
        self.to_string()
    }

    fn markdown(&self) -> String {
        code_block(&self.to_string())
    }

    /// The clusters: it is about no name.
    fn names(&self) -> Vec<String> {
        self.clusters.iter().map(|cluster| cluster.cluster.clone()).collect()
    }
}
