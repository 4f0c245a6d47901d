//! The cost of a clusterset by formula: calls, requests, instances, least times and money, for members that all export
//! the same Services. Scenarios compare the formulas with small clustersets, and the benchmarks with larger ones.
//! `crates/testbed/tests/readme` writes the values for up to a hundred members into docs/multi-cluster-reference.md.

use std::collections::BTreeMap;

/// Items on a page of a list of Cloud Map.
const PAGE: usize = 100;
/// Objects on a page of a list of Kubernetes.
const OBJECTS: usize = 500;
/// With more Services and namespaces than this, Services are listed.
const READ_SINGLY: usize = 40;
/// Endpoints in one slice.
const SLICE: usize = 100;
/// A process's requests to each member beside those: for annotated Services, and once for the served APIs and fields.
pub const OTHER_REQUESTS: usize = 3;
/// No clusterset is looked at with more members.
const MOST_MEMBERS: usize = 10_000;
/// The instances of a namespace, unless AWS raises the quota, and of a Cloud Map service.
pub const OF_A_NAMESPACE: usize = 2000;
pub const OF_A_SERVICE: usize = 1000;

/// Members that all export the same Services, each of which has one port.
#[derive(Clone, Copy, Debug)]
pub struct Clusterset {
    pub members: usize,
    /// Of each member.
    pub exports: usize,
    /// Of each export in each member.
    pub endpoints: usize,
    /// The namespaces of the exports.
    pub namespaces: usize,
}

/// Calls to Cloud Map by operation.
pub type Calls = BTreeMap<&'static str, usize>;

/// The rate of an account in calls a second, and the burst, of the operations that limit a clusterset.
const RATES: [(&str, f64, f64); 4] = [
    ("ListServices", 2.0, 10.0),
    ("ListInstances", 50.0, 50.0),
    ("GetInstance", 50.0, 50.0),
    ("RegisterInstance", 50.0, 100.0),
];

impl Clusterset {
    /// A full sync of all members by a new process, with nothing to change.
    pub fn in_step(&self) -> Calls {
        // A list of one namespace's services goes through the pages of all.
        let services = (self.exports + self.members).div_ceil(PAGE);
        let records = self.members * (self.exports + 1).div_ceil(PAGE);
        Calls::from([
            ("ListNamespaces", 1),
            ("ListServices", (self.namespaces + 1) * services),
            ("ListInstances", self.exports * self.pages_of_a_name() + records),
        ])
    }

    /// A pod is added in one member: the invocation that registers it and imports it into all members.
    pub fn changed_pod(&self) -> Calls {
        Calls::from([
            ("ListInstances", self.pages_of_a_name()),
            // The source's own record is compared with what it should be. What the others export is read there.
            ("GetInstance", 1),
            ("RegisterInstance", 1),
            ("GetOperation", 1),
        ])
    }

    /// The registrations of a first sync.
    pub fn first_sync(&self) -> Calls {
        Calls::from([("RegisterInstance", self.instances() + self.records())])
    }

    /// The requests to each member in step, beside those for annotated Services.
    pub fn requests(&self) -> usize {
        let [exports, slices] = [self.exports, self.slices()].map(|it| it.div_ceil(OBJECTS));
        let services =
            if self.exports + self.namespaces > READ_SINGLY { exports } else { self.exports };
        // ServiceExports, ServiceImports, derived Services, the exported Services and their slices; then the slices of
        // imports, the namespaces, and two ClusterProperties.
        3 * exports + services + exports + slices + 1 + 2
    }

    /// The slices of imports in each member.
    pub fn slices(&self) -> usize {
        self.exports * self.members * self.endpoints.div_ceil(SLICE)
    }

    /// The endpoints of imports in each member, which are also all registered endpoints.
    pub fn instances(&self) -> usize {
        self.exports * self.members * self.endpoints
    }

    /// The instances under one name.
    pub fn of_a_name(&self) -> usize {
        self.members * self.endpoints
    }

    /// The instances in one namespace of exports, if those are spread evenly.
    pub fn of_a_namespace(&self) -> usize {
        self.exports.div_ceil(self.namespaces) * self.of_a_name()
    }

    /// The records of all members.
    pub fn records(&self) -> usize {
        self.members * (self.exports + 1)
    }

    fn pages_of_a_name(&self) -> usize {
        self.of_a_name().div_ceil(PAGE)
    }

    /// The largest number of members that satisfies a condition, which more members never satisfy again.
    pub fn most_members(self, is_possible: impl Fn(&Self) -> bool) -> usize {
        (1..MOST_MEMBERS)
            .take_while(|members| is_possible(&Self { members: *members, ..self }))
            .count()
    }
}

/// The seconds that the rates of an account force if this share of them is used, and the operation that forces them.
pub fn forced(calls: &Calls, share: f64) -> (f64, &'static str) {
    let forced = RATES.into_iter().filter_map(|(operation, rate, burst)| {
        let calls = calls.get(operation)?;
        let calls = f64::from(u32::try_from(*calls).ok()?);
        Some((((calls - burst * share) / (rate * share)).max(0.0), operation))
    });
    forced.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, ""))
}
