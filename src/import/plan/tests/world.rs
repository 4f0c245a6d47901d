//! The input of a plan beside the objects: the exports of the clusters blue (the importer's own), green and red.

use std::collections::BTreeSet;
use std::fmt;
use std::iter::once;
use std::sync::Arc;

use serde_json::Value;

use super::cluster::Cluster;
use crate::import::plan::{
    FailedWrite, ImportedEndpoint, Kind, MemberEndpoints, NamespaceState, NoteChange, ObjectRef,
    OwnerLabel, Plan, PlanInput, PortKey, Present, Read, Sources, Stage, change, plan,
};
use crate::model::{
    ClusterId, ClustersetService, ExportedPort, Family, ImportType, Properties, Protocol,
    RefusedField, ServiceRef, Timestamp, join,
};

pub const BOTH: [Family; 2] = [Family::V4, Family::V6];

#[derive(Clone)]
pub struct World {
    pub owner: OwnerLabel,
    pub importer: ClusterId,
    pub available: Vec<Family>,
    pub refused: BTreeSet<RefusedField>,
    pub crd_has_slice_objects: bool,
    pub service: ServiceRef,
    pub namespace: NamespaceState,
    pub merged: Option<ClustersetService>,
    pub sources: Sources,
    pub failures: Vec<FailedWrite>,
    pub note: NoteChange,
    pub max_kept_ips: usize,
    pub now: Timestamp,
}

impl World {
    /// An import of type `ClusterSetIP` in IPv4 with these ports, which no cluster exports yet.
    pub fn with_ports(ports: &str) -> Self {
        let service = ServiceRef::new("shop", "web");
        let merged = ClustersetService {
            service: service.clone(),
            kind: ImportType::ClusterSetIp,
            ports: self::ports(ports),
            families: vec![Family::V4],
            properties: Properties::default(),
            clusters: Vec::new(),
        };
        Self {
            owner: OwnerLabel::new("cloud-map-sync"),
            importer: cluster("blue"),
            available: BOTH.to_vec(),
            refused: BTreeSet::new(),
            crd_has_slice_objects: true,
            service,
            namespace: NamespaceState::Active,
            merged: Some(merged),
            sources: Sources { is_complete: true, is_read: true, ..Sources::default() },
            failures: Vec::new(),
            note: NoteChange::Keep,
            max_kept_ips: usize::MAX,
            now: "2026-11-01T12:00:00.5Z".parse().expect("a time"),
        }
    }

    /// A cluster exports with these endpoints, which serve all ports.
    pub fn exported(mut self, name: &str, addresses: &str) -> Self {
        let ports: Vec<ExportedPort> = self.merged_mut().ports.clone();
        self.export(name, addresses.split_whitespace().map(|it| endpoint(it, &ports)).collect());
        self
    }

    pub fn export(&mut self, name: &str, endpoints: Vec<ImportedEndpoint>) {
        let clusters = &mut self.merged_mut().clusters;
        clusters.push(cluster(name));
        clusters.sort();
        clusters.dedup();
        let endpoints = MemberEndpoints {
            endpoints: endpoints.into(),
            shares_zones: name == "blue",
            is_read_in_cluster: true,
            ..MemberEndpoints::default()
        };
        self.sources.by_cluster.insert(cluster(name), Read::Whole(endpoints));
    }

    /// A cluster was read whole and exports nothing.
    pub fn unexported(mut self, name: &str) -> Self {
        let none = MemberEndpoints { is_read_in_cluster: true, ..MemberEndpoints::default() };
        self.sources.by_cluster.insert(cluster(name), Read::Whole(none));
        self.remove_exporter(name);
        self
    }

    /// A cluster was not read.
    pub fn unread(mut self, name: &str) -> Self {
        self.sources.by_cluster.insert(cluster(name), Read::Unread);
        self.remove_exporter(name);
        self
    }

    pub fn headless(mut self) -> Self {
        self.merged_mut().kind = ImportType::Headless;
        self
    }

    pub fn families(mut self, families: &[Family]) -> Self {
        self.merged_mut().families = families.to_vec();
        self
    }

    pub fn merged_mut(&mut self) -> &mut ClustersetService {
        self.merged.as_mut().expect("a merged service")
    }

    pub fn endpoints_mut(&mut self, name: &str) -> &mut Vec<ImportedEndpoint> {
        match self.sources.by_cluster.get_mut(&cluster(name)) {
            Some(Read::Whole(member)) => Arc::make_mut(&mut member.endpoints),
            _ => panic!("{name} was not read"),
        }
    }

    /// The names of the ports of a cluster's own Service.
    pub fn name_ports(&mut self, name: &str, ports: &str) {
        if let Some(Read::Whole(member)) = self.sources.by_cluster.get_mut(&cluster(name)) {
            let names = self::ports(ports).into_iter();
            let names = names.map(|port| ((port.protocol, port.number), port.name));
            member.port_names = Arc::new(names.collect());
        }
    }

    fn remove_exporter(&mut self, name: &str) {
        if let Some(merged) = &mut self.merged {
            merged.clusters.retain(|it| it.as_str() != name);
        }
        self.merged = self.merged.take().filter(|merged| !merged.clusters.is_empty());
    }

    pub fn input<'a>(&'a self, present: &'a Present) -> PlanInput<'a> {
        PlanInput {
            owner: &self.owner,
            importer: &self.importer,
            available: &self.available,
            refused: &self.refused,
            server: Some("1.32"),
            crd_has_slice_objects: self.crd_has_slice_objects,
            service: &self.service,
            namespace: self.namespace,
            merged: self.merged.as_ref(),
            sources: &self.sources,
            present,
            failures: &self.failures,
            note: &self.note,
            max_kept_ips: self.max_kept_ips,
            now: self.now,
        }
    }

    pub fn plan(&self, cluster: &Cluster) -> Plan {
        plan(&self.input(&cluster.present()))
    }

    /// Plans, carries the plan out, and plans again, which must change nothing.
    pub fn sync(&self, cluster: &mut Cluster) -> Plan {
        let plan = self.plan(cluster);
        cluster.carry_out(&plan, |_| {});
        if cluster.present().import.is_some() {
            assert_eq!(self.plan(cluster).changes, [], "after\n{}", described(&plan));
        }
        plan
    }

    /// The lines of a sync.
    pub fn synced(&self, cluster: &mut Cluster) -> String {
        described(&self.sync(cluster))
    }

    /// The lines of a plan.
    pub fn planned(&self, cluster: &Cluster) -> String {
        described(&self.plan(cluster))
    }
}

/// Shows the parts that differ among random worlds, for a person who reads a failure.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.merged {
            Some(merged) => {
                let ports = change::describe_ports(&merged.ports);
                let families = join(&merged.families, " ");
                write!(f, "{} {ports} {families}", merged.kind.as_str())?;
            }
            None => f.write_str("no export")?,
        }
        write!(f, ", available {}", join(&self.available, " "))?;
        for (cluster, read) in &self.sources.by_cluster {
            write!(f, "; {cluster}:")?;
            match read {
                Read::Unread => f.write_str(" unread")?,
                Read::Whole(member) | Read::Held(member) => {
                    for ImportedEndpoint { address, ready, ports, .. } in member.endpoints.iter() {
                        let ports = ports.iter().map(|((_, port), to)| format!("{port}->{to}"));
                        let ports = ports.collect::<Vec<_>>().join(",");
                        write!(f, " {address}({ports}{})", if *ready { "" } else { " not ready" })?;
                    }
                }
            }
        }
        write!(f, "{}", if self.sources.is_complete { "" } else { "; perhaps more" })
    }
}

pub fn described(plan: &Plan) -> String {
    let changes = plan.changes.iter().map(|change| change.to_string().replace(" shop/", " "));
    let held_back = plan.held_back.iter().map(|it| format!("! {}: {it}", it.code()));
    let lines: Vec<String> = changes.chain(held_back).collect();
    if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n") }
}

/// The failure of a change of an object of the import of `web`.
pub fn failed(kind: Kind, name: &str, stage: Stage, message: &str) -> FailedWrite {
    let object = ObjectRef { kind, namespace: "shop".to_owned(), name: name.to_owned() };
    FailedWrite { object, stage, message: message.to_owned(), is_denied: false }
}

pub fn cluster(name: &str) -> ClusterId {
    ClusterId::parse(name).expect("a cluster id")
}

/// Ports as `http:80 udp!dns:53 :443`.
pub fn ports(text: &str) -> Vec<ExportedPort> {
    let port = |text: &str| {
        let (protocol, text) = match text.split_once('!') {
            Some((protocol, text)) => (Protocol::parse(&protocol.to_uppercase()), text),
            None => (Some(Protocol::Tcp), text),
        };
        let (name, number) = text.split_once(':').expect("a name and a number");
        ExportedPort {
            name: name.to_owned(),
            protocol: protocol.expect("a protocol"),
            number: number.parse().expect("a number"),
            app_protocol: None,
        }
    };
    text.split_whitespace().map(port).collect()
}

/// An endpoint whose target ports are the ports plus 8000.
pub fn endpoint(address: &str, ports: &[ExportedPort]) -> ImportedEndpoint {
    let target = |port: &ExportedPort| -> (PortKey, u16) {
        ((port.protocol, port.number), port.number + 8000)
    };
    ImportedEndpoint {
        address: address.parse().expect("an address"),
        ready: true,
        is_leaving: false,
        hostname: None,
        node: None,
        zone: None,
        ports: ports.iter().map(target).collect(),
    }
}

/// This many addresses after `first`, separated by spaces.
pub fn many(first: usize, count: usize) -> String {
    let address = |number: usize| format!("10.1.{}.{}", number / 250, number % 250 + 1);
    let texts: Vec<String> = (first..first + count).map(address).collect();
    texts.join(" ")
}

/// The fields of an object, a line for each, those of its metadata, spec and status by their own names.
pub fn fields(object: &Value) -> String {
    let sections = object.as_object().expect("an object").iter();
    let lines = sections.flat_map(|(section, value)| match value.as_object() {
        Some(fields) => fields.iter().map(|(key, it)| format!("{section}.{key} {it}")).collect(),
        None => vec![format!("{section} {value}")],
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A cluster after a sync of this world.
pub fn after(world: &World) -> Cluster {
    let mut cluster = Cluster::default();
    world.sync(&mut cluster);
    cluster
}

/// The slices with the addresses of their endpoints.
pub fn slices(cluster: &Cluster) -> String {
    let present = cluster.present();
    let lines = present.slices.iter().map(|slice| {
        let addresses = slice.endpoints.iter().flat_map(|it| it.addresses.texts());
        let texts: Vec<String> =
            once(format!("{}:", slice.metadata.name)).chain(addresses).collect();
        texts.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}
