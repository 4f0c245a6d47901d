use serde_json::{Value, json};

use super::page::Page;
use super::row::{Row, state};
use cloud_map_sync::actions::status::{
    RegistryStatus, ServiceStatus, Share, ShareOf, Split, Status,
};
use cloud_map_sync::model::Timestamp;
use cloud_map_sync::report::Report;

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

fn share(by: ShareOf, count: usize) -> Share {
    let ours = by == ShareOf::Cluster;
    let (name, owner) = (ours.then(|| BLUE.to_owned()), ours.then(|| "sync".to_owned()));
    Share { by, name, owner, count }
}

fn service(name: &str, instances: Vec<Share>) -> ServiceStatus {
    let (namespace, kind) = ("prod.local".to_owned(), "A".to_owned());
    ServiceStatus { namespace, name: name.to_owned(), kind, unreadable: None, instances }
}

fn status(services: Vec<ServiceStatus>) -> Status {
    let registry = RegistryStatus { services, ..RegistryStatus::default() };
    Status::new("sync", vec![BLUE.to_owned()], vec![registry])
}

fn plan(held_back: &Value) -> Report {
    let web = json!({
        "namespace": "prod.local", "name": "web", "heldBack": held_back,
        "changes": [{
            "change": "register", "instance": "ip-1", "detail": "10.0.0.1 <img src=x>",
            "service": {"namespace": "shop", "name": "web"}, "result": "planned",
        }],
    });
    let cluster = json!({"cluster": BLUE, "counts": {"registered": 1}, "services": [web]});
    let plan = json!({
        "mode": "plan", "whole": true, "ok": true, "counts": {"registered": 1}, "clusters": [cluster],
    });
    serde_json::from_value(plan).expect("a plan")
}

fn page(status: &Status, before: Option<&Status>, plan: &Report) -> String {
    let now = Timestamp::from_second(1_795_252_502).expect("a time");
    Page { status, before, plan, now }.to_string()
}

#[test]
fn the_page_shows_instances_by_platform_held_back_requests_and_changes() {
    let web = service("web", vec![share(ShareOf::Cluster, 1), share(ShareOf::Ecs, 3)]);
    let status = status(vec![web, service("cart", vec![share(ShareOf::Ecs, 2)])]);
    let held_back = json!([{
        "service": {"namespace": "shop", "name": "late"}, "reason": "DomainConflict",
        "detail": "shop/web holds it", "failed": false,
    }]);

    let page = page(&status, None, &plan(&held_back));

    for part in [
        "<b>16 %</b><span>of the EKS and ECS instances run on EKS</span>",
        "<td class=\"state\">ECS and EKS</td>",
        "<i class=\"eks\" style=\"width:25.0%\" title=\"1 this cluster\"></i>",
        "<td class=\"state\">ECS only</td>",
        "<td><code>shop/late</code></td><td>DomainConflict</td><td>shop/web holds it</td>",
        "<td>register</td><td><code>ip-1</code></td>",
        "plan: 1 to register",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("Changes since"), "{page}");
}

#[test]
fn the_page_loads_nothing_and_escapes_texts_from_outside() {
    let status =
        status(vec![service("<script>alert(1)</script>", vec![share(ShareOf::Unknown, 1)])]);
    let page = page(&status, None, &plan(&json!([])));
    assert!(page.contains("prod.local/&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    for forbidden in ["<script", "<img", "<link", "src=\"", "href=", "url(", "@import"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn members_of_a_clusterset_show_their_exports_imports_and_conflicts() {
    let name = json!({"namespace": "shop", "name": "web"});
    let cluster = json!({
        "cluster": BLUE, "counts": {"imported": 2}, "services": [],
        "multiCluster": {
            "clusterId": "blue", "clusterset": "shop-set", "exports": 1, "imports": 2,
            "exportChanges": [{"change": "+ export     shop/web", "result": "planned"}],
            "changes": [
                {"change": "+ import     shop/<api>  ClusterSetIP", "result": "planned"},
                {"change": "~ slice      shop/imported-x  2 in 1 out", "result": "planned"},
            ],
            "heldBack": [{"service": name, "reason": "ForeignObject", "detail": "it is not ours"}],
            "conflicts": [{"service": name, "reason": "PortConflict", "detail": "the ports differ"}],
        },
    });
    let plan = json!({
        "mode": "plan", "whole": true, "ok": true, "counts": {"imported": 2}, "clusters": [cluster],
    });
    let plan: Report = serde_json::from_value(plan).expect("a plan");

    let page = page(&status(Vec::new()), None, &plan);

    for part in [
        "<b>1</b><span>held back</span>",
        "cluster/blue<br>clusterset shop-set, member blue: 1 export, 2 imports</th>",
        "<td><code>+ export     shop/web</code></td>",
        "<td><code>+ import     shop/&lt;api&gt;  ClusterSetIP</code></td>",
        "<td><code>~ slice      shop/imported-x  2 in 1 out</code></td>",
        "<code class=\"bad\">! held back  shop/web (ForeignObject): it is not ours</code>",
        "<code class=\"bad\">! Conflict   shop/web (PortConflict): the ports differ</code>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("Nothing to do."), "{page}");
}

#[test]
fn member_in_step_has_nothing_to_do_and_other_clusters_have_no_such_section() {
    let with = |multi_cluster: &Value| {
        let mut cluster = json!({"cluster": BLUE, "counts": {}, "services": []});
        if !multi_cluster.is_null() {
            cluster["multiCluster"] = multi_cluster.clone();
        }
        let plan =
            json!({"mode": "plan", "whole": true, "ok": true, "counts": {}, "clusters": [cluster]});
        let plan = serde_json::from_value(plan).expect("a plan");
        page(&status(Vec::new()), None, &plan)
    };
    let member = with(&json!({"clusterId": "blue", "clusterset": "shop-set"}));
    assert!(member.contains("<td class=\"good\">Nothing to do.</td>"), "{member}");
    assert!(!with(&Value::Null).contains("Services across clusters"));
}

#[test]
fn each_service_has_its_changes_since_the_earlier_status() {
    let before = status(vec![
        service("web", vec![share(ShareOf::Ecs, 4)]),
        service("cart", vec![share(ShareOf::Ecs, 2)]),
    ]);
    let now = status(vec![
        service("web", vec![share(ShareOf::Cluster, 2), share(ShareOf::Ecs, 1)]),
        service("cart", vec![share(ShareOf::Ecs, 2)]),
        service("mail", vec![share(ShareOf::Cluster, 1)]),
    ]);
    let since = now.registries[0]
        .services
        .iter()
        .map(|service| Row { status: &now, service, before: Some(&before) }.since());
    let since: Vec<String> = since.collect();
    assert_eq!(since, ["+2 this cluster, −3 ECS", "", "new"]);
    assert!(page(&now, Some(&before), &plan(&json!([]))).contains("<th>Changes since</th>"));
}

#[test]
fn read_errors_come_first() {
    let unreadable = RegistryStatus::unreadable(None, "denied".to_owned());
    let status = Status::new("sync", Vec::new(), vec![unreadable]);
    let page = page(&status, None, &plan(&json!([])));
    let (problem, table) = (page.find("<p class=\"bad\">denied</p>"), page.find("<table>"));
    assert!(problem.is_some() && problem < table, "{page}");
}

#[test]
fn a_services_state_is_its_instances_platforms() {
    let rows = [
        (Split::default(), "empty"),
        (Split { unknown: 1, ..Split::default() }, "neither EKS nor ECS"),
        (Split { ecs: 1, unknown: 1, ..Split::default() }, "ECS only"),
        (Split { other_clusters: 1, ..Split::default() }, "EKS only"),
        (Split { ours: 1, ecs: 1, ..Split::default() }, "ECS and EKS"),
    ];
    for (split, expected) in rows {
        assert_eq!(state(split), expected, "{split:?}");
    }
}
