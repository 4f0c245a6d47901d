//! The connection to a cluster, step by step: EKS describes it, its endpoint resolves, the port accepts connections,
//! the certificate is the cluster's, and RBAC grants the rights that the function needs.

use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::{Check, CheckOutcome};
use crate::clients::{self, Connection};
use crate::eks;
use crate::error::chain;
use crate::kubernetes::access::{EVENTS, NEEDED, Rights};
use crate::kubernetes::{self, ErrorClass};
use crate::reconcile::Invocation;
use crate::settings::Cluster;

/// The timeout for a DNS lookup or a connection.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Invocation<'_> {
    /// Checks the connection to a cluster, and returns it if all of these checks passed.
    pub(super) async fn check_connection(
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
    let found = timeout(TIMEOUT, lookup_host((host, port))).await;
    let addresses: Vec<String> = match found {
        Ok(Ok(addresses)) => addresses.map(|address| address.ip().to_string()).collect(),
        Ok(Err(error)) => vec![format!("! {error}")],
        Err(_) => vec!["! timed out".to_owned()],
    };
    if let Some(problem) = addresses.iter().find_map(|text| text.strip_prefix("! ")) {
        let fix = "enable DNS support in the function's VPC; the name of a private endpoint resolves only in the cluster's VPC and in VPCs that it is shared with";
        checks.push(Check::failed("dns", format!("{host}: {problem}"), fix));
        return false;
    }
    checks.push(Check::ok("dns", format!("{host} resolves to {}", addresses.join(", "))));
    let problem = match timeout(TIMEOUT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => {
            checks.push(Check::ok("route", format!("port {port} accepts connections")));
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "timed out".to_owned(),
    };
    let fix = "private endpoint: attach the function to a VPC with a route to it, and allow port 443 from the function's security group in the cluster's; public endpoint: add the function's NAT address to the allowed CIDRs";
    checks.push(Check::failed("route", format!("port {port}: {problem}"), fix));
    false
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
pub(super) async fn check_verbs(
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
    let (name, fix) = match error.class {
        ErrorClass::Unauthenticated => (
            "token",
            format!(
                "aws eks create-access-entry --cluster-name {cluster} --kubernetes-groups cloud-map-sync --principal-arn ROLE_ARN"
            ),
        ),
        ErrorClass::Forbidden => {
            ("token", "bind the ClusterRole system:basic-user to authenticated users, so that they may list their own rights".to_owned())
        }
        ErrorClass::Unreachable => {
            ("tls", "another endpoint responds in place of the API server: look for a proxy on the route".to_owned())
        }
        ErrorClass::Failed => ("api", "try again: the API server returned an error".to_owned()),
    };
    Check::failed(name, chain(error), fix)
}
