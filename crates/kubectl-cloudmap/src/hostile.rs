//! Answers in which every text is hostile, as tenants write them into annotations and manifests: whatever the command
//! and the format, they forge no line, move no cursor, and nothing of them is live in Markdown or HTML.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::text as text_of;
use super::answer::{FunctionAnswer, Shown};
use super::arguments::Format;
use super::html::HtmlPage;
use super::markdown::PlanDifference;
use cloud_map_sync::actions::doctor::Checkup;
use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::actions::status::Status;
use cloud_map_sync::model::Timestamp;
use cloud_map_sync::report::Report;

const FORGED: &str = "no problems found";
const HOSTILE: &str = "x\nno problems found\r\n```\n![i](https://evil.example/p.png) @everyone #1 GH-1 a@evil.example \
                       www.evil.example <img src=https://evil.example> &#64;me & | `@a` a|@b`c \u{202e}\u{2066}\u{2028}\
                       \u{200b}\u{9b}31m\u{1b}[2J\u{7f}\0";

/// The answer with a hostile text in place of each text that the type does not restrict.
fn poisoned<T: DeserializeOwned>(mut answer: Value) -> Value {
    let mut pointers = Vec::new();
    find_texts(&answer, String::new(), &mut pointers);
    let mut poisoned = 0;
    for pointer in pointers {
        let text = answer.pointer_mut(&pointer).expect("a text of the answer");
        let before = std::mem::replace(text, json!(HOSTILE));
        if T::deserialize(&answer).is_ok() {
            poisoned += 1;
        } else {
            *answer.pointer_mut(&pointer).expect("the same text") = before;
        }
    }
    assert!(poisoned > 4, "few texts are hostile: {answer}");
    answer
}

fn find_texts(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    match value {
        Value::String(_) => pointers.push(pointer),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, it)| find_texts(it, format!("{pointer}/{index}"), pointers));
        }
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(key, it)| find_texts(it, format!("{pointer}/{key}"), pointers));
        }
        _ => {}
    }
}

fn assert_no_hidden_character(text: &str, case: &str) {
    let hidden = |it: &char| {
        (it.is_control() && *it != '\n')
            || matches!(*it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{2028}')
    };
    let found: Vec<char> = text.chars().filter(hidden).collect();
    assert!(found.is_empty(), "{case}: {found:?} in {text:?}");
}

fn assert_no_forged_line(text: &str, own: usize, case: &str) {
    let lines = text.split('\n').map(|line| line.trim_start_matches(['|', ' ', '>']));
    let forged = lines.filter(|line| line.starts_with(FORGED)).count();
    assert_eq!(forged, own, "{case}: {text}");
}

/// What Markdown shows outside of its code, where it may be live.
fn outside_of_code(markdown: &str) -> String {
    let mut outside = String::new();
    let mut is_code = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let mut is_span = false;
            let mut letters = line.chars();
            while let Some(letter) = letters.next() {
                match letter {
                    '`' => is_span = !is_span,
                    '\\' if !is_span => {
                        letters.next();
                    }
                    other if !is_span => outside.push(other),
                    _ => {}
                }
            }
            assert!(!is_span, "an open code span: {line}");
            outside.push('\n');
        }
    }
    assert!(!is_code, "an open code block: {markdown}");
    outside
}

fn assert_dead_markdown(markdown: &str, case: &str) {
    let outside = outside_of_code(markdown);
    for live in ["@", "#1", "://", "www.", "GH-", "](", "![", "<img", "&"] {
        assert!(!outside.contains(live), "{case}: {live:?} is live in {markdown}");
    }
}

fn assert_every_format<T: DeserializeOwned + Shown>(answer: Value, own: usize, case: &str) {
    let answer = poisoned::<T>(answer);
    let shown: FunctionAnswer<T> =
        FunctionAnswer::read(answer.clone()).expect("an answer of this release");
    let formats =
        [Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Md, Format::Name];
    for format in formats {
        let case = format!("{case} -o {format:?}");
        let text = text_of(&shown, format).expect("every answer has every format");
        assert_no_hidden_character(&text, &case);
        match format {
            Format::Json => {
                assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(answer.clone()));
            }
            Format::Yaml => {
                let read: Value = serde_saphyr::from_str(&text).expect("YAML");
                assert_eq!(read, answer, "{text}");
            }
            Format::Md => {
                assert_dead_markdown(&text, &case);
                assert_no_forged_line(&text, own, &case);
            }
            Format::Table | Format::Wide => assert_no_forged_line(&text, own, &case),
            Format::Name => assert_no_forged_line(&text, 0, &case),
        }
    }
}

fn report() -> Value {
    let service = json!({"namespace": "shop", "name": "web"});
    let held = json!({
        "service": service, "sign": "!", "code": "BadAnnotation", "text": "a text", "outcome": "kept_out",
    });
    let lines = json!([
        {
            "sign": "+", "code": "register", "object": "i", "text": "a text", "service": service, "outcome": {"failed": {"error": "a text"}},
        },
        {
            "sign": "-", "code": "deregister", "object": "i", "text": "a text", "service": service, "outcome": {"undone": {"why": "a text"}},
        },
        {"sign": "!", "code": "Unreadable", "text": "a text", "outcome": "unread"},
        held,
    ]);
    let warning = json!({"sign": "!", "code": "warning", "text": "a text", "outcome": "remark"});
    let guard = json!({
        "state": "held", "loss": 1, "instances": 2, "share": 50, "minimum": 1, "needsOperator": false, "detail": "a text",
        "services": [{"service": service, "instances": 1}],
    });
    let lines_of_clusterset = json!([
        {
            "service": service, "object": "a", "sign": "+", "code": "import", "text": "a text", "outcome": {"failed": {"error": "a text"}},
        },
        {"service": service, "sign": "!", "code": "PortConflict", "text": "a text", "outcome": "remark"},
        {"sign": "!", "code": "stale", "text": "a text", "outcome": "remark"},
        {"sign": "!", "code": "NoMultiClusterApi", "text": "a text", "outcome": "held_back"},
        held,
    ]);
    let services = json!([{"namespace": "shop.local", "name": "web", "lines": lines}]);
    json!({
        "mode": "plan", "whole": true, "ok": true, "counts": {"registered": 1}, "cut": "a text",
        "clusters": [
            {
                "cluster": "blue", "registry": "a text", "services": services, "lines": [held, warning],
                "guard": guard,
                "multiCluster": {
                    "clusterId": "blue", "clusterset": "set", "guard": guard, "lines": lines_of_clusterset,
                },
            },
            {"cluster": "green", "error": "a text"},
        ],
        "orphans": [{
            "instances": 1, "detail": "a text", "cluster": "red",
        }],
        "dropped": [{"message": "a", "reason": "b", "detail": "a text"}],
    })
}

fn status() -> Value {
    let share = |by: &str| json!({"by": by, "name": "a text", "owner": "a text", "count": 1});
    let services = json!([
        {"namespace": "a", "name": "web", "kind": "A", "instances": [share("cluster"), share("ecs"), share("unknown")]},
        {"namespace": "a", "name": "web", "kind": "A", "unreadable": "a text", "instances": []},
    ]);
    json!({
        "ok": true, "owner": "sync", "clusters": ["blue"], "cut": "a text",
        "registries": [{"registry": "a text", "services": services}, {"error": "a text"}],
    })
}

fn explanation() -> Value {
    let fact = json!([
        {"name": "annotation", "outcome": "ok", "detail": "hostname: web"},
        {"name": "annotation", "outcome": "failed", "detail": "hostname: web"},
    ]);
    let service = json!({"namespace": "shop", "name": "web"});
    let held = json!([{
        "service": service, "sign": "!", "code": "BadAnnotation", "text": "a text", "outcome": "kept_out",
    }]);
    let discovery = json!({"dns": "a text", "ours": {HOSTILE: 1}, "others": {}});
    let endpoint = json!([{
        "pod": "a", "addresses": ["10.0.0.1"], "condition": "ready", "fate": "present", "detail": "a text",
    }]);
    json!({
        "ok": true, "cluster": "blue", "service": service, "facts": fact, "cut": "a text", "heldBack": held,
        "names": [{
            "namespace": "a", "name": "b", "facts": fact, "endpoints": endpoint, "heldBack": held, "discovery": discovery,
        }],
        "clusterset": {"member": "a", "clusterset": "b", "facts": fact, "heldBack": held},
    })
}

fn checkup() -> Value {
    let check = |outcome: &str| json!({"name": "rbac", "outcome": outcome, "detail": "a text", "fix": "a text"});
    let checks = [check("ok"), check("note"), check("failed")];
    json!({"ok": false, "cut": "a text", "clusters": [{"cluster": "blue", "checks": checks}]})
}

#[test]
fn hostile_texts_forge_nothing_in_any_format() {
    assert_every_format::<Report>(report(), 0, "plan");
    assert_every_format::<Status>(status(), 0, "status");
    assert_every_format::<Explanation>(explanation(), 1, "explain");
    assert_every_format::<Checkup>(checkup(), 0, "doctor");
}

#[test]
fn hostile_texts_forge_nothing_in_a_comment_on_two_plans() {
    let after = FunctionAnswer::read(poisoned::<Report>(report())).expect("a report").parsed;
    let before = json!({"mode": "plan", "whole": true, "ok": true, "counts": {}, "clusters": []});
    let before = FunctionAnswer::read(before).expect("a report").parsed;
    let comment = PlanDifference::between(before, after).expect("one scope").to_string();
    assert_no_hidden_character(&comment, "diff");
    assert_dead_markdown(&comment, "diff");
    assert_no_forged_line(&comment, 0, "diff");
}

#[test]
fn hostile_texts_are_no_markup_on_the_page() {
    let status: FunctionAnswer<Status> =
        FunctionAnswer::read(poisoned::<Status>(status())).expect("a status");
    let plan: FunctionAnswer<Report> =
        FunctionAnswer::read(poisoned::<Report>(report())).expect("a report");
    let now = Timestamp::from_second(1_795_252_502).expect("a time");
    let page =
        HtmlPage { status: &status.parsed, before: Some(&status.parsed), plan: &plan.parsed, now };
    let page = page.to_string();
    assert_no_hidden_character(&page, "html");
    assert!(page.contains("evil.example") && !page.contains("<img"), "{page}");
    assert_no_forged_line(&page, 0, "html");
}
