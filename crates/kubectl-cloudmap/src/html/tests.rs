use serde_json::{Value, json};

use super::HtmlPage;
use cloud_map_sync::actions::status::{RegistryStatus, ServiceStatus, Share, ShareOf, Status};
use cloud_map_sync::model::Timestamp;
use cloud_map_sync::report::Report;

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
const GREEN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/green";

fn share(by: ShareOf, count: usize) -> Share {
    let ours = by == ShareOf::Cluster;
    let name = ours.then(|| BLUE.to_owned());
    let owner = ours.then(|| "sync".to_owned());
    Share { by, name, owner, count }
}

fn service(name: &str, instances: Vec<Share>) -> ServiceStatus {
    let namespace = "prod.local".to_owned();
    let kind = "A".to_owned();
    ServiceStatus { namespace, name: name.to_owned(), kind, instances, ..ServiceStatus::default() }
}

fn status(services: Vec<ServiceStatus>) -> Status {
    let registry = RegistryStatus { services, ..RegistryStatus::default() };
    Status::new("sync", vec![BLUE.to_owned()], vec![registry])
}

fn plan(held_back: &[Value]) -> Report {
    let change = json!({
        "sign": "+", "code": "register", "object": "ip-1", "text": "10.0.0.1 <img src=x>",
        "service": {"namespace": "shop", "name": "web"}, "outcome": "planned",
    });
    let lines = [&[change], held_back].concat();
    let web = json!({"namespace": "prod.local", "name": "web", "lines": lines});
    let cluster = json!({"cluster": BLUE, "counts": {"registered": 1}, "services": [web]});
    let plan = json!({
        "mode": "plan", "whole": true, "ok": true, "counts": {"registered": 1}, "clusters": [cluster],
    });
    serde_json::from_value(plan).expect("a plan")
}

fn page(status: &Status, before: Option<&Status>, plan: &Report) -> String {
    let now = Timestamp::from_second(1_795_252_502).expect("a time");
    HtmlPage { status, before, plan, now }.to_string()
}

#[test]
fn the_page_shows_instances_by_platform_held_back_requests_and_changes() {
    let web = service("web", vec![share(ShareOf::Cluster, 1), share(ShareOf::Ecs, 3)]);
    let status = status(vec![web, service("cart", vec![share(ShareOf::Ecs, 2)])]);
    let held_back = [json!({
        "service": {"namespace": "shop", "name": "late"}, "sign": "!", "code": "DomainConflict",
        "text": "shop/web holds it", "outcome": "kept_out",
    })];

    let page = page(&status, None, &plan(&held_back));

    for part in [
        "<b>16 %</b><span>of the EKS and ECS instances run on EKS</span>",
        "<summary>on ECS and EKS <b>1</b></summary>",
        "<i class=\"eks\" style=\"flex-grow:1\"></i><i class=\"ecs\" style=\"flex-grow:3\"></i></div>",
        "<i class=\"eks\"></i>this cluster 1</span> <span><i class=\"ecs\"></i>ECS 3</span>",
        "<td data-heading=\"Clusters\">blue 1</td>",
        "<summary>on ECS only <b>1</b></summary>",
        "<code>shop/late</code></td><td data-heading=\"Cluster\">blue</td>",
        "<td data-heading=\"Reason\">DomainConflict</td><td data-heading=\"Details\">shop/web holds it</td>",
        "<span class=\"good\">+ register</span></td><td data-heading=\"Instance\"><code>ip-1</code></td>",
        "plan: 1 to register",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    for absent in ["Changes since", "<nav"] {
        assert!(!page.contains(absent), "{absent}\n{page}");
    }
}

#[test]
fn the_filter_leaves_the_rows_of_one_cluster() {
    let green = Share { name: Some(GREEN.to_owned()), ..share(ShareOf::Cluster, 2) };
    let web = service("web", vec![share(ShareOf::Ecs, 1)]);
    let both = service("both", vec![share(ShareOf::Cluster, 1), green.clone()]);
    let page = page(&status(vec![web, both, service("api", vec![green])]), None, &plan(&[]));
    for part in [
        &format!("<a id=\"c0\" href=\"#c0\" title=\"{BLUE}\">blue</a>"),
        &format!("<a id=\"c1\" href=\"#c1\" title=\"{GREEN}\">green</a>"),
        ":root:has(#c1:target) .row:not(.c1), :root:has(#c1:target) .group:not(:has(.c1)) { display: none; }",
        // The plan would register it there.
        "<tr class=\"row c0\"><td data-heading=\"Service\"><code>prod.local/web</code> <small>",
        "<tr class=\"row c0 c1\"><td data-heading=\"Service\"><code>prod.local/both</code> <small>",
        "<tr class=\"row c1\"><td data-heading=\"Service\"><code>prod.local/api</code> <small>",
        "<td data-heading=\"Clusters\">blue 1, green 2</td>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn clusters_of_one_name_are_shown_by_their_arns() {
    let elsewhere = BLUE.replace("central", "west");
    let west = Share { name: Some(elsewhere.clone()), ..share(ShareOf::Cluster, 2) };
    let page = page(&status(vec![service("web", vec![west])]), None, &plan(&[]));
    assert!(page.contains(&format!("<td data-heading=\"Clusters\">{elsewhere} 2</td>")), "{page}");
}

#[test]
fn the_page_loads_nothing_and_escapes_texts_from_outside() {
    let status =
        status(vec![service("<script>alert(1)</script>", vec![share(ShareOf::Unknown, 1)])]);
    let page = page(&status, None, &plan(&[]));
    assert!(page.contains("prod.local/&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    for forbidden in ["<script", "<img", "<link", "src=\"", "href=\"h", "url(", "@import"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn members_of_a_clusterset_show_their_exports_imports_and_conflicts() {
    let name = json!({"namespace": "shop", "name": "web"});
    let change = |sign: &str, code: &str, object: &str, text: &str| {
        json!({
            "service": name, "object": object, "sign": sign, "code": code, "text": text,
            "outcome": "planned",
        })
    };
    let reason = |code: &str, text: &str, outcome: &str| json!({"service": name, "sign": "!", "code": code, "text": text, "outcome": outcome});
    let cluster = json!({
        "cluster": BLUE, "counts": {"imported": 2}, "services": [],
        "multiCluster": {
            "clusterId": "blue", "clusterset": "shop-set", "exports": 1, "imports": 2,
            "lines": [
                change("+", "export", "shop/web", ""),
                change("+", "import", "shop/<api>", "ClusterSetIP"),
                change("~", "slice", "shop/imported-x", "2 in 1 out"),
                reason("ForeignObject", "it is not ours", "held_back"),
                reason("PortConflict", "the ports differ", "remark"),
            ],
        },
    });
    let plan = json!({
        "mode": "plan", "whole": true, "ok": true, "counts": {"imported": 2}, "clusters": [cluster],
    });
    let plan: Report = serde_json::from_value(plan).expect("a plan");

    let page = page(&status(Vec::new()), None, &plan);

    for part in [
        "<b>1</b><span>held back</span>",
        "<div class=\"row lines c0\">\n<h3>blue</h3>\n<p>clusterset shop-set, member blue: 1 export, 2 imports</p>",
        "<code>+ export     shop/web</code>",
        "<code>+ import     shop/&lt;api&gt;  ClusterSetIP</code>",
        "<code>~ slice      shop/imported-x  2 in 1 out</code>",
        "<code class=\"bad\">! held back  shop/web (ForeignObject): it is not ours</code>",
        "<code class=\"bad\">! remark     shop/web (PortConflict): the ports differ</code>",
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
    assert!(member.contains("<p class=\"good\">Nothing to do.</p>"), "{member}");
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
    let page = page(&now, Some(&before), &plan(&[]));
    let cells = page.split("<td data-heading=\"Changes since\">").skip(1);
    let since: Vec<&str> = cells.filter_map(|it| it.split("</td>").next()).collect();
    assert_eq!(since, ["", "+2 this cluster, −3 ECS", "new"]);
}

#[test]
fn read_errors_come_first() {
    let unreadable = RegistryStatus::unreadable(None, "denied".to_owned());
    let status = Status::new("sync", Vec::new(), vec![unreadable]);
    let page = page(&status, None, &plan(&[]));
    let problem = page.find("<p class=\"bad\">denied</p>");
    let services = page.find("<h2>Services by platform");
    assert!(problem.is_some() && problem < services, "{page}");
}

#[test]
fn services_are_grouped_by_their_instances_platforms() {
    let other = Share { name: Some(GREEN.to_owned()), ..share(ShareOf::Cluster, 1) };
    let [ours, ecs, unknown] =
        [ShareOf::Cluster, ShareOf::Ecs, ShareOf::Unknown].map(|by| share(by, 1));
    for (instances, expected) in [
        (vec![], "without instances"),
        (vec![unknown.clone()], "on neither"),
        (vec![ecs.clone(), unknown], "on ECS only"),
        (vec![other], "on EKS only"),
        (vec![ours, ecs], "on ECS and EKS"),
    ] {
        let page = page(&status(vec![service("web", instances)]), None, &plan(&[]));
        assert!(page.contains(&format!("<summary>{expected} <b>1</b>")), "{expected}: {page}");
    }
    let unreadable = Some("throttled <".to_owned());
    let cart = ServiceStatus { unreadable, ..service("cart", vec![share(ShareOf::Ecs, 1)]) };
    let page = page(&status(vec![cart]), None, &plan(&[]));
    for part in ["<summary>not read <b>1</b>", "<span class=\"bad\">throttled &lt;</span>"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}
