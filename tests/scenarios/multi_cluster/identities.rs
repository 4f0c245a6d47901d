//! The ids of a cluster that are absent, invalid, in disagreement or changed. Nothing is taken away, and other members go
//! on.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::function::Function;
use cloud_map_sync::model::Line;
use cloud_map_sync::report::Report;
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use super::explain::{explain, explain_by};
use super::many::Many;
use super::{
    CLUSTER_ID, Members, RECORD, SLICES, Said, condition, exported, imported, in_full,
    obstacle_lines, obstacles, part, pods, service, slices, web, writes,
};
use crate::fleet::{Attributes, OWNER};
use crate::queue::batch_about;
use crate::run::{purge, report, sync, sync_of, synced};
use testbed::cloud_map::{
    Behaviour, Fault as CloudMapFault, FaultKind as CloudMapFaultKind, NamespaceKind,
};
use testbed::function::invoke;
use testbed::kubernetes::{Fault, FaultKind};

const CLUSTERSET: &str = "clusterset.k8s.io";

impl Members {
    /// Both export: blue `web`, green `cart`.
    pub(super) async fn with_one_export_each() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        exported(&members.green, service("cart"), &["10.1.0.1"]);
        members.converge().await;
        members
    }

    /// The obstacle of blue after a sync in which a pod of green changes, which green imports.
    async fn obstacle_of_blue(&self, clusters: &str) -> (String, String) {
        pods(&self.green, "cart", &["10.1.0.2"]);
        let function = self.serving(clusters, &[]).await;

        let report = sync(&function).await;

        let [obstacle] = obstacle_lines(&report, "blue")[..] else {
            panic!("{}", in_full(&report))
        };
        self.assert_imported("web", "blue 10.0.0.1:8080", &in_full(&report));
        assert_eq!(self.fleet.addresses("shop", "web"), ["10.0.0.1"]);
        assert_eq!(imported(&self.green, "cart"), "green 10.1.0.2:8080");
        assert_eq!(self.fleet.addresses("shop", "cart"), ["10.1.0.2"]);
        (obstacle.code.to_string(), obstacle.text.clone())
    }
}

#[tokio::test]
async fn report_has_the_objects_to_apply_for_a_cluster_without_an_id_or_a_clusterset() {
    for (property, value) in [(CLUSTER_ID, "blue"), (CLUSTERSET, super::CLUSTERSET)] {
        let members = Members::with_one_export_each().await;
        assert!(members.blue.delete("clusterproperties", "", property));
        let (reason, detail) = members.obstacle_of_blue("blue,green").await;
        assert_eq!(reason, "NoIdentity");
        let create = format!("create a ClusterProperty (about.k8s.io) named {property}");
        assert!(detail.contains(&create), "{detail}");
        members.blue.cluster_property(property, value);
        members.converge().await;
    }
}

#[tokio::test]
async fn setting_and_property_that_disagree_are_reported_with_both() {
    let members = Members::with_one_export_each().await;
    let blue = json!({ "cluster": "blue", "clusterId": "azure" });
    let clusters = json!([blue, { "cluster": "green" }]).to_string();

    let (reason, detail) = members.obstacle_of_blue(&clusters).await;

    assert_eq!(reason, "IdentityDisagrees");
    let expected =
        format!("CLUSTERS says \"azure\", and the ClusterProperty {CLUSTER_ID} says \"blue\"");
    assert!(detail.starts_with(&expected), "{detail}");
}

/// The exports and imports of the former `OWNER_ID` are those of another installation.
#[tokio::test]
async fn nothing_changes_under_another_owner_id_until_the_former_one_purges_the_clusters() {
    const NEW: &str = "team-b";
    let members = Members::with_one_export_each().await;
    members.forget();
    let function = members.serving("blue,green", &[("OWNER_ID", NEW)]).await;

    let report = sync(&function).await;

    members.assert_nothing_written(&in_full(&report));
    for cluster in ["blue", "green"] {
        let obstacles = obstacle_lines(&report, cluster);
        let reasons: Vec<&str> = obstacles.iter().map(|obstacle| &*obstacle.code).collect();
        assert_eq!(reasons, ["OwnerIdDiffers"], "{}", in_full(&report));
        for obstacle in obstacles {
            let detail = &obstacle.text;
            let says = |words: &&str| detail.contains(words);
            assert!([OWNER, "\"action\":\"confirm\"", "purge"].iter().all(says), "{detail}");
        }
    }

    for cluster in ["blue", "green"] {
        let purged = purge(&members.function, cluster).await;
        assert!(purged.ok, "{}", in_full(&purged));
    }
    let arns = ["blue", "green"].map(|cluster| members.fleet.sandbox.cluster_arn(cluster));
    members.fleet.cloud_map.watch_over(NEW, &arns);
    for _ in 0..2 {
        synced(&function).await;
    }
    members.assert_imported("web", "blue 10.0.0.1:8080", "");
    members.assert_imported("cart", "green 10.1.0.1:8080", "");
}

/// The mark of an exported instance and of a record: the `OWNER_ID` of its function.
const EXPORTER: &str = "cloud-map-sync/exporter";

/// blue exports `web` by a function whose `OWNER_ID` is [`OWNER`], and another one begins to serve blue.
struct TakenOver {
    members: Members,
    /// The function that takes blue over.
    new: Function,
}

impl TakenOver {
    const NEW: &str = "team-b";

    async fn start() -> Self {
        let members = Members::with_one_export_each().await;
        let new = members.serving("blue", &[("OWNER_ID", Self::NEW)]).await;
        let taken_over = Self { members, new };
        taken_over.watch_new();
        let cloud_map = &taken_over.members.fleet.cloud_map;
        let records = cloud_map.service_id("clusterset.shop-set", "blue");
        cloud_map.allow_adoption(&[(&records, "cluster"), (&records, RECORD)]);
        taken_over
    }

    /// The stand-in watches over one owner at a time.
    fn watch_new(&self) {
        let fleet = &self.members.fleet;
        fleet.cloud_map.watch_over(Self::NEW, &[fleet.sandbox.cluster_arn("blue")]);
    }

    fn watch_former(&self) {
        let fleet = &self.members.fleet;
        let arns = ["blue", "green"].map(|cluster| fleet.sandbox.cluster_arn(cluster));
        fleet.cloud_map.watch_over(OWNER, &arns);
    }

    async fn confirm(&self) -> Report {
        report(&self.new, &json!({ "action": "confirm", "cluster": "blue" })).await
    }

    /// The owners of blue's records, and those of the instances of `web`.
    fn owners(&self) -> (Vec<String>, Vec<String>) {
        let of = |namespace, service| self.members.fleet.values(namespace, service, EXPORTER);
        (of("clusterset.shop-set", "blue"), of("shop", "web"))
    }
}

/// Imports in green come from Cloud Map, where both functions have an instance of one pod: it counts once.
#[tokio::test]
async fn confirm_takes_the_records_of_another_owner_id_over_and_its_function_purges_its_own_alone()
{
    const NEW: &str = TakenOver::NEW;
    let taken_over = Box::pin(TakenOver::start()).await;
    let TakenOver { members, new } = &taken_over;
    let Members { blue, green, function: former, .. } = members;
    green.keep_ready("shop", "web");
    for payload in [json!({ "action": "sync" }), sync_of("blue", "web")] {
        members.forget();
        let held_back = report(new, &payload).await;
        members.assert_nothing_written(&in_full(&held_back));
        assert_eq!(obstacles(&held_back, "blue"), ["OwnerIdDiffers"], "{}", in_full(&held_back));
    }
    explain_by(members, new, "blue", "web").await.assert_says(&[
        "! obstacle   (OwnerIdDiffers): the records of this cluster in clusterset.",
    ]);

    let confirmed = taken_over.confirm().await;

    assert!(confirmed.ok, "{}", in_full(&confirmed));
    let owners = |all: &[&str]| -> Vec<String> { all.iter().map(|&id| id.to_owned()).collect() };
    assert_eq!(taken_over.owners(), (owners(&[NEW, NEW]), owners(&[OWNER, NEW])));
    pods(blue, "web", &["10.0.0.1", "10.0.0.2"]);
    synced(new).await;
    assert_eq!(taken_over.owners(), (owners(&[NEW, NEW]), owners(&[OWNER, NEW, NEW])));
    members.forget();
    let again = sync(new).await;
    members.assert_nothing_written(&in_full(&again));

    taken_over.watch_former();
    synced(&members.serving("green", &[]).await).await;
    assert_eq!(imported(green, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080");
    let endpoints = slices(green, "web").into_iter();
    let endpoints = endpoints.map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len));
    assert_eq!(endpoints.sum::<usize>(), 2);

    members.forget();
    let held_back = sync(former).await;
    members.assert_nothing_written(&in_full(&held_back));
    assert_eq!(obstacles(&held_back, "blue"), ["OwnerIdDiffers"], "{}", in_full(&held_back));

    let purged = purge(former, "blue").await;
    assert!(purged.ok, "{}", in_full(&purged));
    assert_eq!(taken_over.owners(), (owners(&[NEW, NEW]), owners(&[NEW, NEW])));
    taken_over.watch_new();
    for _ in 0..2 {
        synced(new).await;
    }
    members.assert_imported("web", "blue 10.0.0.1:8080 10.0.0.2:8080", "");
    members.assert_imported("cart", "green 10.1.0.1:8080", "");
    taken_over.watch_former();
    members.forget();
    let held_back = sync(former).await;
    members.assert_nothing_written(&in_full(&held_back));
    assert_eq!(green.gaps(), [""; 0]);
}

/// Instances under an id that is still another function's would be nobody's.
#[tokio::test]
async fn records_that_cannot_be_taken_over_publish_nothing() {
    let taken_over = Box::pin(TakenOver::start()).await;
    let members = &taken_over.members;
    let cloud_map = &members.fleet.cloud_map;
    let records = cloud_map.service_id("clusterset.shop-set", "blue");
    let denied = CloudMapFault::on("RegisterInstance", CloudMapFaultKind::AccessDenied);
    cloud_map.inject(denied.service(&records).always());
    let before = taken_over.owners();

    let failed = taken_over.confirm().await;

    assert_eq!(obstacles(&failed, "blue"), ["NoRecord"], "{}", in_full(&failed));
    assert_eq!(taken_over.owners(), before);
    cloud_map.heal();
    let confirmed = taken_over.confirm().await;
    assert!(confirmed.ok, "{}", in_full(&confirmed));
    assert_eq!(taken_over.owners().0, [TakenOver::NEW; 2]);
}

/// No confirmation makes a cluster the holder of another one's id.
#[tokio::test]
async fn confirm_takes_no_record_of_another_cluster_over() {
    let members = Members::with_one_export_each().await;
    members.green.cluster_property(CLUSTER_ID, "blue");
    let records = members.fleet.instances("clusterset.shop-set", "blue");

    let confirmed =
        report(&members.function, &json!({ "action": "confirm", "cluster": "green" })).await;

    assert_eq!(obstacles(&confirmed, "green")[0], "ClusterIdTaken", "{}", in_full(&confirmed));
    assert_eq!(members.fleet.instances("clusterset.shop-set", "blue"), records);
}

/// It has exports and imports: other clusters know it by its id.
#[tokio::test]
async fn id_that_is_changed_is_held_back_and_nothing_changes_until_it_is_back() {
    let members = Members::with_one_export_each().await;
    let Members { blue, green, fleet, .. } = &members;
    green.keep_ready("shop", "web");
    blue.cluster_property(CLUSTER_ID, "azure");
    pods(blue, "web", &["10.0.0.2"]);
    for scope in [json!({ "action": "sync" }), sync_of("blue", "web")] {
        members.forget();

        let report = report(&members.serving("blue,green", &[]).await, &scope).await;

        let conditions = |it: &String| it.contains("/serviceexports/web/status");
        let written = members.clusters().map(writes).concat();
        assert!(written.iter().all(conditions), "{written:?} {}", in_full(&report));
        assert_eq!(fleet.cloud_map.writes(), 0, "{}", in_full(&report));
        let obstacles = obstacle_lines(&report, "blue");
        let is_named =
            |line: &&Line| line.code == "ClusterIdChanged" && line.text.contains("id blue");
        assert!(obstacles.into_iter().any(|line| is_named(&line)), "{}", in_full(&report));
    }
    assert_eq!(fleet.instances("clusterset.shop-set", "azure"), [].into());
    blue.cluster_property(CLUSTER_ID, "blue");
    members.converge().await;
    members.assert_imported("web", "blue 10.0.0.2:8080", "");
    assert_eq!(green.gaps(), [""; 0]);
}

/// The id under which its imports know their Cloud Map is changed.
#[tokio::test]
async fn obstacle_of_an_id_that_is_changed_is_the_same_in_each_message_plan_and_answer() {
    let members = Members::with_one_export_each().await;
    members.blue.cluster_property(CLUSTER_ID, "azure");
    let full = sync(&members.function).await;
    let [full] = obstacle_lines(&full, "blue")[..] else { panic!("{}", in_full(&full)) };
    assert_eq!(full.code, "ClusterIdChanged");
    // It exports `web` and only imports `cart`.
    for name in ["web", "cart"] {
        for action in ["sync", "plan"] {
            for function in [&members.function, &members.serving("blue,green", &[]).await] {
                let mut payload = sync_of("blue", name);
                payload["action"] = json!(action);
                let report = report(function, &payload).await;
                let [line] = obstacle_lines(&report, "blue")[..] else {
                    panic!("{action} {name}: {}", in_full(&report))
                };
                assert_eq!(line.code, full.code, "{action} {name}: {}", in_full(&report));
                assert!(full.text.starts_with(&line.text), "{action} {name}: {line}");
            }
        }
        let new_function = members.serving("blue,green", &[]).await;
        let explanation = explain_by(&members, &new_function, "blue", name).await.to_string();
        let said = explanation.split_once("(ClusterIdChanged): ").map(|(_, said)| said);
        let sentence = said.and_then(|said| said.lines().next()).unwrap_or_default();
        assert!(sentence.len() > 1 && full.text.starts_with(sentence), "{explanation}");
    }
}

/// A process was under way when the id was changed.
#[tokio::test]
async fn cluster_with_a_record_under_a_new_id_beside_exports_under_the_former_publishes_nothing() {
    let members = Members::with_one_export_each().await;
    let Members { blue, fleet, function, .. } = &members;
    let record = &fleet.instances("clusterset.shop-set", "blue")["cluster"];
    let records = fleet.cloud_map.ensure_service("clusterset.shop-set", "azure");
    fleet.put(&records, "cluster", record);
    blue.cluster_property(CLUSTER_ID, "azure");
    sync(function).await;
    pods(blue, "web", &["10.0.0.2"]);
    let new_function = members.serving("blue,green", &[]).await;

    for process in [function, &new_function] {
        members.forget();
        let message = report(process, &sync_of("blue", "web")).await;
        members.assert_nothing_written(&in_full(&message));
        assert_eq!(obstacles(&message, "blue"), ["ClusterIdChanged"], "{}", in_full(&message));
    }
    let new_function = members.serving("blue,green", &[]).await;
    let explanation = explain_by(&members, &new_function, "blue", "web").await.to_string();
    assert!(explanation.contains("(ClusterIdChanged)"), "{explanation}");
}

/// Both runs publish before Cloud Map shows a record of the other one.
#[tokio::test(start_paused = true)]
async fn id_that_is_changed_while_the_first_sync_is_under_way_is_the_one_that_the_cluster_states() {
    let members = Members::start().await;
    let Members { blue, green, fleet, function, .. } = &members;
    exported(blue, web(), &["10.0.0.1"]);
    let operation_delay = Duration::from_secs(3);
    fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    let other = members.serving("blue,green", &[]).await;

    let (first, second) = tokio::join!(sync(function), async {
        sleep(Duration::from_secs(1)).await;
        blue.cluster_property(CLUSTER_ID, "azure");
        sync(&other).await
    });
    let records = |id: &str| fleet.instances("clusterset.shop-set", id).len();
    let said = format!("{}{}", in_full(&first), in_full(&second));
    assert_eq!((records("blue"), records("azure")), (2, 2), "{said}");
    green.keep_ready("shop", "web");
    members.converge().await;

    assert_eq!((records("blue"), records("azure")), (0, 2));
    members.assert_imported("web", "azure 10.0.0.1:8080", &said);
    assert_eq!(green.gaps(), [""; 0]);
}

/// Another function imports by the records alone.
#[tokio::test(start_paused = true)]
async fn records_under_a_former_id_stay_until_each_export_has_one_under_the_present_id() {
    let members = Members::start().await;
    let Members { blue, green, fleet, .. } = &members;
    let cloud_map = &fleet.cloud_map;
    exported(blue, web(), &["10.0.0.1"]);
    exported(blue, service("cart"), &["10.0.0.7"]);
    let operation_delay = Duration::from_secs(3);
    cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    let of_blue = members.serving("blue", &[]).await;
    let other = members.serving("blue", &[]).await;
    tokio::join!(sync(&of_blue), async {
        sleep(Duration::from_secs(1)).await;
        blue.cluster_property(CLUSTER_ID, "azure");
        sync(&other).await
    });
    cloud_map.behave(Behaviour::default());
    let of_green = members.serving("green", &[]).await;
    synced(&of_green).await;
    let azure = cloud_map.service_id("clusterset.shop-set", "azure");
    let mut records = cloud_map.instances(&azure).into_iter();
    let is_of_cart = |record: &Attributes| record.values().any(|value| value == "cart");
    let cart = records.find(|(_, record)| is_of_cart(record)).expect("a record");
    cloud_map.withdraw(&azure, &cart.0);
    let fault = CloudMapFault::on("RegisterInstance", CloudMapFaultKind::ServerError);
    cloud_map.inject(fault.service(&azure).always());

    let failed = sync(&of_blue).await;
    synced(&of_green).await;

    let records = |id: &str| fleet.instances("clusterset.shop-set", id).len();
    assert_eq!((records("blue"), records("azure")), (3, 2), "{}", in_full(&failed));
    cloud_map.heal();
    for function in [&of_blue, &of_green] {
        synced(function).await;
    }
    assert_eq!((records("blue"), records("azure")), (0, 3));
    assert_eq!(imported(green, "cart"), "azure 10.0.0.7:8080");
}

/// A typo at the first start.
#[tokio::test]
async fn id_under_which_a_cluster_has_neither_exports_nor_imports_may_be_changed() {
    let members = Members::start().await;
    members.converge().await;
    members.blue.cluster_property(CLUSTER_ID, "azure");
    exported(&members.blue, web(), &["10.0.0.1"]);

    // A run of before may be under way.
    let at_once = sync(&members.function).await;
    assert_eq!(obstacles(&at_once, "blue")[0], "ClusterIdChanged", "{}", in_full(&at_once));
    members.clock.advance(Duration::from_mins(15));
    members.converge().await;

    members.assert_imported("web", "azure 10.0.0.1:8080", "");
    let records = |id: &str| members.fleet.instances("clusterset.shop-set", id).len();
    assert_eq!((records("blue"), records("azure")), (0, 2));

    pods(&members.blue, "web", &["10.0.0.2"]);
    let message = members.sync_service("blue", "web").await;
    assert_eq!(obstacles(&message, "blue"), [""; 0], "{}", in_full(&message));
    members.assert_imported("web", "azure 10.0.0.2:8080", &in_full(&message));
}

/// Lists show the record under the former id for a while.
#[tokio::test]
async fn id_that_was_given_up_is_no_exporter_that_was_not_read() {
    let members = Members::start().await;
    members.converge().await;
    members.blue.cluster_property(CLUSTER_ID, "azure");
    exported(&members.blue, web(), &["10.0.0.1"]);
    members.clock.advance(Duration::from_mins(15));
    members.fleet.cloud_map.adjust(|it| it.list_lag = Duration::from_hours(1));

    let report = sync(&members.function).await;

    let conflict = condition(&members.blue, "web", "Conflict");
    assert_eq!(conflict, "False NoConflicts", "{}", in_full(&report));
}

/// A message about a name that the cluster does not export reads no record of its own.
#[tokio::test]
async fn message_of_a_cluster_with_a_taken_id_ends_no_export_of_the_holder() {
    let members = Members::with_one_export_each().await;
    members.green.cluster_property(CLUSTER_ID, "blue");
    let report = sync(&members.function).await;
    assert_eq!(obstacles(&report, "green")[0], "ClusterIdTaken");

    let answer = invoke(&members.function, &batch_about("green", "web")).await;

    members.assert_imported("web", "blue 10.0.0.1:8080", &format!("{:?}", answer.report));
}

/// The other one comes later in the settings.
#[tokio::test]
async fn new_pod_of_the_holder_of_an_id_that_another_cluster_states_is_imported_by_its_message() {
    let members = Members::with_one_export_each().await;
    members.green.cluster_property(CLUSTER_ID, "blue");
    sync(&members.function).await;
    pods(&members.blue, "web", &["10.0.0.2"]);

    let answer = invoke(&members.function, &batch_about("blue", "web")).await;

    let said = format!("{:?}", answer.report);
    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.2:8080", "{said}");
    let explanation = explain(&members, "blue", "web").await.to_string();
    assert!(!explanation.contains("the exports of blue"), "{explanation}");
}

#[tokio::test]
async fn third_cluster_is_explained_by_the_holder_of_an_id_that_another_cluster_states() {
    let many = Many::start(3, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    exported(&many.clusters[1], web(), &["10.1.0.1"]);
    many.converge().await;
    many.clusters[1].cluster_property(CLUSTER_ID, "c0");
    let question =
        json!({"action": "explain", "cluster": "c2", "namespace": "shop", "service": "web"});
    for clusters in ["c0,c1,c2", "c1,c0,c2"] {
        let function = many.new_function(&[("CLUSTERS", clusters)]).await;

        let answer = invoke(&function, &question).await.response.expect("an answer");

        let explanation = Explanation::deserialize(answer).expect("of this release");
        explanation
            .assert_says(&["= endpoint   10.0.0.1 port 8080 of c0 (web-10-0-0-1): in the import"]);
        assert!(!explanation.to_string().contains("the exports of c0"), "{explanation}");
    }
}

/// The holder is of another function, so Cloud Map would be its source. A served cluster states its id by mistake, so nothing
/// of the holder was asked for.
#[tokio::test]
async fn message_beside_a_cluster_with_a_taken_id_takes_nothing_of_the_holder_out_of_an_import() {
    let many = Many::start(3, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    let of_holder = many.new_function(&[("CLUSTERS", "c0")]).await;
    let of_others = many.new_function(&[("CLUSTERS", "c1,c2")]).await;
    for function in [&of_holder, &of_others, &of_holder, &of_others] {
        sync(function).await;
    }
    assert_eq!(imported(&many.clusters[2], "web"), "c0 10.0.0.1:8080");
    many.clusters[1].cluster_property(CLUSTER_ID, "c0");

    for function in [&of_others, &many.new_function(&[("CLUSTERS", "c1,c2")]).await] {
        let answer = invoke(function, &batch_about("c2", "web")).await;
        let said = format!("{:?}", answer.report);
        assert_eq!(imported(&many.clusters[2], "web"), "c0 10.0.0.1:8080", "{said}");
    }
}

/// Which of two namespaces has the records shows only under the id that the cluster had.
#[tokio::test]
async fn member_of_another_id_whose_records_may_be_in_two_namespaces_is_frozen() {
    let members = Members::with_one_export_each().await;
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.shared_namespace("clusterset.shop-set", NamespaceKind::Http, "444455556666");
    members.blue.cluster_property(CLUSTER_ID, "azure");

    let report = sync(&members.serving("blue,green", &[]).await).await;

    let blue = part(&report, "blue");
    assert_eq!(obstacles(&report, "blue"), ["Namespace"]);
    assert_eq!((blue.is_frozen(), report.ok), (true, false));
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

/// The other one writes nothing until Cloud Map shows it.
#[tokio::test(start_paused = true)]
async fn id_whose_record_is_under_way_is_of_the_cluster_that_writes_it() {
    let members = Members::start().await;
    let Members { blue, green, fleet, function, .. } = &members;
    let records = fleet.cloud_map.ensure_service("clusterset.shop-set", "green");
    blue.cluster_property(CLUSTER_ID, "green");
    for cluster in [blue, green] {
        exported(cluster, web(), &[]);
    }
    let operation_delay = Duration::from_mins(20);
    fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });

    let report = sync(function).await;

    assert_eq!(obstacles(&report, "green")[0], "ClusterIdTaken");
    sleep(2 * operation_delay).await;
    let holders = fleet.cloud_map.instances(&records).into_values();
    let holders: BTreeSet<_> = holders.map(|it| it["cloud-map-sync/cluster"].clone()).collect();
    assert_eq!(holders, [fleet.sandbox.cluster_arn("blue")].into(), "{}", in_full(&report));
}

/// An object of an import that changed meanwhile is looked at again, with the exports of the clusters.
#[tokio::test]
async fn cluster_with_a_taken_id_does_not_stand_in_for_the_holder_in_a_second_look() {
    let members = Members::with_one_export_each().await;
    let Members { blue, green, function, .. } = &members;
    green.cluster_property(CLUSTER_ID, "blue");
    pods(blue, "web", &["10.0.0.1", "10.0.0.2"]);
    blue.fail(Fault::once(SLICES, FaultKind::Status(409)).of_method("PATCH"));

    let report = sync(function).await;

    assert_eq!(imported(blue, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080", "{}", in_full(&report));
}
