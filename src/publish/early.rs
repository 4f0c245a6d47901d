//! The additions that a full run makes on what the process knows, while it reads Cloud Map. Once that is read, no more of
//! them begin. The sync of a group waits for those of its own Services that are under way, and for no others: one call
//! that hangs delays no other Service.

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
    /// The end of the group of each Service, unless its results were taken.
    ends: BTreeMap<ServiceRef, Arc<SetOnce<()>>>,
    /// The results of those that have ended, unless they were taken.
    results: Results,
    /// The changes that the group of each Service has tried.
    tried: BTreeMap<ServiceRef, BTreeSet<Target>>,
    /// The Cloud Map services that the groups have created.
    created: BTreeMap<ServiceKey, CloudMapService>,
    /// Whether Cloud Map is read.
    is_closed: bool,
}

impl Early {
    /// Lets a group begin that has these changes; `None` if it is too late.
    pub fn begin(&self, changes: &ChangesByService) -> Option<Arc<SetOnce<()>>> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        let end = Arc::new(SetOnce::new());
        state.ends.extend(changes.keys().map(|service| (service.clone(), end.clone())));
        Some(end)
    }

    /// A group has ended.
    pub fn end(&self, end: &SetOnce<()>, results: Results) {
        {
            let mut state = self.state();
            for settled in &results.settled {
                let tried = state.tried.entry(settled.service.clone()).or_default();
                tried.insert(settled.change.target());
                // One that another writer has created is asked for again, for others register there.
                let key = &settled.change.place().key;
                if settled.is_creation()
                    && let Some(service) = results.created.get(key)
                {
                    state.created.insert(key.clone(), service.clone());
                }
            }
            state.results.extend(results);
        }
        // Each group ends once.
        _ = end.set(());
    }

    /// The results of the groups that have ended since the last time. No other begins any more.
    pub fn take_results(&self) -> Results {
        let mut state = self.state();
        state.is_closed = true;
        state.ends.retain(|_, end| !end.initialized());
        std::mem::take(&mut state.results)
    }

    /// Waits for the groups of these Services. Returns what they have done, if results of one were not taken.
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
