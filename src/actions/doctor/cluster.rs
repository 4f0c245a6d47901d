//! The way to a cluster: EKS describes it, its name has an address, something answers there, with the right
//! certificate, and it grants what the function needs.

use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::Check;
use crate::clients::{self, Connection};
use crate::eks;
use crate::error::chain;
use crate::kubernetes::access::{EVENTS, NEEDED};
use crate::kubernetes::{self, Class};
use crate::reconcile::Invocation;
use crate::settings::Cluster;

/// How long a name or a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Invocation<'_> {
    /// The connection to a cluster that can be read.
    pub(super) async fn way_to(
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
            "CLUSTERS has another name, Region or account than the cluster"
        }
        clients::Error::Describe(_) => {
            "the function's role, or the cluster's roleArn, needs eks:DescribeCluster"
        }
        _ => "see the settings of this cluster in CLUSTERS",
    }
}

async fn check_route(host: &str, port: u16, checks: &mut Vec<Check>) -> bool {
    let found = timeout(PATIENCE, lookup_host((host, port))).await;
    let addresses: Vec<String> = match found {
        Ok(Ok(addresses)) => addresses.map(|address| address.ip().to_string()).collect(),
        Ok(Err(error)) => vec![format!("! {error}")],
        Err(_) => vec!["! no answer in time".to_owned()],
    };
    if let Some(problem) = addresses.iter().find_map(|text| text.strip_prefix("! ")) {
        let fix = "give the function's VPC DNS support; a private endpoint has its name only in the cluster's VPC and in those it is shared with";
        checks.push(Check::failed("dns", format!("{host}: {problem}"), fix));
        return false;
    }
    checks.push(Check::ok("dns", format!("{host} is {}", addresses.join(", "))));
    let problem = match timeout(PATIENCE, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => {
            checks.push(Check::ok("route", format!("port {port} answers")));
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    let fix = "private endpoint: put the function into a VPC with a way there, and let the cluster's security group take 443 from the function's; public endpoint: let its allowed CIDRs have the function's NAT address";
    checks.push(Check::failed("route", format!("port {port}: {problem}"), fix));
    false
}

async fn check_rights(
    kubernetes: &kubernetes::Kubernetes,
    cluster: &str,
    checks: &mut Vec<Check>,
) -> bool {
    let mut passed = true;
    for (right, needed) in NEEDED.map(|it| (it, true)).into_iter().chain([(EVENTS, false)]) {
        let (verb, group, resource) = right;
        let group = if group.is_empty() { "the core group" } else { group };
        let what = format!("{verb} {resource} of {group}");
        let rbac = "kubectl apply -f deploy/rbac.yaml, and name its group in the access entry";
        match kubernetes.may(right).await {
            Ok(true) => checks.push(Check::ok("rbac", format!("may {what}"))),
            Ok(false) if needed => {
                checks.push(Check::failed("rbac", format!("may not {what}"), rbac));
                passed = false;
            }
            Ok(false) => {
                let said = format!("may not {what}: what is held back appears only in the report");
                checks.push(Check::note("rbac", said, rbac));
            }
            Err(error) => {
                checks.push(refused(&error, cluster));
                return false;
            }
        }
    }
    passed
}

/// What a cluster that does not even tell the rights is lacking.
fn refused(error: &kubernetes::Error, cluster: &str) -> Check {
    let said = chain(error);
    match error.class {
        Class::Unauthenticated => Check::failed(
            "token",
            said,
            format!(
                "aws eks create-access-entry --cluster-name {cluster} --kubernetes-groups cloud-map-sync --principal-arn ROLE_ARN"
            ),
        ),
        Class::Forbidden => Check::failed(
            "token",
            said,
            "let authenticated users ask for their rights (the ClusterRole system:basic-user)",
        ),
        Class::Unreachable => Check::failed(
            "tls",
            said,
            "something on the way answers in the place of the API server: look for a proxy",
        ),
        Class::Failed => Check::failed("api", said, "try again; the API server has a problem"),
    }
}
