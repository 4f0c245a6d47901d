//! A clusterset in which every member exports the same Services, all read by one invocation: Cloud Map has the records
//! and the instances, and each member's exports stand in place of them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use cloud_map_sync::clusterset::members::{ReadClusterset, Served};
use cloud_map_sync::clusterset::record::{self, ClusterRecord, ExportRecord};
use cloud_map_sync::clusterset::{attributes, attributes::endpoints_of, id};
use cloud_map_sync::model::attributes::Marks;
use cloud_map_sync::model::{
    Attributes, CloudMapService, ClusterArn, ClusterId, ClustersetId, Desired, Endpoint, Export,
    ExportedPort, ExportedService, Family, Flow, ImportType, Member, Namespace, NamespaceKind,
    Owner, Properties, Protocol, PublishedService, ReadExports, Registry, Selection, ServiceKey,
    ServiceKind, ServiceRef, Timestamp,
};

pub const NAMESPACES: [&str; 4] = ["one", "two", "three", "four"];

/// All that its members import.
pub struct Clusterset {
    pub id: ClustersetId,
    pub members: Vec<(Member, ClusterArn)>,
    pub read: ReadClusterset,
    pub served: Served,
}

impl Clusterset {
    pub fn new(members: usize, exports: usize, endpoints: usize) -> Self {
        let id = ClustersetId::parse("bench").expect("an id");
        let members = (0..members).map(|index| member(index, &id)).collect();
        let served = Served { owner_id: "cloud-map-sync".into(), ..Served::default() };
        let read = ReadClusterset {
            registry: registry(),
            has_all_members: true,
            ..ReadClusterset::default()
        };
        let mut all = Self { id, members, read, served };
        for (index, (member, arn)) in all.members.clone().into_iter().enumerate() {
            let of_member =
                |export: usize| (place(export), service(&member, (index, export), endpoints));
            let services: BTreeMap<ServiceRef, PublishedService> =
                (0..exports).map(of_member).collect();
            all.register(&member, &arn, &services);
            let desired = Desired { services, ..Desired::default() };
            let covers = Selection::Everything;
            all.served.exporters.insert(arn.clone());
            all.served.members.insert(member.cluster.clone(), arn.clone());
            all.served.read.insert(member.cluster, ReadExports { arn, desired, covers });
        }
        all
    }

    /// Adds the records and the instances of a member.
    fn register(
        &mut self,
        member: &Member,
        arn: &ClusterArn,
        services: &BTreeMap<ServiceRef, PublishedService>,
    ) {
        let owner =
            Owner { id: "cloud-map-sync".into(), cluster: arn.clone(), flow: Flow::Exports };
        let of_records = record::namespace(&self.id);
        let records = ServiceRef::new(&of_records, member.cluster.as_str());
        let clusterset = self.id.clone();
        let heartbeat = Timestamp::UNIX_EPOCH;
        let of_cluster =
            ClusterRecord { owner: owner.clone(), clusterset, heartbeat, only_imports: false };
        let of_cluster = of_cluster.write();
        self.add(&records, "cluster".to_owned(), of_cluster);
        for (service, published) in services {
            let exported = published.export.as_ref().expect("an export");
            let export = exported.export.clone();
            let of_record = owner.clone();
            let is_empty = false;
            let record =
                ExportRecord { owner: of_record, service: service.clone(), export, is_empty };
            let written = record.write().expect("a small export");
            self.add(&records, id::export_record(service), written);
            for endpoint in published.read_endpoints() {
                for each in endpoints_of(exported, endpoint, arn.region()) {
                    let mut instance = attributes::write(&exported.export, &self.id, &each);
                    let pod = endpoint.pod.clone();
                    instance.extend(&Marks { service: service.clone(), pod }.write(&owner));
                    self.add(service, format!("tcp-{}", each.address), instance);
                }
            }
        }
    }

    fn add(&mut self, place: &ServiceRef, id: String, attributes: Attributes) {
        let ServiceRef { namespace, name } = place;
        let key = ServiceKey { namespace: format!("ns-{namespace}"), name: name.clone() };
        let empty = || CloudMapService::created(name.clone(), name, ServiceKind::Http);
        let service = self.read.registry.services.entry(key).or_insert_with(empty);
        service.instances.get_or_insert_default().insert(id, attributes);
    }
}

fn member(index: usize, clusterset: &ClustersetId) -> (Member, ClusterArn) {
    let cluster = ClusterId::parse(&format!("c{index}")).expect("an id");
    let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}");
    let arn = ClusterArn::parse(&arn).expect("an ARN");
    (Member { cluster, clusterset: clusterset.clone() }, arn)
}

fn registry() -> Registry {
    let namespaces = NAMESPACES.iter().chain(&["clusterset.bench"]).map(|name| {
        let id = format!("ns-{name}");
        let name = (*name).to_owned();
        let kind = NamespaceKind::Http;
        let arn = None;
        let http_name = Some(name.clone());
        let owner = None;
        (id.clone(), Namespace { id, arn, name, http_name, kind, owner })
    });
    Registry { namespaces: namespaces.collect(), ..Registry::default() }
}

/// Namespace and name of an export.
fn place(export: usize) -> ServiceRef {
    ServiceRef::new(NAMESPACES[export % NAMESPACES.len()], format!("web-{export}"))
}

fn service(member: &Member, place: (usize, usize), endpoints: usize) -> PublishedService {
    let name = "http".to_owned();
    let protocol = Protocol::Tcp;
    let port = ExportedPort { name, protocol, number: 80, app_protocol: None };
    let exported = ExportedService {
        clusterset: member.clusterset.clone(),
        export: Export {
            cluster: member.cluster.clone(),
            created: Timestamp::UNIX_EPOCH,
            kind: ImportType::ClusterSetIp,
            ports: vec![port],
            families: vec![Family::V4],
            properties: Some(Properties::default()),
        },
        targets: BTreeMap::from([("http".to_owned(), "8080".to_owned())]),
        is_of_aws: false,
    };
    let ports = Arc::new(BTreeMap::from([("http".to_owned(), 8080)]));
    let endpoints = (0..endpoints).map(|pod| endpoint(place, pod, &ports)).collect();
    PublishedService {
        uid: String::new(),
        created: 0,
        claims: Err(Vec::new()),
        ports: Vec::new(),
        families: [Family::V4].into(),
        endpoints: Some(endpoints),
        truncated: false,
        left_out: 0,
        unknown_annotations: None,
        export: Some(Arc::new(exported)),
    }
}

fn endpoint(
    (member, export): (usize, usize),
    pod: usize,
    ports: &Arc<BTreeMap<String, u16>>,
) -> Endpoint {
    let number = (member * 1_000 + export) * 100 + pod;
    let address = 0x0a00_0000 + u32::try_from(number).expect("a small world");
    Endpoint {
        pod: Some(format!("web-{export}-{pod}")),
        ipv4: Some(Ipv4Addr::from_bits(address)),
        zone: Some("eu-central-1a".to_owned()),
        node: Some(format!("node-{pod}")),
        ports: Arc::clone(ports),
        ready: true,
        serving: true,
        ..Endpoint::default()
    }
}
