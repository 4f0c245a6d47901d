//! Two plans and their difference.

use serde_json::{Value, json};

use super::*;

fn line(verb: &str, instance: &str, text: &str) -> Value {
    json!({
        "sign": "~", "code": verb, "object": instance, "text": text, "outcome": "planned",
        "service": {"namespace": "shop", "name": "web"},
    })
}

fn cluster(changes: &[Value]) -> Value {
    let service = json!({"namespace": "shop.local", "name": "web", "lines": changes});
    json!({"cluster": "blue", "services": [service]})
}

fn plan(counts: &Value, clusters: &[Value]) -> Value {
    json!({"mode": "plan", "whole": true, "ok": true, "counts": counts, "clusters": clusters})
}

fn difference(before: Value, after: Value) -> PlanDifference {
    let [before, after] = [before, after].map(|plan| serde_json::from_value(plan).expect("a plan"));
    PlanDifference::between(before, after).expect("two plans of one scope")
}

#[test]
fn comment_has_the_rows_that_only_one_plan_has() {
    let held_back = json!({
        "service": {"namespace": "shop", "name": "cart"}, "sign": "!", "code": "NotAllowed",
        "text": "no rule | allows it", "outcome": "kept_out",
    });
    let mut after = cluster(&[
        line("register", "ip-1", "10.0.0.1"),
        line("rewrite", "ip-2", "weight 1 to 3"),
        line("register", "ip-4", "10.0.0.4"),
    ]);
    let warning = json!({"sign": "!", "code": "warning", "text": "a warning", "outcome": "remark"});
    after["lines"] = json!([held_back, warning]);
    let before = cluster(&[
        line("deregister", "ip-3", "gone"),
        line("register", "ip-1", "10.0.0.1"),
        line("rewrite", "ip-2", "weight 1 to 2"),
    ]);
    let before = plan(&json!({"registered": 1, "rewritten": 1, "deregistered": 1}), &[before]);
    let after = plan(&json!({"registered": 2, "rewritten": 1, "heldBack": 1}), &[after]);
    let difference = difference(before, after);
    insta::assert_snapshot!(difference, @r"
    ### blue

    | Plan | | Cloud Map service | Instance | Kubernetes Service | Detail |
    |---|---|---|---|---|---|
    | only after | warning |  |  |  | a warning |
    | only after | held back |  |  | shop/cart | NotAllowed: no rule \| allows it |
    | differs | rewrite | shop.local/web | ip-2 | shop/web | weight 1 to 2 → weight 1 to 3 |
    | only before | deregister | shop.local/web | ip-3 | shop/web | gone |
    | only after | register | shop.local/web | ip-4 | shop/web | 10.0.0.4 |

    - Before: **plan: 1 to register, 1 to rewrite, 1 to deregister**
    - After: **plan: 2 to register, 1 to rewrite, 1 held back**
    ");
    assert_eq!(difference.code(), Code::Changes);
}

#[test]
fn page_has_the_lines_of_a_cluster_that_was_not_read_below_the_error() {
    let warning = json!({"sign": "!", "code": "warning", "text": "a warning", "outcome": "remark"});
    let cluster = json!({"cluster": "blue", "error": "no answer", "lines": [warning]});
    let report = serde_json::from_value(plan(&json!({}), &[cluster])).expect("a plan");
    insta::assert_snapshot!(MarkdownPage(&report), @r"
    ### blue

    Cluster not read, so nothing was changed in Cloud Map: no answer

    | | Cloud Map service | Instance | Kubernetes Service | Detail |
    |---|---|---|---|---|
    | warning |  |  |  | a warning |

    **plan: nothing to do**
    ");
}

#[test]
fn lines_of_clustersets_and_orphans_are_compared() {
    let before = plan(
        &json!({}),
        &[json!({
            "cluster": "blue",
            "multiCluster": {"lines": [{
                "service": {"namespace": "shop", "name": "web"}, "object": "shop/web", "sign": "+",
                "code": "import", "text": "Headless", "outcome": "planned",
            }]},
        })],
    );
    let mut after = plan(&json!({}), &[json!({"cluster": "blue", "error": "no answer"})]);
    after["orphans"] = json!([{"cluster": "green", "instances": 1, "detail": "1 instance"}]);
    insta::assert_snapshot!(difference(before, after), @r"
    ### Orphans of green

    | Plan | | Cloud Map service | Instance | Kubernetes Service | Detail |
    |---|---|---|---|---|---|
    | only after | orphans |  |  |  | 1 instance |

    ### blue

    | Plan | | Cloud Map service | Instance | Kubernetes Service | Detail |
    |---|---|---|---|---|---|
    | only before | clusterset |  |  |  | + import     shop/web  Headless |
    | only after | not read |  |  |  | no answer |

    - Before: **plan: nothing to do**
    - After: **plan: nothing to do**
    ");
}

#[test]
fn equal_plans_have_no_difference_and_an_incomplete_one_is_an_error() {
    let one =
        || plan(&json!({"registered": 1}), &[cluster(&[line("register", "ip-1", "10.0.0.1")])]);
    // One line twice is not one line once.
    let twice = [line("register", "ip-1", "10.0.0.1"), line("register", "ip-1", "10.0.0.1")];
    let with = |key: &str, value: Value| {
        let mut plan = one();
        plan[key] = value;
        plan
    };
    let rows = [
        (one(), one(), Code::InStep),
        (one(), plan(&json!({}), &[cluster(&twice)]), Code::Changes),
        (one(), plan(&json!({}), &[]), Code::Changes),
        (one(), with("ok", json!(false)), Code::Error),
        (with("cut", json!("the first 2 lines")), one(), Code::Error),
    ];
    for (before, after, code) in rows {
        let text = format!("{before} {after}");
        assert_eq!(difference(before, after).code(), code, "{text}");
    }
    let equal = difference(one(), one()).to_string();
    assert!(equal.starts_with("Both plans have the same changes.\n"), "{equal}");
}

#[test]
fn plans_of_different_scopes_are_refused() {
    let of = |scope: &str| {
        let mut plan = plan(&json!({}), &[]);
        plan["scope"] = json!(scope);
        serde_json::from_value::<Report>(plan).expect("a plan")
    };
    for (before, after) in [("blue/shop", "blue/cart"), ("blue", "green")] {
        let refusal = PlanDifference::between(of(before), of(after)).expect_err("two scopes");
        let expected = format!(
            "one of the plans is of {before}, and the other of {after}: plan the same scope twice"
        );
        assert_eq!(refusal, expected);
    }
    assert!(PlanDifference::between(of("blue"), of("blue")).is_ok());
}

#[test]
fn cluster_orphans_and_unchanged_names_that_only_one_plan_has_are_differences() {
    let names =
        |count: usize| json!([{"namespace": "shop.local", "name": "web", "unchanged": count}]);
    let blue = |count: usize| json!({"cluster": "blue", "services": names(count)});
    let green = || json!({"cluster": "green", "services": names(1)});
    let before = || plan(&json!({}), &[blue(2), green()]);
    let mut with_orphans = before();
    with_orphans["orphans"] = json!([{
        "cluster": "red", "instances": 3, "detail": "3 instances",
    }]);
    for (after, rows) in [
        (
            plan(&json!({}), &[blue(2)]),
            "### green\n\n\
             | Plan | | Cloud Map service | Instance | Kubernetes Service | Detail |\n\
             |---|---|---|---|---|---|\n\
             | only before | cluster |  |  |  | planned |\n\
             | only before | unchanged | shop.local/web |  |  | 1 instance |\n\n- Before",
        ),
        (
            plan(&json!({}), &[blue(3), green()]),
            "| differs | unchanged | shop.local/web |  |  | 2 instances → 3 instances |\n\n- Before",
        ),
        (with_orphans, "| only after | orphans |  |  |  | 3 instances |\n\n- Before"),
    ] {
        let difference = difference(before(), after);
        assert!(difference.to_string().contains(rows), "{difference}");
        assert_eq!(difference.code(), Code::Changes, "{difference}");
    }
    assert_eq!(difference(before(), before()).code(), Code::InStep);
}
