//! The action `doctor` checks for each cluster whether the function can work:
//!
//! - the function's identity;
//! - the connection to the cluster, step by step: EKS describes it, its endpoint resolves, the port accepts
//!   connections, the certificate is the cluster's, and RBAC grants the rights that the function needs;
//! - the Cloud Map calls that a full sync makes to plan (`cloud_map`), and the quotas of Cloud Map;
//! - the requirements of a clusterset (`multi_cluster`).
//!
//! A check runs only if the checks that it depends on passed. Nothing is written, so write permissions are not tested:
//! `cloud_map` prints the commands that simulate them in IAM.

mod cloud_map;
mod multi_cluster;

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, lookup_host};

use super::{Check, CheckOutcome};
use crate::clients::{self, Connection};
use crate::eks;
use crate::error::chain;
use crate::kubernetes::{self, ErrorClass, Kubernetes, access};
use crate::model::{EksCluster, Guard, Selection, join};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{self, Peak, peaks};
use crate::reconcile::Invocation;
use crate::report::count;
use crate::settings::Cluster;

const TRY_AGAIN: &str = "fix the failed checks above, or try again";

impl Invocation<'_> {
    /// Checks a cluster and its Cloud Map, including services that a full sync could not read, the quotas of instances,
    /// and the rights for DNS records.
    pub async fn check_cluster(&self, cluster: &Cluster, registry: &SharedRegistry) -> Vec<Check> {
        let mut checks = vec![self.identity(cluster).await];
        let warnings = self.settings.warnings().into_iter();
        checks.extend(warnings.map(|warning| check_warning(warning, self.settings.rules.guard)));
        let repetitions = cluster.repetition_warnings();
        checks.extend(repetitions.map(|warning| {
            Check::failed("settings", warning, "list the cluster once in CLUSTERS")
        }));
        checks.extend(self.settings.rules.allow_every_name().then(note_every_name));
        let connection = self.check_connection(cluster, &mut checks).await;
        let reading = cloud_map::read(registry, &mut checks);
        let read = self.in_time(cloud_map::NAME, "Cloud Map", reading).await;
        let read = read.unwrap_or_else(|late| {
            checks.push(late);
            None
        });
        let Some(read) = read else { return checks };
        let mut plan_checks = Vec::new();
        if let Some(connection) = &connection {
            let cluster_run = self.cluster_run(cluster, connection, registry);
            let observed =
                self.deadline.until_stop(cluster_run.observe(&Selection::Everything)).await;
            let observed = observed.unwrap_or_else(|elapsed| Err(elapsed.into()));
            if let Some(observed) = passed(observed, "read", TRY_AGAIN, &mut checks) {
                let plan = plan::plan(&observed);
                cloud_map::check_unread(&plan, &mut checks);
                plan_checks.extend(peaks(&observed, &plan).iter().map(check_capacity));
                plan_checks.extend(cloud_map::check_dns_rights(&plan));
                plan_checks.extend(cloud_map::note_health_checks(&plan, &observed.registry));
            }
        }
        let client = &registry.cloud_map;
        let rest = cloud_map::make_remaining_reads(client, &read, self.settings.dry_run);
        checks.extend(self.in_time(cloud_map::NAME, "Cloud Map", rest).await.err());
        cloud_map::check_calls(client.outcomes(), &read, self.settings, &mut checks);
        checks.extend(plan_checks);
        let Some(connection) = connection else { return checks };
        let clusterset_checks =
            Box::pin(self.check_multi_cluster(cluster, &connection, registry, &mut checks));
        if self.deadline.until_stop(clusterset_checks).await.is_err() {
            checks.push(late("clusterset", "the rest of this check has no answer"));
        }
        checks
    }

    /// Runs a step for at most half of the remaining time, so that later steps get a turn. `service` is the service
    /// that the step calls. The error is the failed check.
    async fn in_time<T>(
        &self,
        name: &'static str,
        service: &str,
        step: impl Future<Output = T>,
    ) -> Result<T, Check> {
        let done = self.deadline.half(step).await;
        done.map_err(|_| late(name, &format!("{service} did not answer in time")))
    }

    async fn identity(&self, cluster: &Cluster) -> Check {
        let fix =
            "give the function a role; if CLUSTERS names a role, allow the function to assume it";
        match self.in_time("identity", "STS", self.clients.identity(cluster)).await {
            Ok(Ok(arn)) => Check::ok("identity", arn),
            Ok(Err(problem)) => Check::failed("identity", problem, fix),
            Err(late) => late,
        }
    }
}

/// The failed check of a step that timed out.
fn late(name: &'static str, detail: &str) -> Check {
    Check::failed(name, detail, TRY_AGAIN)
}

/// Returns the value of a step that passed, or adds the failed check of a step that did not.
fn passed<T, E: Error>(
    step: Result<T, E>,
    name: &'static str,
    fix: &str,
    checks: &mut Vec<Check>,
) -> Option<T> {
    step.map_err(|error| checks.push(Check::failed(name, chain(&error), fix))).ok()
}

/// A note about settings that have no effect or contradict each other. Only the guard's warning gets a fix, since the
/// other warnings already contain one.
fn check_warning(warning: String, guard: Guard) -> Check {
    let is_of_guard = guard.mismatch().is_some_and(|mismatch| mismatch == warning);
    let fix = "set GUARD_WAIT to at least a sixth of SCHEDULE_MINUTES";
    let fix = is_of_guard.then(|| fix.to_owned());
    Check { fix, ..Check::note("settings", warning, "") }
}

fn note_every_name() -> Check {
    let detail = "NAME_POLICY allows every Service every name, those of ECS tasks too";
    let fix = "limit it: docs/security.md#name-policy has a policy to start with";
    Check::note("names", detail, fix)
}

fn check_capacity(Peak { of, count, quota, is_fixed }: &Peak) -> Check {
    let default = if *is_fixed || count <= quota { "" } else { "default " };
    let detail = format!("{of} needs up to {count} instances; the {default}quota is {quota}");
    if count <= quota {
        Check::ok("quota", detail)
    } else if *is_fixed {
        let fix = "use more than one name, or lower max-instances: AWS does not raise this quota";
        Check::failed("quota", detail, fix)
    } else {
        let fix = "check \"instances per namespace\" of this account in Service Quotas; if it is too low, request an increase, use more than one namespace, or lower max-instances";
        Check::note("quota", detail, fix)
    }
}

// The connection to a cluster.

/// The timeout for a DNS lookup or a connection.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Invocation<'_> {
    /// Checks the connection to a cluster. Returns it if all these checks passed.
    async fn check_connection(
        &self,
        cluster: &Cluster,
        checks: &mut Vec<Check>,
    ) -> Option<Connection> {
        let described = self.reconnect(cluster).await;
        let fix = described.as_ref().err().map_or("", fix_of_description);
        let connection = passed(described, "describe", fix, checks)?;
        let described = &connection.cluster;
        checks.push(Check::ok("describe", described.arn.as_str()));
        let host = described.endpoint.host().unwrap_or_default();
        let port = described.endpoint.port_u16().unwrap_or(443);
        if let Err(failed) = check_route(host, port, checks).await {
            checks.push(failed);
            return None;
        }
        let mut found = Vec::new();
        let rights = access::NEEDED.into_iter().chain([access::EVENTS]);
        let answered = check_rights(&connection.kubernetes, rights, RBAC, &mut found).await;
        found.extend(answered.err().map(|error| classify_refusal(&error, described)));
        let passed = !found.iter().any(Check::has_failed);
        checks.extend(found);
        passed.then_some(connection)
    }
}

fn fix_of_description(error: &clients::Error) -> &'static str {
    match error {
        clients::Error::Describe(eks::Error::NotFound { .. }) => {
            "check the cluster's name, Region and account in CLUSTERS"
        }
        clients::Error::Late(_) => {
            "try again; in a VPC, the function needs a route to EKS: a NAT gateway, or an interface endpoint"
        }
        clients::Error::Describe(_) => {
            "the function's role, or the cluster's roleArn, needs eks:DescribeCluster"
        }
        _ => "check the settings of this cluster in CLUSTERS",
    }
}

/// Checks DNS and the TCP connection. The error is the check that failed.
async fn check_route(host: &str, port: u16, checks: &mut Vec<Check>) -> Result<(), Check> {
    let fix = "enable DNS support in the function's VPC; the name of a private endpoint resolves only in the cluster's VPC and in VPCs that it is shared with";
    let addresses = in_time(lookup_host((host, port))).await;
    let addresses =
        addresses.map_err(|problem| Check::failed("dns", format!("{host}: {problem}"), fix))?;
    let addresses = join(addresses.map(|address| address.ip()), ", ");
    checks.push(Check::ok("dns", format!("{host} resolves to {addresses}")));
    let fix = "private endpoint: attach the function to a VPC with a route to it, and allow port 443 from the function's security group in the cluster's; public endpoint: add the function's NAT address to the allowed CIDRs";
    let connected = in_time(TcpStream::connect((host, port))).await;
    connected.map_err(|problem| Check::failed("route", format!("port {port}: {problem}"), fix))?;
    checks.push(Check::ok("route", format!("port {port} accepts connections")));
    Ok(())
}

/// Waits for a step. The error is the text of its problem.
async fn in_time<T>(step: impl Future<Output = std::io::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, step).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("timed out".to_owned()),
    }
}

const RBAC: &str = "kubectl apply -f deploy/rbac.yaml, and name its group in the access entry";

/// Adds for each right a check of the allowed verbs and one of the missing verbs: only a note for Events, without which
/// the function works.
async fn check_rights(
    kubernetes: &Kubernetes,
    rights: impl IntoIterator<Item = access::Rights>,
    fix: &str,
    checks: &mut Vec<Check>,
) -> Result<(), kubernetes::Error> {
    for (verbs, resource) in rights {
        let mut allowed = Vec::new();
        let mut missing = Vec::new();
        for verb in verbs {
            let may = kubernetes.may(verb, resource).await?;
            if may { allowed.push(*verb) } else { missing.push(*verb) }
        }
        if !allowed.is_empty() {
            checks.push(Check::ok("rbac", format!("may {} {resource}", allowed.join(", "))));
        }
        if missing.is_empty() {
            continue;
        }
        let detail = format!("may not {} {resource}", missing.join(", "));
        checks.push(if (verbs, resource) == access::EVENTS {
            let detail = format!("{detail}: held-back requests appear only in the report");
            Check::note("rbac", detail, fix)
        } else {
            Check::failed("rbac", detail, fix)
        });
    }
    Ok(())
}

/// The failed check for a cluster that does not return the function's rights at all.
fn classify_refusal(error: &kubernetes::Error, cluster: &EksCluster) -> Check {
    // A local cluster on Outposts cannot have access entries.
    let access = match &cluster.local_id {
        Some(_) => "map the function's role to the group cloud-map-sync in mapRoles of the ConfigMap aws-auth in kube-system".to_owned(),
        None => format!(
            "aws eks create-access-entry --cluster-name {} --kubernetes-groups cloud-map-sync --principal-arn ROLE_ARN",
            cluster.name
        ),
    };
    let (name, fix) = match error.class {
        ErrorClass::Unauthenticated => ("token", access.as_str()),
        ErrorClass::Forbidden => (
            "token",
            "bind the ClusterRole system:basic-user to authenticated users, so that they may list their own rights",
        ),
        ErrorClass::Unreachable => (
            "tls",
            "another endpoint responds in place of the API server: look for a proxy on the route",
        ),
        ErrorClass::Denied => (
            "token",
            "let the admission rule that the message names pass SelfSubjectAccessReviews, so that authenticated users may list their own rights",
        ),
        ErrorClass::Failed => ("api", "try again: the API server returned an error"),
        ErrorClass::Late => ("api", "try again: the API server accepts connections and is silent"),
    };
    Check::failed(name, chain(error), fix)
}

// The answer of `doctor`, as data and as text: the checks of each cluster, with a fix for each failed check. The
// kubectl plugin parses the JSON and prints the same text.

/// The checks of the selected clusters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkup {
    /// Whether no check failed.
    pub ok: bool,
    /// The checks by cluster.
    pub clusters: Vec<ClusterCheckup>,
    /// Set to a hint if the answer was reduced to counts because it exceeded Lambda's response limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// The checks of one cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterCheckup {
    /// Its ARN.
    pub cluster: String,
    /// The checks in order; a later check may depend on earlier ones.
    pub checks: Vec<Check>,
}

impl Checkup {
    /// A checkup of these clusters.
    pub fn new(clusters: Vec<ClusterCheckup>) -> Self {
        let mut checks = clusters.iter().flat_map(|cluster| &cluster.checks);
        Self { ok: !checks.any(Check::has_failed), clusters, cut: None }
    }
}

impl Checkup {
    /// Replaces the checks of each cluster by their number and the number that failed.
    pub fn keep_only_counts(&mut self) {
        for ClusterCheckup { checks, .. } in &mut self.clusters {
            let failed = checks.iter().filter(|check| check.has_failed()).count();
            let counted = format!("{failed} of {} failed", count(checks.len(), "check"));
            *checks = vec![Check::new(CheckOutcome::of(failed == 0), "checks", counted)];
        }
        let sentence = "the checks are too large for a Lambda response, so it has only the counts: select a cluster";
        self.cut = Some(sentence.to_owned());
    }
}

impl Display for Checkup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for ClusterCheckup { cluster, checks } in &self.clusters {
            writeln!(f, "cluster {cluster}")?;
            checks.iter().try_for_each(|check| writeln!(f, "  {check}"))?;
        }
        if let Some(cut) = &self.cut {
            return writeln!(f, "! {cut}");
        }
        let all = self.clusters.iter().flat_map(|cluster| &cluster.checks);
        match all.filter(|check| check.has_failed()).count() {
            0 => writeln!(f, "all checks passed"),
            failed => writeln!(f, "{} failed", count(failed, "check")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SignedDuration;

    #[test]
    fn warning_has_the_fix_of_the_guard_if_it_is_the_guards() {
        let guard = Guard { period: SignedDuration::from_hours(2), ..Guard::default() };
        let of_guard = guard.mismatch().expect("the schedule is too slow");
        assert!(check_warning(of_guard, guard).fix.is_some());
        assert_eq!(check_warning("every cluster has page: false".to_owned(), guard).fix, None);
    }
}

#[cfg(test)]
mod answer_tests {
    use super::*;

    #[test]
    fn a_failed_check_prints_its_fix_and_a_note_fails_nothing() {
        let checks = vec![
            Check::ok("identity", "arn:aws:sts::111122223333:assumed-role/sync/s"),
            Check::note("events", "may not create events", "apply the role"),
        ];
        let blue = ClusterCheckup { cluster: "blue".to_owned(), checks };
        let passed = Checkup::new(vec![blue.clone()]);
        assert!(passed.ok && passed.to_string().ends_with("\nall checks passed\n"), "{passed}");

        let checks = vec![Check::failed("route", "no answer", "allow 443")];
        let green = ClusterCheckup { cluster: "green".to_owned(), checks };
        let failed = Checkup::new(vec![blue, green]);
        assert!(!failed.ok);
        insta::assert_snapshot!(failed.to_string(), @r"
        cluster blue
          = identity   arn:aws:sts::111122223333:assumed-role/sync/s
          ~ events     may not create events
            try: apply the role
        cluster green
          ! route      no answer
            fix: allow 443
        1 check failed
        ");
    }

    #[test]
    fn a_checkup_that_is_too_large_has_the_number_of_failed_checks_of_each_cluster() {
        let fine = |_| Check::ok("identity", "a sentence about what was found there");
        let mut checks: Vec<Check> = (0..60_000).map(fine).collect();
        checks.push(Check::failed("route", "no answer", "allow 443"));
        let cluster = ClusterCheckup { cluster: "blue".to_owned(), checks };
        let mut checkup = Checkup::new(vec![cluster]);
        crate::report::cut_if_too_large(&mut checkup, Checkup::keep_only_counts);
        assert!(!checkup.ok);
        insta::assert_snapshot!(checkup.to_string(), @r"
        cluster blue
          ! checks     1 of 60001 checks failed
        ! the checks are too large for a Lambda response, so it has only the counts: select a cluster
        ");
    }
}
