//! Cloud Map namespaces: several of one name, those that another account shares through AWS RAM, which go by their
//! ARN, registries with so many that ListServices is not asked about each, and those that the settings name.

use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::{Fleet, OTHER_ACCOUNT, annotated, give_pods, namespace_arn};
use crate::logged::invoke_logged;
use crate::run::{
    converge, converged, held_back, remarks, said_of, settled, sync, sync_service, synced,
};
use testbed::REGION;
use testbed::cloud_map::RecordType::A;
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::Headless;

/// One namespace more, of the account or of another one.
pub fn another(fleet: &Fleet, name: &str, kind: NamespaceKind, is_shared: bool) -> String {
    if is_shared {
        fleet.cloud_map.shared_namespace(name, kind, OTHER_ACCOUNT)
    } else {
        fleet.cloud_map.namespace(name, kind)
    }
}

/// A second namespace `prod.local`, in another VPC or of another account.
fn second(fleet: &Fleet, is_shared: bool) -> String {
    another(fleet, "prod.local", NamespaceKind::DnsPrivate, is_shared)
}

/// Makes a service `web` in a namespace, as Terraform does.
fn service(fleet: &Fleet, namespace: &str) {
    fleet.cloud_map.service(namespace, "web", ServiceKind::of_records(&[A]));
}

/// The addresses under `web` in a namespace, sorted.
fn addresses(fleet: &Fleet, namespace: &str) -> Vec<String> {
    let services = fleet.cloud_map.services(namespace).into_iter();
    let instances = services.flat_map(|view| fleet.cloud_map.instances(&view.id).into_values());
    let mut all: Vec<String> = instances.map(|it| it["AWS_INSTANCE_IPV4"].clone()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn second_namespace_of_the_name_neither_stops_nor_moves_what_is_registered() {
    for is_shared in [false, true] {
        let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]).await;
        fleet.web("cart", "prod", &["10.0.2.1"]);
        converge(&fleet, &fleet.function().await).await;
        let other = second(&fleet, is_shared);
        service(&fleet, &other);

        // A process without a memory: what the first sync has seen is gone.
        fleet.pods("web", &["10.0.1.2", "10.0.1.3"]);
        let report = converge(&fleet, &fleet.function().await).await;
        assert_eq!(held_back(&report), [""; 0], "{report}");
        assert_eq!(addresses(&fleet, &fleet.dns), ["10.0.1.2", "10.0.1.3"]);

        fleet.pods("web", &["10.0.1.4"]);
        let report = sync_service(&fleet.function().await, "web").await;
        assert_eq!((held_back(&report).len(), report.ok), (0, true), "{report}");
        assert_eq!(addresses(&fleet, &fleet.dns), ["10.0.1.4"]);
        assert_eq!(addresses(&fleet, &other), [""; 0]);
    }
}

/// Callers ask in the namespace that another account shares. The pods go to zero, and the instances with them.
#[tokio::test]
async fn service_whose_pods_come_back_does_not_move_to_an_own_namespace_of_the_name() {
    for has_both in [false, true] {
        let fleet = Fleet::start().await;
        let other = second(&fleet, true);
        if has_both {
            service(&fleet, &fleet.dns);
        }
        fleet.web("web", &other, &["10.0.1.1"]);
        let function = converged(&fleet).await;
        fleet.annotate("web", "namespace", "prod.local");
        let report = converge(&fleet, &function).await;
        assert_eq!(
            remarks(&report),
            vec!["NamespaceByInstances"; usize::from(has_both)],
            "{report}"
        );
        fleet.pods("web", &[]);
        converge(&fleet, &function).await;
        fleet.pods("web", &["10.0.1.2"]);

        sync_service(&function, "web").await;
        assert_eq!((addresses(&fleet, &fleet.dns).len(), addresses(&fleet, &other).len()), (0, 0));
        let report = converge(&fleet, &function).await;

        assert_eq!(addresses(&fleet, &fleet.dns), [""; 0], "{report}");
        assert_eq!(
            held_back(&report),
            vec!["NamespaceAmbiguous"; usize::from(has_both)],
            "{report}"
        );
        if has_both {
            let said = said_of(&report, "NamespaceAmbiguous");
            assert!(said.contains(&other) && said.contains(&fleet.dns), "{said}");
        } else {
            assert_eq!(addresses(&fleet, &other), ["10.0.1.2"]);
        }
    }
}

#[tokio::test]
async fn message_finds_the_namespace_in_which_another_process_has_published_the_service() {
    let fleet = Fleet::start().await;
    second(&fleet, false);
    let function = converged(&fleet).await;
    fleet.web("web", &fleet.dns, &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;

    fleet.web("web", "prod.local", &["10.0.1.2"]);
    let report = sync_service(&function, "web").await;
    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert_eq!(addresses(&fleet, &fleet.dns), ["10.0.1.2"]);
}

/// It has read the service in one of the two namespaces, which decides only once both are read.
#[tokio::test]
async fn process_that_knows_one_of_the_namespaces_does_not_choose_it_for_its_first_registrations() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    service(&fleet, &fleet.dns);
    let other = second(&fleet, false);
    let function = converged(&fleet).await;
    service(&fleet, &other);
    fleet.annotate("web", "namespace", "prod.local");
    fleet.web("api", "prod", &["10.0.2.1"]);
    fleet.annotate("api", "hostname", "web");

    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["DomainConflict", "NamespaceAmbiguous"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

/// A fleet beside which another account shares `platform.local`, its id, and the ARN by which it goes.
pub async fn shared() -> (Fleet, String, String) {
    let fleet = Fleet::start().await;
    let kind = NamespaceKind::DnsPrivate;
    let name = "platform.local";
    let id = fleet.cloud_map.shared_namespace(name, kind, OTHER_ACCOUNT);
    let arn = format!("arn:aws:servicediscovery:{REGION}:{OTHER_ACCOUNT}:namespace/{id}");
    (fleet, id, arn)
}

#[tokio::test]
async fn cloud_map_refuses_to_update_what_holds_other_accounts_instances_and_that_fails_nothing() {
    let (fleet, _, arn) = shared().await;
    let function = fleet.function().await;
    fleet.service(annotated("web", &arn, "web").annotate("cloudmap.controller/ttl", "60"));
    fleet.pods("web", &["10.0.1.1"]);
    converge(&fleet, &function).await;
    fleet.pods("web", &[]);
    converge(&fleet, &function).await;
    let service = fleet.view("platform.local", "web").id;
    fleet.cloud_map.instance(&service, "theirs", &[("AWS_INSTANCE_IPV4", "10.9.0.1")]);

    fleet.annotate("web", "ttl", "15");
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let report = synced(&function).await;

    assert_eq!(remarks(&report), ["UpdateRefused"], "{report}");
    assert!(said_of(&report, "UpdateRefused").contains("other accounts"), "{report}");
    let addresses = ["10.0.1.1", "10.0.1.2", "10.9.0.1"];
    assert_eq!(fleet.addresses("platform.local", "web"), addresses);
    settled(&fleet, &function).await;
    assert_eq!(remarks(&sync(&function).await), ["UpdateRefused"], "reported as long as it holds");
}

#[tokio::test]
async fn explain_asks_discovery_of_the_account_that_the_namespace_belongs_to() {
    let (fleet, id, arn) = shared().await;
    fleet.cloud_map.adjust(|it| it.discovery_on_any_host = true);
    let service = fleet.cloud_map.service(&id, "web", ServiceKind::of_records(&[A]));
    fleet.cloud_map.instance(&service, "theirs", &[("AWS_INSTANCE_IPV4", "10.9.0.1")]);
    fleet.web("web", &arn, &["10.0.1.1"]);
    let function = fleet.function().await;
    sync(&function).await;

    let command = json!({"action": "explain", "namespace": "shop", "service": "web"});
    let answer = invoke(&function, &command).await.response.expect("an explanation").to_string();

    assert!(answer.contains(r#""others":{"UNKNOWN":1},"ours":{"UNKNOWN":1}"#), "{answer}");
}

/// The two namespaces of a fleet with so many more, and these services spread over all; three of them are claimed and in
/// step.
async fn registry(namespaces: usize, services: usize) -> (Fleet, Vec<String>) {
    let fleet = Fleet::start().await;
    let mut ids = vec![fleet.http.clone(), fleet.dns.clone()];
    let team = |it| fleet.cloud_map.namespace(&format!("team-{it}"), NamespaceKind::Http);
    ids.extend((2..namespaces).map(team));
    for index in 0..services {
        let namespace = &ids[index % namespaces];
        fleet.cloud_map.service(namespace, &format!("service-{index}"), ServiceKind::Http);
    }
    for (name, namespace) in [("web", "prod"), ("cart", "team-2"), ("mail", "team-3")] {
        fleet.cloud_map.ensure_service(namespace, name);
        fleet.web(name, namespace, &["10.0.1.1"]);
    }
    converged(&fleet).await;
    (fleet, ids)
}

/// The calls of a full sync that are not made for each name: ListNamespaces, ListServices, and GetService.
async fn lists(fleet: &Fleet, function: &Function) -> [usize; 3] {
    fleet.cloud_map.forget_calls();
    synced(function).await;
    ["ListNamespaces", "ListServices", "GetService"].map(|it| fleet.cloud_map.count(it))
}

/// The first and the second full sync of a process: each service of another writer is asked for once, and those of
/// namespaces of other accounts are not. Few services are listed by namespace until they are known, and those of
/// namespaces that the settings name always.
#[tokio::test(start_paused = true)]
async fn lists_of_many_namespaces_cost_as_much_as_their_pages() {
    let named = ("CLOUD_MAP_NAMESPACES", "prod,team-2,team-3");
    for (namespaces, services, shared, settings, cold, warm) in [
        (50, 1997, 0, &[][..], [1, 20, 2000], [0, 20, 0]),
        (4, 4, 0, &[], [1, 4, 0], [0, 1, 0]),
        (10, 240, 60, &[], [1, 4, 243], [0, 4, 0]),
        (10, 240, 0, &[named], [1, 9, 0], [0, 9, 0]),
    ] {
        let (fleet, _) = registry(namespaces, services).await;
        if shared > 0 {
            let kind = NamespaceKind::Http;
            let other = fleet.cloud_map.shared_namespace("platform", kind, OTHER_ACCOUNT);
            for index in 0..shared {
                fleet.cloud_map.service(&other, &format!("theirs-{index}"), ServiceKind::Http);
            }
        }
        let function = fleet.function_with(settings).await;

        let case = format!("{services} in {namespaces}, {shared} of others, {settings:?}");
        assert_eq!(lists(&fleet, &function).await, cold, "{case}");
        assert_eq!(lists(&fleet, &function).await, warm, "{case}");
        assert_eq!(fleet.cloud_map.count("ListInstances"), 3, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn service_of_another_writer_is_asked_for_once_and_one_of_the_function_never() {
    let (fleet, ids) = registry(10, 240).await;
    let function = fleet.function().await;
    sync(&function).await;
    fleet.cloud_map.service(&ids[5], "new", ServiceKind::Http);
    fleet.web("ours", "team-4", &["10.0.1.9"]);

    assert_eq!(lists(&fleet, &function).await, [0, 3, 1]);
    assert_eq!(fleet.addresses("team-4", "ours"), ["10.0.1.9"]);
    assert_eq!(lists(&fleet, &function).await, [0, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn list_that_shows_fewer_services_than_the_namespace_has_is_not_believed() {
    let (fleet, ids) = registry(10, 240).await;
    let function = fleet.function().await;
    sync(&function).await;
    // As if the list of all lacked a service: the number of the last list, or Cloud Map's own count, is higher.
    let gone = fleet.cloud_map.service(&ids[2], "gone", ServiceKind::Http);
    assert_eq!(lists(&fleet, &function).await, [0, 3, 1]);
    fleet.cloud_map.remove_service(&gone);

    assert_eq!(lists(&fleet, &function).await, [0, 6, 0], "one namespace again");
    assert_eq!(lists(&fleet, &function).await, [0, 3, 0]);
    settled(&fleet, &function).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_get_services_each_namespace_is_listed_and_the_log_says_so_once() {
    let (fleet, _) = registry(10, 240).await;
    fleet.cloud_map.deny("GetService");
    let function = fleet.function().await;

    let (answer, log) = invoke_logged(&function, &json!({ "action": "sync" })).await;

    assert!(answer.report.is_some_and(|report| report.ok));
    let said =
        |log: &[String]| log.iter().filter(|it| it.contains("servicediscovery:GetService")).count();
    assert_eq!(said(&log), 1, "{log:#?}");
    // The list of all up to the first refusal, and then one of each namespace with three pages.
    assert!(fleet.cloud_map.count("ListServices") > 30);
    assert_eq!(lists(&fleet, &function).await, [0, 30, 0], "not tried again");
    fleet.cloud_map.heal();
    fleet.clock.advance(Duration::from_hours(1));
    // By now the lists of the namespaces have shown where each service is.
    assert_eq!(lists(&fleet, &function).await, [1, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn service_that_goes_between_its_list_and_the_question_is_gone() {
    let (fleet, _) = registry(10, 240).await;
    let kind = FaultKind::Error(400, "ServiceNotFound", "no such service");
    fleet.cloud_map.inject(Fault::on("GetService", kind));
    let function = fleet.function().await;

    // One namespace shows a service less than Cloud Map counts.
    assert_eq!(lists(&fleet, &function).await, [1, 6, 243]);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn namespaces_that_are_not_named_are_neither_read_nor_changed() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.web("cart", "prod.local", &["10.0.2.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.cluster.delete_service("shop", "cart");
    fleet.pods("web", &["10.0.1.2"]);
    let arn = namespace_arn(&fleet.http);
    for named in ["prod", &fleet.http, &arn] {
        let function = fleet.function_with(&[("CLOUD_MAP_NAMESPACES", named)]).await;
        fleet.cloud_map.forget_calls();
        sync(&function).await;
        assert_eq!(fleet.cloud_map.count("ListServices"), 1, "{named}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"], "{named}");
        assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.1"], "{named}");
    }
}

#[tokio::test]
async fn other_annotation_prefix_reads_other_annotations() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let other = Headless::new("shop", "cart")
        .annotate("discovery.example.com/hostname", "cart")
        .annotate("discovery.example.com/namespace", "prod");
    fleet.service(other);
    fleet.pods("cart", &["10.0.2.1"]);
    let function = fleet.function_with(&[("ANNOTATION_PREFIX", "discovery.example.com/")]).await;

    converge(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
    assert!(fleet.addresses("prod", "web").is_empty());
}

fn without_namespace(name: &str) -> Headless {
    Headless::new("shop", name).annotate("cloudmap.controller/hostname", name)
}

#[tokio::test]
async fn clusters_default_namespace_comes_before_the_kubernetes_namespaces_name() {
    let (fleet, green) = Fleet::with_green().await;
    fleet.cloud_map.namespace("shop", NamespaceKind::Http);
    fleet.service(without_namespace("web"));
    fleet.pods("web", &["10.0.1.1"]);
    green.service(without_namespace("web"));
    give_pods(&green, "web", &["10.0.2.1"]);
    let clusters = r#"["green", {"cluster": "blue", "defaultNamespace": "prod.local"}]"#;
    let function = fleet.function_with(&[("CLUSTERS", clusters)]).await;

    converge(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.2.1"]);
}
