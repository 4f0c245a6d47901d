//! Responses of the function: their output, their exit code, and what a `status` leaves out of them.

use serde_json::{Value, json};

use super::answer::{Code, FunctionAnswer, Shown as _};
use super::narrow;
use cloud_map_sync::report::Report;

fn counts() -> Value {
    json!({"registered": 1, "deregistered": 1, "unchanged": 3, "foreign": 1, "heldBack": 1})
}

fn line(sign: &str, verb: &str, instance: &str, outcome: &Value) -> Value {
    json!({
        "sign": sign, "code": verb, "object": instance, "text": format!("of {instance} | <b>"),
        "service": {"namespace": "shop", "name": "web"}, "outcome": outcome,
    })
}

fn answer(mode: &str, ok: bool) -> Value {
    let held_back = json!({
        "service": {"namespace": "shop", "name": "cart"}, "sign": "!", "code": "DomainConflict",
        "text": "shop/web holds it", "outcome": "kept_out",
    });
    let service = json!({
        "namespace": "shop.local", "name": "web", "unchanged": 3, "foreign": {"ecs": 1},
        "lines": [
            line("+", "register", "ip-1", &json!("planned")),
            line("-", "deregister", "ip-2", &json!({"undone": {"why": "no time"}})),
            held_back,
        ],
    });
    let cluster = json!({"cluster": "blue", "counts": counts(), "services": [service]});
    json!({"mode": mode, "whole": false, "ok": ok, "counts": counts(), "clusters": [cluster]})
}

fn read(value: Value) -> FunctionAnswer<Report> {
    FunctionAnswer::read(value).expect("an answer of this release")
}

#[test]
fn a_plans_code_shows_changes_and_a_syncs_code_whether_they_were_made() {
    let in_step = |mode: &str, ok: bool| {
        let counts = json!({"unchanged": 3, "heldBack": 1});
        json!({"mode": mode, "whole": true, "ok": ok, "counts": counts, "clusters": []})
    };
    let rows = [
        (answer("plan", true), Code::Changes),
        (answer("dry-run", true), Code::Changes),
        (answer("sync", true), Code::InStep),
        (answer("plan", false), Code::Error),
        (answer("sync", false), Code::Error),
        (in_step("plan", true), Code::InStep),
        (in_step("sync", false), Code::Error),
    ];
    for (answer, code) in rows {
        let text = answer.to_string();
        assert_eq!(read(answer).code(), code, "{text}");
    }
}

#[test]
fn every_kind_of_change_counts_as_one() {
    for kind in
        ["created", "updated", "registered", "rewritten", "adopted", "deregistered", "imported"]
    {
        let mut answer = answer("plan", true);
        answer["counts"] = json!({kind: 1});
        assert_eq!(read(answer).code(), Code::Changes, "{kind}");
    }
}

#[test]
fn the_wide_table_adds_the_service_of_each_instance() {
    let answer = read(answer("plan", true));
    insta::assert_snapshot!(answer.parsed.table(true), @r"
    cluster blue
      shop.local/web
        + register   ip-1  of ip-1 | <b>  for shop/web
        - deregister ip-2  of ip-2 | <b>  ! not done: no time  for shop/web
        = 3 unchanged
        = left alone, not ours: 1 ECS
        ! held back  shop/cart (DomainConflict): shop/web holds it
    plan: 1 to register, 1 to deregister, 3 unchanged, 1 not ours, 1 held back
    ");
    assert_eq!(answer.parsed.table(false), answer.parsed.table(true).replace("  for shop/web", ""));
}

#[test]
fn markdown_has_a_row_for_each_line_and_escapes_texts() {
    insta::assert_snapshot!(read(answer("plan", true)).parsed.markdown(), @r"
    ### blue

    | | Cloud Map service | Instance | Kubernetes Service | Detail |
    |---|---|---|---|---|
    | register | shop.local/web | ip-1 | shop/web | of ip-1 \| \<b\> |
    | deregister | shop.local/web | ip-2 | shop/web | of ip-2 \| \<b\>; not done: no time |
    | held back | shop.local/web |  | shop/cart | DomainConflict: shop/web holds it |

    **plan: 1 to register, 1 to deregister, 3 unchanged, 1 not ours, 1 held back**
    ");
}

#[test]
fn markdown_has_the_lines_of_a_clusterset_in_a_block_that_no_text_ends() {
    let service = json!({"namespace": "shop", "name": "web"});
    let mut answer = answer("plan", true);
    answer["counts"] = json!({"imported": 1});
    let report = json!({
        "clusterId": "blue", "clusterset": "shop-set", "exports": 1, "imports": 2,
        "lines": [
            {"service": service, "object": "shop/web", "sign": "+", "code": "export", "text": "", "outcome": "planned"},
            {
                "service": service, "object": "shop/web", "sign": "+", "code": "import", "text": "Headless",
                "outcome": "planned",
            },
            {"service": service, "sign": "!", "code": "PortConflict", "text": "a ``` b", "outcome": "remark"},
        ],
    });
    answer["clusters"] = json!([{"cluster": "blue", "multiCluster": report}]);
    insta::assert_snapshot!(read(answer.clone()).parsed.markdown(), @r"
    ### blue

    Clusterset shop-set, member blue: 1 exports, 2 imports

    ```text
    + export     shop/web
    + import     shop/web  Headless
    ! remark     shop/web (PortConflict): a ''' b
    ```

    **plan: 1 to write in clusters**
    ");
    answer["clusters"][0]["multiCluster"] = json!({"exports": 1, "imports": 2});
    assert!(read(answer).parsed.markdown().contains("\nIn sync.\n"));
}

#[test]
fn a_cut_answer_names_the_cut() {
    let mut cut = answer("plan", true);
    cut["cut"] = json!("the first 2 lines");
    let answer = read(cut);
    assert_eq!(answer.code(), Code::Changes);
    let table = answer.parsed.table(false);
    let markdown = answer.parsed.markdown();
    assert!(table.contains("\n! the first 2 lines\n"), "{table}");
    assert!(markdown.contains("\nthe first 2 lines\n"), "{markdown}");
}

#[test]
fn a_response_that_is_no_report_is_an_error() {
    for other in [json!({"ok": true}), json!("done"), json!(null)] {
        let error = FunctionAnswer::<Report>::read(other).expect_err("no report");
        assert!(error.to_string().contains("another version"), "{error}");
    }
}

#[test]
fn only_the_names_asked_for_are_left() {
    let service = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
    let services = json!([service("a", "web"), service("a", "cart"), service("b", "web")]);
    let rows = [
        (None, None, "a/web a/cart b/web", true),
        (Some("web"), None, "a/web b/web", false),
        (Some("WEB"), Some("b"), "b/web", false),
        (Some("a/web"), None, "a/web", false),
        (None, Some("a"), "a/web a/cart", false),
        (Some("a/web"), Some("b"), "", false),
    ];
    for (name, namespace, expected, has_members) in rows {
        let mut status =
            json!({"registries": [{"services": services, "clustersets": [{"members": []}]}]});
        narrow(&mut status, name, namespace);
        let registry = &status["registries"][0];
        let left = registry["services"].as_array().expect("a list").iter();
        let text = |it: &Value, key: &str| it[key].as_str().expect("a name").to_owned();
        let left = left.map(|it| format!("{}/{}", text(it, "namespace"), text(it, "name")));
        assert_eq!(left.collect::<Vec<_>>().join(" "), expected);
        assert_eq!(registry.get("clustersets").is_some(), has_members);
    }
}
