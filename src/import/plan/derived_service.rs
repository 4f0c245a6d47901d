//! The derived Service: a Service without selector whose cluster IPs are the virtual IPs of an import of type
//! `ClusterSetIP`. It is never recreated while the import has that type, since its IPs would change. A change goes
//! through a transition spec while both former and new ports are in use, and then to the final spec.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::change::{self, Change, Content, Kind, ObjectRef, Stage};
use super::input::PlanInput;
use super::present_objects::{DerivedService, Metadata, ServiceSpec, Texts};
use super::refused::{self, REFUSED};
use crate::clusterset::id;
use crate::model::{
    ClustersetService, ExportedPort, Family, ImportType, Properties, SessionAffinity, join,
};

/// The derived Service of an import.
pub(super) struct Derived {
    pub name: String,
    /// The families of the import's IPs, in their order. Empty if the cluster has none of the exported families. An
    /// existing Service then stays for the clients that use its IPs.
    pub families: Vec<Family>,
    /// The import's IPs that a Service without IPs requests, in the order of its families.
    kept_ips: Vec<IpAddr>,
    /// The former names of renamed ports, by their new names. A port keeps its former name until the end of the
    /// transition.
    pub(super) former_names: BTreeMap<String, String>,
    /// The spec while both former and new ports are in use.
    transition: ServiceSpec,
    /// The final spec. Its families are those of the Service's cluster IPs, and include those of the import.
    pub(super) final_spec: ServiceSpec,
}

impl Derived {
    /// Plans the derived Service. Returns `None` if the import needs none.
    pub(super) fn of(input: &PlanInput<'_>, service: &ClustersetService) -> Option<Self> {
        if service.kind == ImportType::Headless {
            return None;
        }
        let present = input.present.derived.as_ref();
        let families = families_of_import(input, service, present);
        if families.is_empty() && present.is_none() {
            return None;
        }
        // A Service that has lost its IPs is always changed: it has no families, and the slices need them.
        let stays_unchanged =
            |present: &&DerivedService| input.keeps_service_unchanged() && !has_lost_ips(present);
        let final_spec = match present.filter(stays_unchanged) {
            Some(present) => present.spec.clone(),
            None => new_final_spec(service, &families, present),
        };
        let transition = present
            .map_or_else(|| final_spec.clone(), |present| transition(&present.spec, &final_spec));
        let former_names = service.ports.iter().filter_map(|port| {
            let former = find(&transition.ports, port)?;
            (former.name != port.name).then(|| (port.name.clone(), former.name.clone()))
        });
        let former_names = former_names.collect();
        let name = id::derived_service(input.service);
        let kept_ips = kept_ips(input, &final_spec.families);
        Some(Self { name, families, kept_ips, former_names, transition, final_spec })
    }

    /// Returns the import's IPs, or `None` if the API server assigns some of them in this run.
    pub(super) fn known_ips(&self, input: &PlanInput<'_>) -> Option<Vec<IpAddr>> {
        let present = input.present.derived.as_ref().filter(|present| !has_lost_ips(present));
        let Some(present) = present else {
            let are_complete = self.kept_ips.len() == self.families.len();
            return are_complete.then(|| self.kept_ips.clone());
        };
        let is_assigned = |family: &Family| present.spec.families.contains(family);
        let ips = || present.ips_of(&self.families);
        self.families.iter().all(is_assigned).then(ips)
    }

    /// Returns the creation, or a patch with the additions and a patch with the removals.
    pub(super) fn changes(&self, input: &PlanInput<'_>) -> Vec<Change> {
        let object = || input.object(Kind::Service, &self.name);
        let labels = input.owner.label();
        let refused = refused::annotation(input, Kind::Service);
        let annotations =
            refused.map(|refused| (REFUSED.to_owned(), refused)).into_iter().collect();
        let wanted = Metadata { labels, annotations, ..Metadata::default() };
        let Some(present) = &input.present.derived else {
            return vec![self.creation(object(), &wanted)];
        };
        let before = Metadata {
            labels: change::only(
                &present.metadata.labels,
                wanted.labels.keys().map(String::as_str),
            ),
            annotations: change::only(&present.metadata.annotations, [REFUSED]),
            ..Metadata::default()
        };
        let [before, transition, final_spec] = [
            json_of(&before, &present.spec),
            json_of(&wanted, &self.transition),
            json_of(&wanted, &self.final_spec),
        ];
        let difference = |from, to| change::difference(from, to).unwrap_or_default();
        let owners = change::owners(&present.metadata, input.import());
        let mut body = difference(&before, &transition);
        if has_lost_ips(present) && !input.keeps_service_unchanged() {
            self.request_ips(&mut body);
        }
        let additions = Content { body, owners, ips: None };
        let removals = Content::new(difference(&transition, &final_spec));
        let stages = [(Stage::AddPorts, additions), (Stage::RemovePorts, removals)].into_iter();
        stages.filter_map(|(stage, content)| Change::patch(stage, object(), content)).collect()
    }

    fn creation(&self, object: ObjectRef, metadata: &Metadata) -> Change {
        let mut body = json_of(metadata, &self.final_spec);
        self.request_ips(&mut body);
        let ports = &self.final_spec.ports;
        let families = &self.final_spec.families;
        let detail = format!("{}, {}", join(families, " "), change::describe_ports(ports));
        change::creation(Stage::AddPorts, object, body, detail)
    }

    fn request_ips(&self, body: &mut Value) {
        if let Some(primary) = self.kept_ips.first() {
            // Both fields are set, since the API server does not fill in one from the other.
            body["spec"]["clusterIP"] = json!(primary);
            body["spec"]["clusterIPs"] = json!(self.kept_ips);
        }
    }
}

/// Whether another writer removed the IPs from the Service by giving it the type `ExternalName`.
fn has_lost_ips(present: &DerivedService) -> bool {
    present.spec.kind == "ExternalName"
}

/// Returns the IPs of the import that a new derived Service requests, since clients may still use them.
fn kept_ips(input: &PlanInput<'_>, families: &[Family]) -> Vec<IpAddr> {
    let ips = input.import().map(|import| import.ips.as_slice()).unwrap_or_default();
    let find_ip = |family: &Family| ips.iter().find(|ip| Family::of(**ip) == *family).copied();
    families.iter().map_while(find_ip).take(input.max_kept_ips).collect()
}

/// The deletion of a derived Service of ours that no import uses.
pub(super) fn deletion(input: &PlanInput<'_>) -> Option<Change> {
    let present = input.present.derived.as_ref()?;
    let is_removable = input.owner.owns(&present.metadata) && !present.metadata.is_terminating;
    let object = input.object(Kind::Service, &present.metadata.name);
    is_removable.then(|| Change::deletion(object, "no import uses it"))
}

// The specs of a derived Service: the final one and the transition to it. The API server refuses duplicate port names
// and numbers, and a change of the primary family, so both specs are made from the present Service and the merged
// exports.

/// Returns the families of the merged service that the cluster or the present Service has. If no export names its
/// families, these are the families of the present Service. Without a present Service they are the cluster's primary
/// family, the default of any Service.
fn families_of_import(
    input: &PlanInput<'_>,
    service: &ClustersetService,
    present: Option<&DerivedService>,
) -> Vec<Family> {
    let present = present.map(|present| present.spec.families.as_slice()).unwrap_or_default();
    let available = with_others(present, input.available);
    let wanted = match service.families.as_slice() {
        [] if present.is_empty() => available.get(..1).unwrap_or_default(),
        [] => present,
        families => families,
    };
    wanted.iter().filter(|family| available.contains(family)).copied().collect()
}

/// Returns the final spec. The primary family of a Service cannot be changed, so it stays first.
fn new_final_spec(
    service: &ClustersetService,
    families: &[Family],
    present: Option<&DerivedService>,
) -> ServiceSpec {
    let own = present.map(|present| present.spec.families.as_slice()).unwrap_or_default();
    let present_ports = present.map(|present| present.spec.ports.as_slice()).unwrap_or_default();
    let is_present = are_same(present_ports, &service.ports);
    let kept = if families.is_empty() { own } else { own.get(..1).unwrap_or_default() };
    let families = with_others(kept, families);
    let affinity = service.properties.session_affinity;
    let session_affinity = match affinity {
        SessionAffinity::ClientIp(_) => SessionAffinity::ClientIp(affinity.timeout()),
        SessionAffinity::None => affinity,
    };
    ServiceSpec {
        kind: "ClusterIP".to_owned(),
        selector: Texts::new(),
        ports: if is_present { present_ports.to_vec() } else { service.ports.clone() },
        family_policy: Some(policy_for(&families).to_owned()),
        families,
        external_ips: Vec::new(),
        properties: Properties { session_affinity, ..service.properties.clone() },
    }
}

fn policy_for(families: &[Family]) -> &'static str {
    if families.len() > 1 { "PreferDualStack" } else { "SingleStack" }
}

fn with_others(first: &[Family], others: &[Family]) -> Vec<Family> {
    let new = others.iter().filter(|family| !first.contains(family));
    first.iter().chain(new).copied().collect()
}

/// Returns the final spec, with the present ports and families added.
fn transition(present: &ServiceSpec, final_spec: &ServiceSpec) -> ServiceSpec {
    let families = with_others(&present.families, &final_spec.families);
    ServiceSpec {
        ports: ports_in_transition(&present.ports, &final_spec.ports),
        family_policy: Some(policy_for(&families).to_owned()),
        families,
        ..final_spec.clone()
    }
}

/// Returns the present ports under their present names, and the new ports. A Service cannot have a duplicate name, a
/// duplicate pair of protocol and number, or an unnamed port beside others.
fn ports_in_transition(present: &[ExportedPort], last: &[ExportedPort]) -> Vec<ExportedPort> {
    let mut ports: Vec<ExportedPort> = present.to_vec();
    for port in &mut ports {
        if let Some(last) = find(last, port) {
            port.app_protocol.clone_from(&last.app_protocol);
        }
    }
    let is_new = |port: &&ExportedPort| {
        find(present, port).is_none() && present.iter().all(|other| other.name != port.name)
    };
    let new: Vec<ExportedPort> = last.iter().filter(is_new).cloned().collect();
    let has_unnamed = ports.iter().chain(&new).any(|port| port.name.is_empty());
    if ports.is_empty() || !has_unnamed {
        ports.extend(new);
    }
    if are_same(&ports, last) { last.to_vec() } else { ports }
}

/// Whether two lists contain the same ports. Their order does not matter.
fn are_same(ports: &[ExportedPort], others: &[ExportedPort]) -> bool {
    ports.len() == others.len() && ports.iter().all(|port| others.contains(port))
}

/// The port with the same protocol and number.
fn find<'a>(ports: &'a [ExportedPort], like: &ExportedPort) -> Option<&'a ExportedPort> {
    ports.iter().find(|port| (port.protocol, port.number) == (like.protocol, like.number))
}

fn json_of(Metadata { labels, annotations, .. }: &Metadata, spec: &ServiceSpec) -> Value {
    // Includes empty maps: a patch from a map to no map would remove the labels and annotations of other writers.
    let metadata = json!({"labels": labels, "annotations": annotations});
    json!({"metadata": metadata, "spec": change::without_empty(json!(spec))})
}
