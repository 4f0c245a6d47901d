//! `OWNER_ID` was changed: what stands there is another owner's until `adopt` takes it over, IPs and all.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use super::in_the_way::{LEFT, leave_unnamed, left_of};
use super::{
    ClusterIp, DERIVED, MANAGED_BY, Members, SLICES, exported, imported, in_full, part, pods, web,
};
use crate::fleet::OWNER;
use crate::run::{report, sync, synced};
use testbed::kubernetes::{KubernetesServer, Policy};

const NEW: &str = "team-b";

/// The Cloud Map services of the endpoints and of the records.
const PLACES: [(&str, &str); 3] =
    [("shop", "web"), ("clusterset.shop-set", "blue"), ("clusterset.shop-set", "green")];

/// Both export `web`, under the former `OWNER_ID`; the function has another one now.
struct Renamed {
    members: Members,
    function: Function,
    /// The objects of the imports before, without their labels and versions.
    before: Vec<Value>,
}

impl Renamed {
    async fn start() -> Self {
        Self::with(web()).await
    }

    async fn with(web: ClusterIp) -> Self {
        let members = Members::start().await;
        exported(&members.blue, web.clone(), &["10.0.0.1"]);
        exported(&members.green, web, &["10.1.0.1"]);
        members.converge().await;
        let cloud_map = &members.fleet.cloud_map;
        let arns = ["blue", "green"].map(|cluster| members.fleet.sandbox.cluster_arn(cluster));
        cloud_map.watch_over(NEW, &arns);
        for cluster in members.clusters() {
            cluster.enforce_admission(Some(Policy::default()));
            cluster.keep_ready("shop", "web");
        }
        let function = members.serving("blue,green", &[("OWNER_ID", NEW)]).await;
        let mut renamed = Self { members, function, before: Vec::new() };
        renamed.before = renamed.specs();
        renamed.members.forget();
        renamed
    }

    fn objects(&self) -> Vec<Value> {
        let ours = |cluster: &KubernetesServer, plural| cluster.objects(plural, "shop").into_iter();
        let all = ["serviceimports", "services", "endpointslices"];
        let all =
            self.members.clusters().into_iter().flat_map(|it| all.map(|plural| ours(it, plural)));
        let labelled = |it: &Value| !it["metadata"]["labels"]["cloud-map-sync/owner"].is_null();
        all.flatten().filter(labelled).collect()
    }

    fn specs(&self) -> Vec<Value> {
        let spec = |it: Value| json!([it["metadata"]["uid"], it["spec"], it["endpoints"]]);
        self.objects().into_iter().map(spec).collect()
    }

    fn assert_adopted(&self) {
        let label = |it: &Value| it["metadata"]["labels"]["cloud-map-sync/owner"].clone();
        assert!(self.objects().iter().all(|it| label(it) == NEW));
        assert_eq!(self.specs(), self.before);
        for (place, service) in PLACES {
            let owners = self.members.fleet.values(place, service, "cloud-map-sync/exporter");
            assert_eq!(owners, [NEW; 2], "{service}");
        }
    }

    fn allow(&self) {
        let fleet = &self.members.fleet;
        let services = PLACES.map(|(place, name)| fleet.cloud_map.service_id(place, name));
        fleet.allow_adoption_in(&services, |_, _| true);
    }

    async fn adopt(&self, confirm: bool) -> Report {
        let payload = json!({ "action": "adopt", "owner": OWNER, "confirm": confirm });
        report(&self.function, &payload).await
    }

    async fn assert_settled(&self) {
        self.members.forget();
        let report = sync(&self.function).await;
        self.members.assert_nothing_written(&in_full(&report));
    }

    async fn assert_goes_on(&self) {
        synced(&self.function).await;
        self.assert_settled().await;
        assert_eq!(self.specs(), self.before);
        pods(&self.members.blue, "web", &["10.0.0.2"]);
        sync(&self.function).await;
        assert_eq!(imported(&self.members.green, "web"), "blue 10.0.0.2:8080, green 10.1.0.1:8080");
        assert_eq!(self.members.fleet.addresses("shop", "web"), ["10.0.0.2", "10.1.0.1"]);
        assert!(self.members.clusters().iter().all(|it| it.gaps().is_empty()));
    }
}

#[tokio::test]
async fn until_the_adoption_nothing_is_changed_and_the_line_is_the_adopt() {
    let renamed = Renamed::start().await;
    let report = sync(&renamed.function).await;
    renamed.members.assert_nothing_written(&in_full(&report));
    for cluster in ["blue", "green"] {
        let part = part(&report, cluster);
        assert!(part.held_back.is_empty(), "{}", in_full(&report));
        let adopt = format!("{{\"action\":\"adopt\",\"owner\":\"{OWNER}\"}}");
        for obstacle in &part.obstacles {
            assert!(obstacle.detail.contains(&adopt), "{}", obstacle.detail);
            assert!(!obstacle.detail.contains("kubectl delete"), "{}", obstacle.detail);
            assert!(!obstacle.detail.contains("purge"), "{}", obstacle.detail);
        }
        assert!(!part.obstacles.is_empty(), "{}", in_full(&report));
    }
}

#[tokio::test]
async fn adoption_is_shown_first_and_keeps_every_ip_and_endpoint() {
    let renamed = Renamed::start().await;
    renamed.allow();

    let planned = renamed.adopt(false).await;

    renamed.members.assert_nothing_written(&in_full(&planned));
    // An instance, its record and that of the cluster in both; an import, a Service and two slices in both.
    assert_eq!((planned.counts.adopted, planned.counts.imported), (6, 8), "{planned}");
    let adopted = renamed.adopt(true).await;
    assert!(adopted.ok, "{}", in_full(&adopted));
    renamed.assert_adopted();
    renamed.assert_goes_on().await;
}

#[tokio::test]
async fn adoption_that_is_cut_short_is_finished_by_a_second_one() {
    let renamed = Renamed::start().await;
    renamed.allow();
    let cloud_map = &renamed.members.fleet.cloud_map;
    cloud_map.deny("RegisterInstance");
    assert!(!renamed.adopt(true).await.ok);
    cloud_map.heal();
    renamed.members.green.refuse_method("PATCH", SLICES, 403);
    let half = renamed.adopt(true).await;
    assert!(!half.ok, "{}", in_full(&half));

    let synced = sync(&renamed.function).await;

    assert_eq!(renamed.specs(), renamed.before, "{}", in_full(&synced));
    renamed.members.green.clear_faults();
    let adopted = renamed.adopt(true).await;
    assert!(adopted.ok, "{}", in_full(&adopted));
    renamed.assert_adopted();
    renamed.assert_goes_on().await;
}

#[tokio::test]
async fn what_is_left_of_an_import_that_nothing_names_is_adopted() {
    for (left, count) in LEFT {
        let renamed = Renamed::start().await;
        renamed.allow();
        let green = &renamed.members.green;
        leave_unnamed(green, "web", left);
        let before = left_of(green, OWNER);

        let report = renamed.adopt(true).await;

        assert_eq!((before.len(), left_of(green, NEW)), (count, before), "{}", in_full(&report));
        let report = sync(&renamed.function).await;
        let web = "blue 10.0.0.1:8080, green 10.1.0.1:8080";
        assert_eq!(imported(green, "web"), web, "{}", in_full(&report));
        renamed.assert_settled().await;
    }
}

/// It refuses every patch of a Service with a value that it took before, also that of a label.
#[tokio::test]
async fn imports_are_adopted_in_a_cluster_whose_api_server_was_downgraded() {
    let zonal = web().spec("trafficDistribution", "PreferSameZone");
    let mut renamed = Renamed::with(zonal).await;
    renamed.members.green.set_minor_version(32);
    renamed.allow();

    let report = renamed.adopt(true).await;

    assert!(report.ok, "{}", in_full(&report));
    let service = renamed.members.green.service_object("shop", DERIVED).expect("a Service");
    assert_eq!(service["spec"]["trafficDistribution"], Value::Null);
    renamed.before = renamed.specs();
    renamed.assert_adopted();
    renamed.assert_goes_on().await;
}

/// The admission policy lets the function change only what an import consists of.
#[tokio::test]
async fn objects_that_a_person_edited_are_adopted_as_an_import_has_them() {
    let renamed = Renamed::start().await;
    renamed.allow();
    let [blue, green] = renamed.members.clusters();
    let slice = || {
        let mut slices = blue.objects("endpointslices", "shop").into_iter();
        let is_imported = |it: &Value| it["metadata"]["name"].to_string().contains("imported-");
        slices.find(is_imported).expect("a slice")
    };
    let service = || green.service_object("shop", DERIVED).expect("a Service");
    let mut edited = slice();
    edited["metadata"]["labels"].as_object_mut().expect("labels").remove(MANAGED_BY);
    blue.put(edited);
    let mut edited = service();
    edited["spec"]["selector"] = json!({ "app": "other" });
    green.put(edited);

    let report = renamed.adopt(true).await;

    assert!(report.ok, "{}", in_full(&report));
    let label = |it: &Value, key: &str| it["metadata"]["labels"][key].clone();
    assert_eq!(label(&slice(), MANAGED_BY), OWNER);
    for object in [slice(), service()] {
        assert_eq!(label(&object, "cloud-map-sync/owner"), NEW);
    }
    assert_eq!(service()["spec"]["selector"], Value::Null);
}
