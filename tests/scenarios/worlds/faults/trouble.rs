//! The faults that a call can meet: which call of a run, what goes wrong, whether once or from then on, and whether the
//! process ends with it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use testbed::aws_fault::{AwsFault, AwsFaultKind};
use testbed::cloud_map::{Call, Fault, FaultKind};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterKind, RequestLine};

use super::super::play::Scene;
use super::super::world::CLUSTERS;

/// Longer than any run has.
const TOO_LATE: Duration = Duration::from_hours(1);

/// One thing that goes wrong in a run.
#[derive(Clone, Debug)]
pub struct Case {
    pub target: Target,
    /// The number of calls before it that are like it.
    pub after: usize,
    /// How many calls are hit; once or always in the cases of a situation.
    pub times: usize,
    /// Whether the process ends when the fault strikes.
    pub kills: bool,
}

/// The call that is hit, and the fault.
#[derive(Clone, Debug)]
pub enum Target {
    CloudMap {
        operation: String,
        kind: FaultKind,
    },
    Cluster {
        cluster: &'static str,
        method: String,
        path: String,
        kind: ClusterKind,
    },
    /// Of EKS or STS.
    Aws {
        operation: String,
        kind: AwsFaultKind,
    },
}

/// The calls of an undisturbed run.
pub struct Calls {
    pub cloud_map: Vec<Call>,
    pub clusters: Vec<(&'static str, Vec<RequestLine>)>,
    /// Those to EKS and STS.
    pub aws: BTreeMap<String, usize>,
}

impl Calls {
    /// Every case; a process may also end before or after a write.
    pub fn cases(&self) -> Vec<Case> {
        let mut all = Vec::new();
        for ((operation, is_write), count) in self.of_cloud_map() {
            let ends = [FaultKind::Silence(TOO_LATE), FaultKind::Late(TOO_LATE)];
            let ends = if is_write { &ends[..] } else { &[] };
            all.extend(each(count, &kinds_of_call(&operation, TOO_LATE), ends, |kind| {
                Target::CloudMap { operation: operation.clone(), kind }
            }));
        }
        for ((cluster, method, path), count) in self.of_clusters() {
            let ends = [ClusterKind::Slow(TOO_LATE), ClusterKind::Late(TOO_LATE)];
            let ends = if method == "GET" { &[] } else { &ends[..] };
            all.extend(each(count, &kinds_of_request(&method, TOO_LATE), ends, |kind| {
                Target::Cluster { cluster, method: method.clone(), path: path.clone(), kind }
            }));
        }
        for (operation, count) in &self.aws {
            all.extend(each(*count, &kinds_of_other(operation, TOO_LATE), &[], |kind| {
                Target::Aws { operation: operation.clone(), kind }
            }));
        }
        all
    }

    fn of_cloud_map(&self) -> BTreeMap<(String, bool), usize> {
        let mut counts = BTreeMap::new();
        for call in &self.cloud_map {
            *counts.entry((call.operation.clone(), call.is_write())).or_default() += 1;
        }
        counts
    }

    fn of_clusters(&self) -> BTreeMap<(&'static str, String, String), usize> {
        let mut counts = BTreeMap::new();
        for (cluster, requests) in &self.clusters {
            for request in requests {
                // An Event's name is another one each time.
                let path = match request.path.split_once("/events/") {
                    Some((path, _)) => format!("{path}/events"),
                    None => request.path.clone(),
                };
                *counts.entry((*cluster, request.method.clone(), path)).or_default() += 1;
            }
        }
        counts
    }
}

/// The faults of a call to Cloud Map. Answers and requests are late by so much.
pub fn kinds_of_call(operation: &str, late: Duration) -> Vec<FaultKind> {
    let mut kinds = vec![
        FaultKind::Reset,
        FaultKind::DropAfterEffect,
        FaultKind::FailAfterEffect,
        FaultKind::Cut,
        FaultKind::Throttling,
        FaultKind::RequestLimitExceeded,
        FaultKind::ServerError,
        FaultKind::Unavailable,
        FaultKind::AccessDenied,
        FaultKind::ExpiredToken,
        FaultKind::TruncatedJson,
        FaultKind::WrongType,
        FaultKind::Empty,
        FaultKind::Late(late),
        FaultKind::Silence(late),
    ];
    kinds.extend(legal(operation));
    kinds
}

/// The errors that an operation may have for good reason, and the ends of its operation.
fn legal(operation: &str) -> Vec<FaultKind> {
    const FAILS: &[&str] = &["INTERNAL_FAILURE"];
    let (errors, ends): (&[&'static str], &[&'static str]) = match operation {
        "RegisterInstance" => (
            &["DuplicateRequest", "ResourceInUse", "ResourceLimitExceeded", "ServiceNotFound"],
            &["INTERNAL_FAILURE", "INVALID_CHANGE_BATCH"],
        ),
        "DeregisterInstance" => {
            (&["DuplicateRequest", "ResourceInUse", "InstanceNotFound", "ServiceNotFound"], FAILS)
        }
        "CreateHttpNamespace" => {
            (&["DuplicateRequest", "ResourceLimitExceeded", "NamespaceAlreadyExists"], FAILS)
        }
        "CreateService" => (
            &[
                "ResourceLimitExceeded",
                "NamespaceNotFound",
                "ServiceAlreadyExists",
                "TooManyTagsException",
            ],
            &[],
        ),
        "UpdateService" => (&["DuplicateRequest", "ServiceNotFound"], FAILS),
        "GetInstance" => (&["InstanceNotFound", "ServiceNotFound"], &[]),
        "GetService" | "ListInstances" => (&["ServiceNotFound"], &[]),
        "GetOperation" => (&["OperationNotFound"], &[]),
        "ListTagsForResource" => (&["ResourceNotFoundException"], &[]),
        _ => (&[], &[]),
    };
    let errors = ["InvalidInput"].iter().chain(errors);
    let errors = errors.map(|name| FaultKind::Error(400, name, "said by a test"));
    let hangs = (!ends.is_empty()).then_some(FaultKind::OperationHangs);
    errors.chain(ends.iter().map(|it| FaultKind::OperationFails(it))).chain(hangs).collect()
}

/// For each of so many calls each kind once and from then on, and the kinds with which the process ends.
fn each<K: Clone>(
    count: usize,
    kinds: &[K],
    ends: &[K],
    target: impl Fn(K) -> Target,
) -> Vec<Case> {
    let mut all = Vec::new();
    for after in 0..count {
        let case =
            |kind: &K, times, kills| Case { target: target(kind.clone()), after, times, kills };
        all.extend(kinds.iter().flat_map(|kind| [1, usize::MAX].map(|it| case(kind, it, false))));
        all.extend(ends.iter().map(|kind| case(kind, 1, true)));
    }
    all
}

/// The faults of a request to an API server.
pub fn kinds_of_request(method: &str, late: Duration) -> Vec<ClusterKind> {
    let mut kinds: Vec<ClusterKind> =
        [401, 403, 404, 429, 500, 503, 504].map(ClusterKind::Status).into();
    kinds.extend([
        ClusterKind::TruncatedBody,
        ClusterKind::NotJson,
        ClusterKind::Json("{}"),
        ClusterKind::Json("{\"items\": 7, \"metadata\": []}"),
        ClusterKind::Slow(late),
        ClusterKind::Late(late),
    ]);
    if method != "GET" {
        kinds.extend([
            ClusterKind::Status(409),
            ClusterKind::Status(422),
            ClusterKind::FailAfterEffect,
        ]);
    }
    kinds
}

/// The faults of a call to EKS or STS.
pub fn kinds_of_other(operation: &str, late: Duration) -> Vec<AwsFaultKind> {
    let refused = AwsFaultKind::Refused;
    let mut kinds = vec![
        AwsFaultKind::Reset,
        AwsFaultKind::Cut,
        AwsFaultKind::Half,
        AwsFaultKind::Body(""),
        AwsFaultKind::Body("{}"),
        AwsFaultKind::Late(late),
    ];
    kinds.extend(match operation {
        "DescribeCluster" => vec![
            AwsFaultKind::Body("{\"cluster\": {}}"),
            AwsFaultKind::Body("{\"cluster\": 7}"),
            refused(400, "InvalidParameterException"),
            refused(403, "AccessDeniedException"),
            refused(403, "ExpiredTokenException"),
            refused(404, "ResourceNotFoundException"),
            refused(429, "ThrottlingException"),
            refused(500, "ServerException"),
            refused(503, "ServiceUnavailableException"),
        ],
        _ => vec![
            AwsFaultKind::Body("<AssumeRoleResponse></AssumeRoleResponse>"),
            refused(400, "Throttling"),
            refused(400, "ExpiredToken"),
            refused(403, "AccessDenied"),
            refused(403, "RegionDisabledException"),
            refused(500, "InternalFailure"),
            refused(503, "ServiceUnavailable"),
        ],
    });
    kinds
}

impl Case {
    /// Brings the fault about.
    pub fn strike(&self, scene: &Scene) {
        let after = self.after;
        let times = self.times;
        match self.target.clone() {
            Target::CloudMap { operation, kind } => {
                let fault = Fault::on(&operation, kind).after(after).times(times);
                scene.fleet.cloud_map.inject(fault);
            }
            Target::Cluster { cluster, method, path, kind } => {
                let number = CLUSTERS.iter().position(|it| *it == cluster).expect("a cluster");
                let fault = ClusterFault::once(&path, kind).of_method(&method).after(after);
                scene.cluster(number).fail(ClusterFault { times, ..fault });
            }
            Target::Aws { operation, kind } => {
                scene.fleet.sandbox.aws().faults.inject(AwsFault { operation, kind, after, times });
            }
        }
    }

    /// Whether the answer is a lie about the world, which a run may believe, so that it reports no problem.
    pub fn deceives(&self) -> bool {
        match &self.target {
            Target::CloudMap { kind: FaultKind::Error(_, name, _), .. } => {
                name.ends_with("NotFound") || name.ends_with("NotFoundException")
            }
            // Without its definition the API serves no fields that came later.
            Target::Cluster { kind: ClusterKind::NotJson, path, .. } => {
                path.starts_with("/openapi")
            }
            Target::Cluster { kind, .. } => {
                matches!(kind, ClusterKind::Status(404) | ClusterKind::Json(_))
            }
            // A service that may not be read and was never seen to have ours counts as another party's, with a note.
            Target::CloudMap { operation, kind: FaultKind::AccessDenied, .. } => {
                operation == "ListInstances"
            }
            Target::CloudMap { .. } | Target::Aws { .. } => false,
        }
    }

    /// Whether Cloud Map says of a service that it has just listed that it does not exist.
    pub fn denies_a_service(&self) -> bool {
        matches!(
            &self.target,
            Target::CloudMap { operation, kind: FaultKind::Error(_, "ServiceNotFound", _), .. }
                if operation == "ListInstances"
        )
    }
}

impl fmt::Display for Case {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.after + 1;
        match &self.target {
            Target::CloudMap { operation, kind } => write!(text, "{operation} {number}, {kind:?}")?,
            Target::Cluster { cluster, method, path, kind } => {
                write!(text, "{cluster} {method} {path} {number}, {kind:?}")?;
            }
            Target::Aws { operation, kind } => write!(text, "{operation} {number}, {kind:?}")?,
        }
        match (self.times, self.kills) {
            (usize::MAX, _) => write!(text, ", sticky"),
            (_, true) => write!(text, ", killed"),
            (1, _) => write!(text, ", once"),
            (times, _) => write!(text, ", {times} times"),
        }
    }
}
