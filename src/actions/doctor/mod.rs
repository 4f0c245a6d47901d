//! The action `doctor`: whether the function can work for each cluster. It checks its identity, the connection to the
//! cluster step by step (EKS describes it, its endpoint resolves, the port accepts connections, the certificate is the
//! cluster's, and RBAC grants the rights that the function needs), each read of Cloud Map (`cloud_map`) and the quotas
//! there, and the needs of a clusterset (`multi_cluster`). A check runs only if the checks that it depends on passed. Write permissions cannot be tested:
//! `cloud_map` prints the command that simulates them in IAM. Nothing is written.

mod cloud_map;
mod multi_cluster;

use std::fmt::{self, Display, Formatter};
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::clients::{self, Connection};
use crate::eks;
use crate::error::chain;
use crate::kubernetes::access::{EVENTS, NEEDED, Rights};
use crate::kubernetes::{self, ErrorClass};
use crate::model::{Guard, Selection, join};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{self, Peak};
use crate::reconcile::Invocation;
use crate::report::{Shorten, Word, count};
use crate::settings::Cluster;

impl Invocation<'_> {
    /// Checks a cluster and its Cloud Map, with the unreadable services of a full sync, its instance counts against the quotas
    /// and its DNS rights.
    pub async fn check_cluster(&self, cluster: &Cluster, registry: &SharedRegistry) -> Vec<Check> {
        let mut checks = vec![self.identity(cluster).await];
        let warnings = self.settings.warnings().into_iter();
        checks.extend(warnings.map(|it| check_warning(it, self.settings.rules.guard)));
        checks.extend(self.settings.rules.allow_every_name().then(note_every_name));
        let connection = self.check_connection(cluster, &mut checks).await;
        let read = cloud_map::check(registry, self.settings, &mut checks).await;
        if let (Some(connection), true) = (connection, read) {
            let world = self.world(cluster, &connection, registry);
            match world.observe(&Selection::Everything).await {
                Ok(observed) => {
                    let plan = plan::plan(&observed);
                    cloud_map::check_unread(&plan, &mut checks);
                    checks.extend(observed.peaks(&plan).iter().map(check_capacity));
                    checks.extend(cloud_map::check_dns_rights(&plan));
                    checks.extend(cloud_map::note_health_checks(&plan, &observed.registry));
                }
                Err(error) => {
                    let fix = "fix the failed checks above, or try again";
                    checks.push(Check::failed("read", chain(&error), fix));
                }
            }
            let of_clusterset =
                self.check_multi_cluster(cluster, &connection, registry, &mut checks);
            Box::pin(of_clusterset).await;
        }
        checks
    }

    async fn identity(&self, cluster: &Cluster) -> Check {
        match self.clients.identity(cluster).await {
            Ok(arn) => Check::ok("identity", arn),
            Err(problem) => Check::failed(
                "identity",
                problem,
                "give the function a role; if CLUSTERS names a role, allow the function to assume it",
            ),
        }
    }
}

/// A note about settings that do not fit together, although the function works with them. But for the guard's, it says
/// what to set.
fn check_warning(warning: String, guard: Guard) -> Check {
    let is_of_guard = guard.mismatch().is_some_and(|it| it == warning);
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
    /// Checks the connection to a cluster, and returns it if all of these checks passed.
    async fn check_connection(
        &self,
        cluster: &Cluster,
        checks: &mut Vec<Check>,
    ) -> Option<Connection> {
        let connection = match self.clients.reconnect(cluster).await {
            Ok(connection) => connection,
            Err(error) => {
                checks.push(Check::failed("describe", chain(&error), fix_of_description(&error)));
                return None;
            }
        };
        let described = &connection.cluster;
        checks.push(Check::ok("describe", described.arn.as_str()));
        let host = described.endpoint.host().unwrap_or_default().to_owned();
        let port = described.endpoint.port_u16().unwrap_or(443);
        let passed = check_route(&host, port, checks).await
            && check_rights(&connection.kubernetes, &described.name, checks).await;
        passed.then_some(connection)
    }
}

fn fix_of_description(error: &clients::Error) -> &'static str {
    match error {
        clients::Error::Describe(eks::Error::NotFound { .. }) => {
            "check the cluster's name, Region and account in CLUSTERS"
        }
        clients::Error::Describe(_) => {
            "the function's role, or the cluster's roleArn, needs eks:DescribeCluster"
        }
        clients::Error::NamedTwice { .. } => "list the cluster once in CLUSTERS, by its ARN",
        _ => "check the settings of this cluster in CLUSTERS",
    }
}

async fn check_route(host: &str, port: u16, checks: &mut Vec<Check>) -> bool {
    match in_time(lookup_host((host, port))).await {
        Ok(addresses) => {
            let addresses = join(addresses.map(|address| address.ip()), ", ");
            checks.push(Check::ok("dns", format!("{host} resolves to {addresses}")));
        }
        Err(problem) => {
            let fix = "enable DNS support in the function's VPC; the name of a private endpoint resolves only in the cluster's VPC and in VPCs that it is shared with";
            checks.push(Check::failed("dns", format!("{host}: {problem}"), fix));
            return false;
        }
    }
    let connected = in_time(TcpStream::connect((host, port))).await;
    checks.push(match &connected {
        Ok(_) => Check::ok("route", format!("port {port} accepts connections")),
        Err(problem) => {
            let fix = "private endpoint: attach the function to a VPC with a route to it, and allow port 443 from the function's security group in the cluster's; public endpoint: add the function's NAT address to the allowed CIDRs";
            Check::failed("route", format!("port {port}: {problem}"), fix)
        }
    });
    connected.is_ok()
}

/// The result of a step, or its problem.
async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    match timeout(TIMEOUT, step).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("timed out".to_owned()),
    }
}

const RBAC: &str = "kubectl apply -f deploy/rbac.yaml, and name its group in the access entry";

async fn check_rights(
    kubernetes: &kubernetes::Kubernetes,
    cluster: &str,
    checks: &mut Vec<Check>,
) -> bool {
    let mut passed = true;
    for rights in NEEDED.into_iter().chain([EVENTS]) {
        match check_verbs(kubernetes, rights, RBAC).await {
            Ok(found) if rights == EVENTS => checks.extend(found.into_iter().map(of_events)),
            Ok(found) => {
                passed &= found.iter().all(|check| check.outcome == CheckOutcome::Ok);
                checks.extend(found);
            }
            Err(error) => {
                checks.push(classify_refusal(&error, cluster));
                return false;
            }
        }
    }
    passed
}

fn of_events(check: Check) -> Check {
    if check.outcome == CheckOutcome::Ok {
        return check;
    }
    Check::note(
        "rbac",
        format!("{}: held-back requests appear only in the report", check.detail),
        RBAC,
    )
}

/// Checks verbs on one resource: those that are allowed together, and those that are not.
async fn check_verbs(
    kubernetes: &kubernetes::Kubernetes,
    (verbs, resource): Rights,
    fix: &str,
) -> Result<Vec<Check>, kubernetes::Error> {
    let (mut allowed, mut missing) = (Vec::new(), Vec::new());
    for verb in verbs {
        let may = kubernetes.may(verb, resource).await?;
        if may { allowed.push(*verb) } else { missing.push(*verb) }
    }
    let text = |verbs: Vec<&str>| (!verbs.is_empty()).then(|| verbs.join(", "));
    let allowed = text(allowed).map(|it| Check::ok("rbac", format!("may {it} {resource}")));
    let missing =
        text(missing).map(|it| Check::failed("rbac", format!("may not {it} {resource}"), fix));
    Ok(allowed.into_iter().chain(missing).collect())
}

/// The failed check for a cluster that does not even return the function's rights.
fn classify_refusal(error: &kubernetes::Error, cluster: &str) -> Check {
    let access = format!(
        "aws eks create-access-entry --cluster-name {cluster} --kubernetes-groups cloud-map-sync --principal-arn ROLE_ARN"
    );
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
        ErrorClass::Failed => ("api", "try again: the API server returned an error"),
    };
    Check::failed(name, chain(error), fix)
}

// The answer of the action `doctor`, as data and as text: the checks of each cluster, with a fix for each failed one.
// The plugin of kubectl parses the JSON and prints the same text.

/// The checks of the selected clusters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkup {
    /// Whether no check failed.
    pub ok: bool,
    /// The checks by cluster.
    pub clusters: Vec<ClusterCheckup>,
    /// The part that is left out, if the answer is too large for a Lambda response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// The checks of one cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterCheckup {
    /// Its ARN or its name, as in the settings.
    pub cluster: String,
    /// The checks; each depends on those before it.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The subject.
    pub name: Word,
    /// Its outcome.
    pub outcome: CheckOutcome,
    /// The finding.
    pub detail: String,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The check passed.
    Ok,
    /// The check did not pass, and the function works without it.
    Note,
    /// The check did not pass, and the function needs it.
    Failed,
}

impl Check {
    /// A check that passed.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: CheckOutcome::Ok, detail: detail.into(), fix: None }
    }

    /// A check that did not pass, and that the function works without.
    pub fn note(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Note, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }

    /// A check that did not pass, and that the function needs.
    pub fn failed(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Failed, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }
}

impl Checkup {
    /// A checkup of these clusters.
    pub fn new(clusters: Vec<ClusterCheckup>) -> Self {
        let mut checks = clusters.iter().flat_map(|cluster| &cluster.checks);
        Self { ok: checks.all(|check| check.outcome != CheckOutcome::Failed), clusters, cut: None }
    }
}

impl Shorten for Checkup {
    fn longest(&self) -> usize {
        self.clusters.len()
    }

    fn shorten(&mut self, entries: usize) {
        for cluster in &mut self.clusters {
            cluster.checks.retain(|check| check.outcome != CheckOutcome::Ok);
        }
        self.clusters.retain(|cluster| !cluster.checks.is_empty());
        self.clusters.truncate(entries);
        self.cut = Some(format!(
            "the checks are too large for a Lambda response: only those that are not ok are shown, of up to {entries} \
             clusters; select a cluster"
        ));
    }
}

impl Display for Checkup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for ClusterCheckup { cluster, checks } in &self.clusters {
            writeln!(f, "cluster {cluster}")?;
            checks.iter().try_for_each(|check| write!(f, "{check}"))?;
        }
        self.cut.iter().try_for_each(|cut| writeln!(f, "! {cut}"))?;
        let failed = self.clusters.iter().flat_map(|cluster| &cluster.checks);
        match failed.filter(|check| check.outcome == CheckOutcome::Failed).count() {
            0 => writeln!(f, "all checks passed"),
            failed => writeln!(f, "{} failed", count(failed, "check")),
        }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.outcome {
            CheckOutcome::Ok => '=',
            CheckOutcome::Note => '~',
            CheckOutcome::Failed => '!',
        };
        writeln!(f, "  {sign} {:<10} {}", self.name, self.detail)?;
        let label = if self.outcome == CheckOutcome::Failed { "fix" } else { "try" };
        self.fix.iter().try_for_each(|fix| writeln!(f, "    {label}: {fix}"))
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
        assert_eq!(check_warning("REGISTRY_READ is ignored".to_owned(), guard).fix, None);
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
    fn a_checkup_that_is_too_large_keeps_the_checks_that_are_not_ok() {
        let cluster = |number: usize| {
            let fine = |_| Check::ok("identity", "a sentence about what was found there");
            let mut checks: Vec<Check> = (0..20).map(fine).collect();
            checks.push(Check::failed("route", "no answer".repeat(40), "allow 443".repeat(40)));
            ClusterCheckup { cluster: format!("cluster-{number:04}"), checks }
        };
        let whole = Checkup::new((0..4_000).map(cluster).collect());
        let checkup: Checkup =
            serde_json::from_value(crate::report::within_limit(whole)).expect("a checkup");
        assert!(!checkup.ok);
        assert_eq!(checkup.clusters.len(), 4_000, "the failed checks of all clusters are there");
        assert!(checkup.to_string().contains("\n! the checks are too large"));
    }
}
