//! Whether the function can do its work for a cluster: from its identity over the way to the cluster to
//! each read of Cloud Map, each check only where those before it leave something to check. Nothing is
//! written.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::clients::{self, Connection};
use crate::cloud_map::Call;
use crate::kubernetes::access::{EVENTS, NEEDED};
use crate::kubernetes::{self, Class};
use crate::model::{Registry, Selection, Tags};
use crate::observe::SharedRegistry;
use crate::plan::{self, Peak, Place};
use crate::reconcile::Invocation;
use crate::report::chain;
use crate::report::checkup::Check;
use crate::settings::Cluster;

/// How long a name or a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Invocation<'_> {
    /// Checks a cluster and the Cloud Map that its Services are kept in.
    pub async fn check_up(&self, cluster: &Cluster, registry: &SharedRegistry) -> Vec<Check> {
        let mut checks = vec![self.identity(cluster).await];
        let reached = self.way_to(cluster, &mut checks).await;
        let read = check_registry(registry, &mut checks).await;
        if let (Some(connection), true) = (reached, read) {
            checks.extend(self.room(cluster, &connection, registry).await);
        }
        checks
    }

    async fn identity(&self, cluster: &Cluster) -> Check {
        match self.clients.identity(cluster).await {
            Ok(arn) => Check::ok("identity", arn),
            Err(problem) => Check::failed(
                "identity",
                problem,
                "give the function a role, and where CLUSTERS names one, let the function assume it",
            ),
        }
    }

    /// The connection to a cluster that can be read.
    async fn way_to(&self, cluster: &Cluster, checks: &mut Vec<Check>) -> Option<Connection> {
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

    /// What the next full sync needs, against the quotas.
    async fn room(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
    ) -> Vec<Check> {
        let world = self.world(cluster, connection, registry);
        match world.observe(&Selection::Everything).await {
            Ok((observation, affected)) => {
                let plan = plan::plan(&observation, &affected);
                plan::peaks(&observation, &plan).iter().map(check_room).collect()
            }
            Err(error) => {
                vec![Check::failed("read", chain(&error), "see the checks before, or try again")]
            }
        }
    }
}

fn fix_of_description(error: &clients::Error) -> &'static str {
    match error {
        clients::Error::Describe(crate::eks::Error::NotFound { .. }) => {
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
                let said = format!("may not {what}: what is held back is told in the report alone");
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

/// Each read that a sync makes. Returns whether namespaces and services could be listed.
async fn check_registry(registry: &SharedRegistry, checks: &mut Vec<Check>) -> bool {
    let read = match registry.read().await {
        Ok(read) => read,
        Err(error) => {
            let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListNamespaces and ListServices in the registry's Region";
            checks.push(Check::failed("cloud map", chain(&*error), fix));
            return false;
        }
    };
    let (namespaces, services) = (read.namespaces.len(), read.services.len());
    let said = format!("lists {namespaces} namespaces and {services} services");
    checks.push(match namespaces {
        0 => Check::note("cloud map", said, "are Region, account and CLOUD_MAP_NAMESPACES right?"),
        _ => Check::ok("cloud map", said),
    });
    let unreadable = read.services.values().find_map(|service| service.unreadable.as_ref());
    match unreadable {
        Some(problem) => {
            let fix = "the role needs servicediscovery:ListInstances on every service";
            checks.push(Check::failed("instances", problem, fix));
        }
        None => checks.extend(check_instance(registry, &read).await),
    }
    true
}

/// The reads of one instance and of the service that it is in.
async fn check_instance(registry: &SharedRegistry, read: &Registry) -> Vec<Check> {
    let first = read.services.iter().find_map(|(key, service)| {
        Some((key, service, service.instances.as_ref()?.keys().next()?))
    });
    let Some((key, service, id)) = first else { return Vec::new() };
    let (cloud_map, place) = (registry.cloud_map(), Place::of(key, read));
    let permit = cloud_map.permit(Call::GetInstance).await;
    let got = cloud_map.instance(&permit, &service.arn, &place, id).await.map(drop);
    drop(permit);
    let mut checks = vec![of_call("GetInstance", got.map_err(|error| chain(&error)))];
    let (mut again, keys) = (read.clone(), BTreeSet::from([key.clone()]));
    cloud_map.read_tags(&mut again, &keys).await;
    let tags = match again.services.get(key).map(|service| &service.tags) {
        Some(Tags::Unreadable(problem)) => Err(problem.clone()),
        _ => Ok(()),
    };
    checks.push(of_call("ListTagsForResource", tags));
    if let Some(namespace) = read.namespaces.get(&key.namespace) {
        checks.push(match cloud_map.discover(namespace, &place.name).await {
            Ok(_) => Check::ok("cloud map", "DiscoverInstances is allowed"),
            Err(error) => {
                let fix = "for the action explain alone the role needs servicediscovery:DiscoverInstances";
                Check::note("cloud map", chain(&error), fix)
            }
        });
    }
    checks
}

fn of_call(action: &'static str, result: Result<(), String>) -> Check {
    match result {
        Ok(()) => Check::ok("cloud map", format!("{action} is allowed")),
        Err(problem) => {
            let fix =
                format!("the function's role, or registryRoleArn, needs servicediscovery:{action}");
            Check::failed("cloud map", problem, fix)
        }
    }
}

fn check_room(Peak { of, count, quota }: &Peak) -> Check {
    let said = format!("{of} has {count} instances at the most, of {quota}");
    if count > quota {
        let fix = "split the name or the namespace, or lower max-instances; the quota per namespace can be raised by AWS, the one per service cannot";
        return Check::failed("quota", said, fix);
    }
    Check::ok("quota", said)
}
