//! The calls of a round by formula: the full sync of every cluster once, with nothing to change, as the rules of `src/`
//! give them (pages, the choice of lists, the memory of a process, one read of a Cloud Map for each invocation).
//! `tests/scenarios/scale` compares the formulas with the calls of the function. `deployment` and `money` build on them.

use std::collections::BTreeMap;

use cloud_map_sync::cloud_map::Call;

/// Items on a page of a list of Cloud Map.
const PAGE: usize = 100;
/// Services, and slices of endpoints, on a page of a list of Kubernetes.
const SERVICES: usize = 500;
const SLICES: usize = 100;
/// Endpoints in one slice.
const SLICE: usize = 100;

/// Calls by operation.
pub type Calls = BTreeMap<&'static str, usize>;

/// Clusters that are alike, and are kept in the Cloud Maps of one or more accounts in one Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    pub clusters: usize,
    /// Of each cluster, all annotated, in one Kubernetes namespace.
    pub services: usize,
    /// Of each Service.
    pub endpoints: usize,
    /// The Cloud Map namespaces of a cluster's names.
    pub namespaces: usize,
    /// With several, each is reached through a role (`registryRoleArn`), and the clusters are spread evenly.
    pub accounts: usize,
    pub names: Names,
}

/// The names of the clusters in one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Each cluster has namespaces of its own.
    Separate,
    /// All clusters register the same names in the same namespaces.
    Shared,
}

/// The knowledge of the process that an invocation runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// It has just started.
    New,
    /// It knows every service, and listed the namespaces five minutes ago or earlier.
    Warm,
    /// It knows every service and namespace.
    Recent,
}

impl Fleet {
    /// All calls of a round, to all accounts.
    pub fn calls(&self, process: Process) -> Calls {
        let is_new = process == Process::New;
        let mut all = Calls::new();
        if is_new {
            all.insert("DescribeCluster", self.clusters);
        }
        if is_new && self.accounts > 1 {
            all.insert("AssumeRole", self.accounts);
        }
        for account in 0..self.accounts {
            for (operation, count) in self.calls_to_account(account, process) {
                *all.entry(operation).or_default() += count;
            }
        }
        all.retain(|_, count| *count > 0);
        all
    }

    /// The calls of a round to the Cloud Map of one account, which one invocation reads for all of its clusters.
    pub fn calls_to_account(&self, account: usize, process: Process) -> Calls {
        let namespaces = self.namespaces_of(account);
        let services = self.services_of(account);
        let unseen = if process == Process::New { services } else { 0 };
        let (lists, looked_up) = lists(namespaces, services, unseen);
        let listed = if process == Process::Recent { 0 } else { namespaces.div_ceil(PAGE) };
        let pages = services * self.instances_of_service(account).div_ceil(PAGE);
        let calls = [
            ("ListNamespaces", listed),
            ("ListServices", lists),
            ("GetService", looked_up),
            ("ListInstances", pages),
        ];
        calls.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// One pod is replaced, and a process that knows its Service has a message about it.
    pub fn changed_pod(&self) -> Calls {
        let pages = self.instances_of_service(0).div_ceil(PAGE);
        Calls::from([
            // Before the registration, and again before the removal.
            ("ListInstances", 2 * pages),
            ("RegisterInstance", 1),
            ("DeregisterInstance", 1),
            ("GetOperation", 2),
        ])
    }

    /// The requests of a full sync to each cluster.
    pub fn requests_to_cluster(&self) -> usize {
        let slices = self.services * self.endpoints.div_ceil(SLICE);
        self.services.div_ceil(SERVICES) + slices.div_ceil(SLICES)
    }

    /// The clusters that are kept in an account.
    pub fn clusters_of(&self, account: usize) -> usize {
        self.clusters / self.accounts + usize::from(account < self.clusters % self.accounts)
    }

    /// The Cloud Map services of an account.
    pub fn services_of(&self, account: usize) -> usize {
        self.services * self.separate(account)
    }

    pub fn namespaces_of(&self, account: usize) -> usize {
        self.namespaces * self.separate(account)
    }

    /// The instances under one name.
    pub fn instances_of_service(&self, account: usize) -> usize {
        match self.names {
            Names::Separate => self.endpoints,
            Names::Shared => self.endpoints * self.clusters_of(account),
        }
    }

    /// The instances of all clusters.
    pub fn instances(&self) -> usize {
        self.clusters * self.services * self.endpoints
    }

    /// How often the names of one cluster are in an account.
    fn separate(&self, account: usize) -> usize {
        match self.names {
            Names::Separate => self.clusters_of(account),
            Names::Shared => self.clusters_of(account).min(1),
        }
    }
}

/// The calls of ListServices, and of GetService for services that the process has not seen: a list of each namespace,
/// which has the pages of all, or one list of all. The one that the account's rates allow in a shorter time, or else
/// with fewer calls.
fn lists(namespaces: usize, services: usize, unseen: usize) -> (usize, usize) {
    let pages = services.div_ceil(PAGE).max(1);
    let cost = |lists: usize, looked_up: usize| {
        let times = [(Call::ListServices, lists), (Call::GetService, looked_up)]
            .map(|(call, count)| call.rate().forced_time(count));
        (times[0].max(times[1]), lists + looked_up)
    };
    let together = (pages, unseen);
    let each = (namespaces * pages, 0);
    if cost(together.0, together.1) < cost(each.0, each.1) { together } else { each }
}
