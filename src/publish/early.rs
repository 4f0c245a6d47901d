//! The early additions, which a full run plans on the mirror and makes while it reads Cloud Map. Once Cloud Map is
//! read, no early group begins. The later sync of a group waits only for the early groups of its own Services: one
//! hanging call delays no other Service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::SetOnce;

use super::group::{EarlyWork, Results, Target};
use super::plan::ChangesByService;
use crate::model::{CloudMapService, ServiceKey, ServiceRef};

/// The groups with early additions of one run.
#[derive(Default)]
pub struct Early(Mutex<State>);

#[derive(Default)]
struct State {
    /// Set at the end of the early group of each Service; removed once its results are taken.
    ends: BTreeMap<ServiceRef, Arc<SetOnce<()>>>,
    /// The results of ended groups that were not taken yet.
    results: Results,
    /// The targets that the early group of each Service has tried.
    tried: BTreeMap<ServiceRef, BTreeSet<Target>>,
    /// The Cloud Map services that the groups have created.
    created: BTreeMap<ServiceKey, CloudMapService>,
    /// Whether Cloud Map is read, so that no more groups begin.
    is_closed: bool,
}

impl Early {
    /// Begins a group with these changes. Returns the cell to set at its end, or `None` if Cloud Map is already read.
    pub fn begin(&self, changes: &ChangesByService) -> Option<Arc<SetOnce<()>>> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        let end = Arc::new(SetOnce::new());
        state.ends.extend(changes.keys().map(|service| (service.clone(), end.clone())));
        Some(end)
    }

    /// Records the end of a group with its results.
    pub fn end(&self, end: &SetOnce<()>, results: Results) {
        {
            let mut state = self.state();
            for settled in &results.settled {
                let tried = state.tried.entry(settled.service.clone()).or_default();
                tried.insert(settled.change.target());
                // A service that another writer has created is left out and read again, since it may have instances.
                let key = &settled.change.place().key;
                if settled.is_creation()
                    && let Some(service) = results.created.get(key)
                {
                    state.created.insert(key.clone(), service.clone());
                }
            }
            state.results.extend(results);
        }
        // Each group ends once, so the cell is empty.
        _ = end.set(());
    }

    /// Returns the results of the groups that have ended since the last call. From now on no group begins.
    pub fn take_results(&self) -> Results {
        let mut state = self.state();
        state.is_closed = true;
        state.ends.retain(|_, end| !end.initialized());
        std::mem::take(&mut state.results)
    }

    /// Waits for the early groups of these Services. Returns their work, or `None` if there is no such group whose
    /// results are still to be taken.
    pub async fn wait_for(&self, changes: &ChangesByService) -> Option<EarlyWork> {
        let ends: Vec<_> = {
            let state = self.state();
            changes.keys().filter_map(|service| state.ends.get(service)).cloned().collect()
        };
        for end in &ends {
            end.wait().await;
        }
        if ends.is_empty() {
            return None;
        }
        let state = self.state();
        let mut work = EarlyWork::default();
        for (service, changes) in changes {
            work.tried.extend(state.tried.get(service).into_iter().flatten().cloned());
            for key in changes.iter().map(|change| &change.place().key) {
                let created = state.created.get(key);
                work.created.extend(created.map(|created| (key.clone(), created.clone())));
            }
        }
        Some(work)
    }

    /// Waits for all groups.
    pub async fn wait_for_all(&self) {
        let ends: Vec<_> = self.state().ends.values().cloned().collect();
        for end in ends {
            end.wait().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
