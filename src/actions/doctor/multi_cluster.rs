//! Checks a cluster in its clusterset, step by step:
//!
//! - the Multi-Cluster Services API that the cluster serves, and the fields that the API declares;
//! - the RBAC rights of the enabled directions, one access review for each verb, and the admission policy that limits
//!   them;
//! - the ids of the cluster and its clusterset;
//! - the requirements of its exports: names in Cloud Map, room for their records, no other controller, and routes to
//!   their ports.
//!
//! For a cluster that takes no part in a clusterset, reports only the records that it left in Cloud Map.
//!
//! The admission policy lets the function write only its own objects. The function cannot read policies, so it tries to
//! create an object that the policy refuses, as a dry run, which stores nothing.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Check, TRY_AGAIN, check_rights, passed};
use crate::clients::Connection;
use crate::clusterset::{attributes, conditions, members, record};
use crate::error::chain;
use crate::import::plan::{EXCLUDED, OWNER_LABEL};
use crate::kubernetes::endpoint_slices::slice_lists;
use crate::kubernetes::{Error, Kubernetes, access};
use crate::model::{
    ClusterArn, Flow, Kind, Line, Member, ObjectRef, Owner, Registry, Selection, ServiceRef, join,
    join_or,
};
use crate::publish::exports::{INSTALL, MAXIMUM, PublishedExports};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::DEFAULT_NAMESPACE_QUOTA;
use crate::reconcile::{Invocation, JoinedCluster};
use crate::report::count;
use crate::settings::{Cluster, MultiCluster};

/// The version of the Multi-Cluster Services API that the function needs.
const NEEDED_VERSION: &str = "multicluster.x-k8s.io/v1beta1";

impl Invocation<'_> {
    /// Checks a cluster in its clusterset.
    pub(super) async fn check_multi_cluster(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
        checks: &mut Vec<Check>,
    ) {
        let direction = self.settings.multi_cluster_of(cluster);
        if direction == MultiCluster::Off {
            checks.extend(self.note_remaining_records(&connection.cluster.arn, registry).await);
            return;
        }
        let kubernetes = &connection.kubernetes;
        let Some(has_properties) = check_api(kubernetes, checks).await else { return };
        let rights = needed_rights(direction, has_properties);
        let answered = check_rights(kubernetes, rights, RIGHTS_FIX, checks).await;
        passed(answered, "rbac", "try again", checks);
        if direction.imports() {
            checks.push(check_admission(kubernetes).await);
            checks.push(check_coredns(connection).await);
        }
        let joined = match self.join(cluster, &Selection::Everything).await {
            Some(Ok(joined)) => joined,
            Some(Err(obstacle)) => return checks.push(failed("clusterset", &obstacle)),
            None => return,
        };
        if let Some(obstacle) = &joined.unread_imports {
            return checks.push(failed("clusterset", obstacle));
        }
        checks.extend(check_member(&joined.member));
        checks.extend(joined.objects.as_ref().map(|objects| {
            let imports = objects.ours(&joined.owner).count();
            Check::ok("imports", format!("has {}", count(imports, "ServiceImport")))
        }));
        // A cluster that only imports publishes only its cluster record.
        let name = if joined.is_exporting() { "exports" } else { "clusterset" };
        match joined.export(registry, &Selection::Everything, drop).await {
            Ok(Some(exported)) if joined.is_exporting() => {
                check_exports(&exported, &joined, checks);
            }
            Ok(_) => {}
            Err(obstacle) => checks.push(failed(name, &(&obstacle).into())),
        }
        if let Some(read) = registry.whole_registry().await {
            check_registry(&joined, &read, checks);
        }
    }

    /// Returns a note if the cluster no longer takes part in a clusterset but still has records in Cloud Map.
    async fn note_remaining_records(
        &self,
        arn: &ClusterArn,
        registry: &SharedRegistry,
    ) -> Option<Check> {
        let read: Registry = registry.whole_registry().await?;
        let id = &self.settings.owner_id;
        let is_ours =
            |owner: &Owner| owner.id == *id && owner.cluster == *arn && owner.flow == Flow::Exports;
        let all = members::clustersets(&read);
        let mut members = all.values().flatten();
        let (member, view) = members.find(|(_, view)| view.owner().is_some_and(is_ours))?;
        let detail = format!(
            "MULTI_CLUSTER is off for this cluster, and its records under the id {member} stay in Cloud Map, with {}: other clusters still import them",
            count(view.export_count(), "export")
        );
        let fix = format!(
            "switch it on again, or end it: {{\"action\":\"purge\",\"cluster\":\"{arn}\",\"clusterset\":true}}"
        );
        Some(Check::note("clusterset", detail, fix))
    }
}

/// Checks the API. Returns whether the API server serves ClusterProperties, or `None` if the required API is not served
/// or could not be read.
async fn check_api(kubernetes: &Kubernetes, checks: &mut Vec<Check>) -> Option<bool> {
    let fix = "allow the function to read /apis: system:discovery for authenticated users";
    let versions = passed(kubernetes.multi_cluster_versions().await, "crds", fix, checks)?;
    let served = join_or(&versions, ", ", "neither");
    if !versions.iter().any(|version| version == NEEDED_VERSION) {
        let detail = format!("{NEEDED_VERSION} is not served (of it and about.k8s.io: {served})");
        checks.push(Check::failed("crds", detail, INSTALL));
        return None;
    }
    checks.push(Check::ok("crds", format!("serves {served}")));
    let fix = "allow the function to read /openapi: system:discovery for authenticated users";
    let declares = kubernetes.crd_has_slice_objects().await;
    let declares = passed(declares, "crds", fix, checks);
    checks.extend(declares.map(|is_declared| {
        if is_declared {
            return Check::ok("crds", "ServiceImports declare endpointSliceObjects");
        }
        let detail = "ServiceImports do not declare status.endpointSliceObjects (mcs-api before v0.5.1), so it is not written";
        Check::note("crds", detail, INSTALL)
    }));
    Some(versions.iter().any(|version| version.starts_with("about.k8s.io/")))
}

fn check_member(member: &Member) -> Vec<Check> {
    let Member { cluster, clusterset } = member;
    let membership = Check::ok("clusterset", format!("member {cluster} of {clusterset}"));
    let has_two_labels = cluster.as_str().contains('.').then(|| {
        let detail = format!("the cluster id {cluster} has two labels: CoreDNS has no names of single pods under it");
        let fix = "if clients need the names of a StatefulSet's pods, give the cluster an id of one label: docs/multi-cluster.md, Moving a cluster";
        Check::note("clusterset", detail, fix)
    });
    [membership].into_iter().chain(has_two_labels).collect()
}

/// The failed check of an obstacle. Its fix is a retry if the obstacle is an error, otherwise a section of the
/// documentation.
fn failed(name: &'static str, obstacle: &Line) -> Check {
    let fix = if obstacle.is_unfinished() {
        TRY_AGAIN
    } else {
        "docs/multi-cluster.md, section \"What stops it\""
    };
    Check::failed(name, format!("{}: {}", obstacle.code, obstacle.text), fix)
}

/// The maximum number of export problems that are listed.
const LISTED: usize = 10;

/// Checks the exports that a sync would publish.
fn check_exports(exported: &PublishedExports, joined: &JoinedCluster<'_>, checks: &mut Vec<Check>) {
    let exports = exported.exports().len();
    let detail = format!("{} of at most {MAXIMUM}", count(exports, "ServiceExport"));
    checks.push(if exports > MAXIMUM {
        Check::failed("exports", detail, "delete ServiceExports, or move some to another cluster")
    } else {
        Check::ok("exports", detail)
    });
    let mut problems = exported.outcomes.iter().filter_map(|(service, outcome)| {
        let is_exported = matches!(outcome.of_this_run(), conditions::ExportOutcome::Exported(_));
        let (_, problem) = outcome.problem().filter(|_| !is_exported)?;
        let is_as_before = matches!(outcome, conditions::ExportOutcome::AsBefore(_));
        let state =
            if is_as_before { "stays exported as it was before" } else { "is not exported" };
        Some((service, format!("{service} {state}: {problem}")))
    });
    for (service, detail) in problems.by_ref().take(LISTED) {
        let ServiceRef { namespace, name } = service;
        let fix = format!("kubectl cloudmap explain service/{name} -n {namespace}");
        checks.push(Check::note("exports", detail, fix));
    }
    if let more @ 1.. = problems.count() {
        let detail = format!("{more} more have a problem");
        checks.push(Check::note("exports", detail, "kubectl cloudmap plan"));
    }
    checks.extend(check_ports(exported, joined));
}

/// A note with the ports of the exported endpoints. Their reachability from other clusters cannot be tested from here.
fn check_ports(exported: &PublishedExports, joined: &JoinedCluster<'_>) -> Option<Check> {
    let services = exported.read.desired.services.values();
    let endpoints = services
        .filter_map(|service| Some((service.export.as_ref()?, service.endpoints.as_ref()?)));
    let mut ports = BTreeSet::new();
    for (export, endpoints) in endpoints {
        let exported_endpoints = endpoints
            .iter()
            .flat_map(|endpoint| attributes::endpoints_of(export, endpoint, joined.arn().region()));
        ports.extend(
            exported_endpoints
                .filter_map(|endpoint| endpoint.port)
                .map(|port| (port.protocol, port.number)),
        );
    }
    (!ports.is_empty()).then(|| {
        let ports = ports.iter().map(|(protocol, number)| format!("{protocol} {number}"));
        let detail = format!(
            "not tested: pods of the other members must reach the pods of this cluster at {}",
            join(ports, ", ")
        );
        let fix = "route the pod networks to each other, and allow these ports in the security groups of pods and nodes";
        Check::note("network", detail, fix)
    })
}

/// Checks in Cloud Map the number of records of the clusterset, and whether AWS's controller also registers instances.
fn check_registry(joined: &JoinedCluster<'_>, registry: &Registry, checks: &mut Vec<Check>) {
    let member = &joined.member;
    let name = record::namespace(&member.clusterset);
    let is_of_records =
        |id: &String| registry.namespaces.get(id).is_some_and(|namespace| namespace.name == name);
    if registry.namespaces.keys().any(is_of_records) {
        let services = registry.services.iter();
        let records = services.filter(|(key, _)| is_of_records(&key.namespace));
        checks.push(check_room(&name, records.map(|(_, service)| service.instance_total()).sum()));
    }
    let all = members::clustersets(registry);
    let view = all.get(&member.clusterset).and_then(|members| members.get(&member.cluster));
    if let Some(view) = view.filter(|view| view.aws_instances > 0) {
        let detail = format!(
            "{} under the cluster id {} without our marks: AWS's controller registered them, or another program",
            count(view.aws_instances, "instance"),
            member.cluster
        );
        let fix = "if AWS's controller still runs in this cluster, stop one of the two: it deregisters every instance that it did not make";
        checks.push(Check::note("clusterset", detail, fix));
    }
}

fn check_room(namespace: &str, records: usize) -> Check {
    let detail = format!(
        "{namespace} has {} of all members; the default quota of a namespace is {DEFAULT_NAMESPACE_QUOTA}",
        count(records, "record")
    );
    if records * 10 < DEFAULT_NAMESPACE_QUOTA * 9 {
        return Check::ok("quota", detail);
    }
    let fix = "check \"instances per namespace\" of this account in Service Quotas, and request an increase: without room a new export is held back";
    Check::note("quota", detail, fix)
}

const RIGHTS_FIX: &str =
    "kubectl apply -k deploy/multi-cluster, and name its group cloud-map-sync in the access entry";

/// Lists all rights that a direction needs.
fn needed_rights(direction: MultiCluster, has_properties: bool) -> Vec<access::Rights> {
    let exports = access::TO_EXPORT.into_iter().filter(|_| direction.exports());
    let imports = access::TO_IMPORT.into_iter().filter(|_| direction.imports());
    let properties =
        [members::CLUSTER_PROPERTY, members::CLUSTERSET_PROPERTY].map(access::cluster_property);
    let properties = properties.into_iter().filter(|_| has_properties);
    exports.chain(imports).chain(properties).collect()
}

/// Checks which DNS servers the pods use. The function reads neither nodes nor ConfigMaps, so it checks the endpoints
/// of kube-system/kube-dns, and Auto Mode in EKS's description of the cluster.
async fn check_coredns(connection: &Connection) -> Check {
    let service = ServiceRef { namespace: "kube-system".to_owned(), name: "kube-dns".to_owned() };
    let services = BTreeSet::from([service]);
    let read = connection.kubernetes.endpoints(&services, slice_lists(&services)).await;
    let has_coredns = match read {
        Ok(read) => read.values().any(|endpoints| !endpoints.all.is_empty()),
        Err(error) => {
            return Check::note(COREDNS, format!("not tested: {}", chain(&error)), TRY_AGAIN);
        }
    };
    match (connection.cluster.is_auto_mode, has_coredns) {
        (false, true) => {
            Check::ok(COREDNS, "CoreDNS runs in the cluster; its Corefile is not read")
        }
        (false, false) => {
            let detail = "kube-system/kube-dns has no endpoints: no CoreDNS of the cluster answers for clusterset.local";
            Check::note(COREDNS, detail, "docs/multi-cluster.md, step 4 of \"Set up\"")
        }
        (true, false) => {
            let detail = "EKS Auto Mode answers DNS on its nodes by a CoreDNS that cannot be configured, and the cluster has no CoreDNS of its own: no pod can look up clusterset.local";
            Check::note(COREDNS, detail, AUTO_MODE_FIX)
        }
        (true, true) => {
            let detail = "pods on nodes of EKS Auto Mode use the CoreDNS of their node, which cannot be configured: only pods on other nodes can look up clusterset.local";
            Check::note(COREDNS, detail, AUTO_MODE_FIX)
        }
    }
}

const COREDNS: &str = "coredns";
const AUTO_MODE_FIX: &str = "docs/multi-cluster.md, section \"EKS Auto Mode\"";

const ADMISSION: &str = "admission";
const ADMISSION_FIX: &str = "kubectl apply -k deploy/multi-cluster (Kubernetes 1.30 or newer), and name its group cloud-map-sync in the access entry";
const NOT_IN_FORCE: &str = "the API server lets the function write Services, EndpointSlices and ServiceImports of others: the policy of deploy/multi-cluster is not in force for it";
const PROBE_NAMESPACE: &str = "default";
const PROBE: &str = "cloud-map-sync-doctor";

/// Checks whether the admission policy is in force for the function's identity.
async fn check_admission(kubernetes: &Kubernetes) -> Check {
    match is_foreign_import_refused(kubernetes).await {
        Ok(true) => Check::ok(ADMISSION, "the API server keeps the function to its own objects"),
        Ok(false) => Check::note(ADMISSION, NOT_IN_FORCE, ADMISSION_FIX),
        Err(error) => {
            Check::note(ADMISSION, format!("not tested: {}", chain(&error)), ADMISSION_FIX)
        }
    }
}

/// Whether the policy refuses the creation of a ServiceImport without the function's label. A refusal because the
/// policy excludes the namespace counts too.
async fn is_foreign_import_refused(kubernetes: &Kubernetes) -> Result<bool, Error> {
    let object = ObjectRef {
        kind: Kind::ServiceImport,
        namespace: PROBE_NAMESPACE.to_owned(),
        name: PROBE.to_owned(),
    };
    let unlabelled = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": { "namespace": PROBE_NAMESPACE, "name": PROBE },
        "spec": { "type": "ClusterSetIP", "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    match kubernetes.try_creation(&object, &unlabelled).await {
        Ok(()) => Ok(false),
        Err(error) if error.is_denied(OWNER_LABEL) || error.is_denied(EXCLUDED) => Ok(true),
        Err(error) => Err(error),
    }
}
