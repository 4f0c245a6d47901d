//! What template.yaml says of other files: its alarms and dashboard use metrics that the function writes
//! and fields that its log has, and each alarm names a section of the runbook, which has every reason.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use cloud_map_sync::function::delay;
use cloud_map_sync::report::metrics;
use serde_json::Value;

const TEMPLATE: &str = include_str!("../template.yaml");
const RUNBOOK: &str = include_str!("../docs/runbook.md");
const METRICS: &str = include_str!("../docs/reference/metrics.md");
const WORDS: [&str; 12] = [
    "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
];
/// The urgencies of alarms: whether one pages or can wait.
const PAGE: &str = "page";
const NOTICE: &str = "notice";
/// The columns of a CloudWatch dashboard.
const COLUMNS: u64 = 24;

/// The template as YAML, in which the functions of CloudFormation are their arguments.
static RESOLVED: LazyLock<Value> =
    LazyLock::new(|| serde_saphyr::from_str(TEMPLATE).expect("YAML"));

/// The properties of the resources of a type.
fn resources(kind: &str) -> Vec<&'static Value> {
    let all = RESOLVED["Resources"].as_object().expect("resources").values();
    all.filter(|it| it["Type"] == kind).map(|it| &it["Properties"]).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The urgency of an alarm and its section of the runbook, both from its name.
fn urgency_and_section(alarm: &Value) -> (&str, &str) {
    let name = text(&alarm["AlarmName"]).strip_prefix("${AWS::StackName}-");
    name.and_then(|name| name.split_once('-')).expect("urgency and section")
}

/// The description of an alarm, without the variables of its `Fn::Sub`.
fn description(alarm: &Value) -> &str {
    let description = &alarm["AlarmDescription"];
    text(description.get(0).unwrap_or(description))
}

/// The metric that an alarm by cluster asks for, and the rest of its query.
fn queried(alarm: &Value) -> Option<(&str, &str)> {
    let query = alarm["Metrics"][0]["Expression"].as_str()?;
    query.strip_prefix("SELECT MAX(")?.split_once(") ")
}

fn widgets() -> Vec<Value> {
    let [dashboard] = resources("AWS::CloudWatch::Dashboard").try_into().expect("one");
    let body: Value = serde_json::from_str(text(&dashboard["DashboardBody"])).expect("JSON");
    body["widgets"].as_array().expect("a list").clone()
}

fn of_cluster(name: &str) -> bool {
    metrics::CLUSTER_METRICS.iter().any(|metric| metric.name == name)
}

fn of_invocation(name: &str) -> bool {
    metrics::INVOCATION_METRICS.iter().any(|metric| metric.name == name)
}

#[test]
fn every_alarm_is_on_a_metric_that_exists_and_names_its_section_of_the_runbook() {
    let anchors = anchors();
    let alarms = resources("AWS::CloudWatch::Alarm");
    assert!(alarms.len() >= 8, "{}", alarms.len());
    let mut named = BTreeSet::new();
    for alarm in alarms {
        let (urgency, anchor) = urgency_and_section(alarm);
        assert!([PAGE, NOTICE].contains(&urgency), "{urgency}");
        let link = format!(" docs/runbook.md#{anchor}");
        assert!(description(alarm).ends_with(&link), "{anchor} in {alarm}");
        assert!(anchors.contains(anchor), "docs/runbook.md has no #{anchor}");
        assert!(named.insert(anchor), "two alarms have #{anchor}");
        if let Some((metric, rest)) = queried(alarm) {
            assert!(of_cluster(metric), "{metric} is no metric of a cluster");
            let function = metrics::FUNCTION;
            let cluster = metrics::CLUSTER;
            let asked = format!(
                "FROM SCHEMA(\"{}\", {function}, {cluster}) WHERE {function} = '${{SyncFunction}}' \
                 GROUP BY {cluster}",
                metrics::NAMESPACE
            );
            assert_eq!(rest, asked);
            continue;
        }
        let metric = text(&alarm["MetricName"]);
        if text(&alarm["Namespace"]) == metrics::NAMESPACE {
            assert!(of_invocation(metric), "{metric} has no cluster that a template could know");
            assert_eq!(alarm["Dimensions"][0]["Name"], metrics::FUNCTION);
        }
        if metric == "GoodFullSync" {
            // Several runs may report it in a minute, one of them by hand.
            assert_eq!(alarm["Statistic"], "Minimum");
            assert_eq!(alarm["TreatMissingData"], "breaching");
        }
        if metric == "Orphans" {
            // Each full sync counts all of them.
            assert_eq!(alarm["Statistic"], "Maximum");
            assert!(description(alarm).contains("kubectl cloudmap purge --cluster ARN"));
        }
        if metric == "Unread" {
            // It is written only while above 0, and the first full syncs of each process may leave some.
            assert_eq!(alarm["TreatMissingData"], "notBreaching");
            assert!(alarm["EvaluationPeriods"].to_string().contains("LongPeriods"));
        }
    }
}

/// `AWS_USE_DUALSTACK_ENDPOINT` is the SDK's own, and Lambda refuses IPv6 from subnets of IPv4 alone.
#[test]
fn dual_stack_is_switched_for_the_sdk_and_the_network_together() {
    for line in [
        "AWS_USE_DUALSTACK_ENDPOINT: !If [UsesDualStack, \"true\", \"false\"]\n",
        "Ipv6AllowedForDualStack: !If [UsesDualStack, true, !Ref AWS::NoValue]\n",
    ] {
        assert!(TEMPLATE.contains(line), "{line}");
    }
}

#[test]
fn failed_messages_outlast_an_hour_and_one_failure_is_no_alarm() {
    let line = TEMPLATE.lines().find_map(|line| line.trim().strip_prefix("maxReceiveCount: "));
    let receives: u32 = line.expect("a redrive policy").parse().expect("a number");
    let outlasted: Duration = (1..receives).map(delay).sum();
    assert!(outlasted > Duration::from_hours(1), "{outlasted:?}");
    let mut alarms = resources("AWS::CloudWatch::Alarm").into_iter();
    let alarm = alarms.find(|it| it["MetricName"] == "ApproximateAgeOfOldestMessage");
    let age = alarm.expect("an alarm on old messages")["Threshold"].as_u64();
    let age = Duration::from_secs(age.expect("seconds"));
    assert!(delay(1) * 2 < age, "{age:?}");
}

/// CloudWatch bills each metric.
#[test]
fn every_metric_is_read_by_an_alarm_or_the_dashboard() {
    let mut read_of_cluster = BTreeSet::new();
    let mut read_of_invocation = BTreeSet::new();
    for alarm in resources("AWS::CloudWatch::Alarm") {
        read_of_cluster.extend(queried(alarm).map(|(metric, _)| metric.to_owned()));
        read_of_invocation.extend(alarm["MetricName"].as_str().map(str::to_owned));
    }
    for widget in widgets() {
        for metric in widget["properties"]["metrics"].as_array().into_iter().flatten() {
            let search = metric[0]["expression"].as_str().unwrap_or_default();
            let names = search.split("MetricName=\"").skip(1);
            read_of_cluster.extend(names.filter_map(|it| it.split('"').next()).map(str::to_owned));
            read_of_invocation.extend(metric[1].as_str().map(str::to_owned));
        }
    }
    for metric in metrics::CLUSTER_METRICS {
        assert!(read_of_cluster.contains(metric.name), "{} of a cluster", metric.name);
    }
    for metric in metrics::INVOCATION_METRICS {
        assert!(read_of_invocation.contains(metric.name), "{} of a run", metric.name);
    }
}

#[test]
fn every_metric_on_the_dashboard_exists() {
    let mut of_ours = 0;
    for widget in widgets() {
        for metric in widget["properties"]["metrics"].as_array().into_iter().flatten() {
            if metric[0] == metrics::NAMESPACE {
                let name = metric[1].as_str().expect("a name");
                assert!(of_invocation(name) && metric[2] == metrics::FUNCTION, "{metric}");
                of_ours += 1;
            } else if let Some(search) = metric[0]["expression"].as_str()
                && search.contains("SEARCH")
            {
                let dimensions = [metrics::NAMESPACE, metrics::FUNCTION, metrics::CLUSTER];
                let schema = format!(r#"{{"{}"}}"#, dimensions.join(r#"",""#));
                assert!(search.contains(&schema), "{search}");
                for name in search.split("MetricName=\"").skip(1) {
                    let name = name.split('"').next().expect("its end");
                    assert!(of_cluster(name), "{name} in {search}");
                    of_ours += 1;
                }
            }
        }
    }
    assert!(of_ours >= 10, "{of_ours}");
}

#[test]
fn the_bill_counts_every_metric() {
    let clusters = metrics::CLUSTER_METRICS.len();
    let function = metrics::INVOCATION_METRICS.len();
    let line = format!("CloudWatch metrics, {clusters} for each cluster and {function} for");
    assert!(include_str!("../docs/sizing.md").contains(&line), "{line}");
}

#[test]
fn the_bill_and_the_page_of_metrics_count_every_alarm() {
    let alarms = resources("AWS::CloudWatch::Alarm");
    let with = |urgency: &str| {
        alarms.iter().filter(|alarm| urgency_and_section(alarm).0 == urgency).count()
    };
    let [pages, notices] = [PAGE, NOTICE].map(|urgency| WORDS[with(urgency)]);
    let cents = alarms.len() * 10;
    let price = format!("${}.{:02}", cents / 100, cents % 100);
    let line = format!("alarms and dashboard | {}, and 1 | {price}, and", alarms.len());
    assert!(include_str!("../docs/sizing.md").contains(&line), "{line}");
    assert!(METRICS.contains(&format!("{pages} that page (`STACK-page-")), "{pages}");
    assert!(METRICS.contains(&format!("{notices} that can wait (`STACK-notice-")), "{notices}");
    let shown =
        widgets().iter().find_map(|widget| widget["properties"]["alarms"].as_array().map(Vec::len));
    assert_eq!(shown, Some(alarms.len()));
}

#[test]
fn no_widget_of_the_dashboard_covers_another() {
    let mut taken = BTreeSet::new();
    for widget in widgets() {
        let [x, y, width, height] =
            ["x", "y", "width", "height"].map(|key| widget[key].as_u64().expect(key));
        assert!(x + width <= COLUMNS, "{widget}");
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{cell:?} of {widget}");
        }
    }
}

/// The fields of `platform.report` and `platform.initReport`:
/// <https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html>
const OF_LAMBDA: [&str; 7] = [
    "type",
    "record.status",
    "record.errorType",
    "record.metrics.durationMs",
    "record.metrics.maxMemoryUsedMB",
    "record.metrics.memorySizeMB",
    "record.requestId",
];

#[test]
fn every_field_that_a_query_asks_for_is_a_key_of_the_log() {
    let logged = logged_keys();
    let queries = resources("AWS::Logs::QueryDefinition").into_iter();
    let mut queries: Vec<String> = queries.map(|it| text(&it["QueryString"]).to_owned()).collect();
    queries.extend(widgets().iter().filter_map(|widget| {
        Some(widget["properties"]["query"].as_str()?.split_once('|')?.1.to_owned())
    }));
    assert!(queries.len() >= 8, "{}", queries.len());
    for query in queries {
        for field in fields(&query) {
            let metric = of_cluster(&field) || of_invocation(&field);
            let is_of_lambda = OF_LAMBDA.contains(&field.as_str());
            assert!(
                metric || is_of_lambda || logged.contains(field.as_str()),
                "{field} in {query}"
            );
        }
    }
}

/// The keys of the log's lines: those of every line, and those that the macros in src/function/log.rs are given.
fn logged_keys() -> BTreeSet<&'static str> {
    let log = include_str!("../src/function/log.rs");
    let mut keys = BTreeSet::from(["level", "message"]);
    for level in ["error!(", "warn!(", "info!(", "$level!("] {
        for arguments in log.split(level).skip(1) {
            // Keys come before the message, which is the first text, or a parameter.
            let before = arguments.split(['"', '$']).next().expect("a message");
            let names = before.split(',').map(|it| it.split('=').next().unwrap_or_default());
            keys.extend(names.map(|name| name.trim().trim_start_matches('%')));
        }
    }
    assert!(keys.len() > 20 && !keys.contains("service") && !keys.contains("line"), "{keys:?}");
    keys
}

/// The fields of a query, without those that it makes itself.
fn fields(query: &str) -> Vec<String> {
    const WORDS: &str = "filter fields stats sort limit desc asc by as like or and in ispresent max min sum count latest now toMillis";
    let text = without_quoted(&without_quoted(query, '\''), '/');
    let made: Vec<&str> =
        text.split(" as ").skip(1).filter_map(|it| it.split([' ', ',']).next()).collect();
    let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_@.".contains(c)));
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('@'));
    let names = names.filter(|name| !WORDS.split(' ').any(|word| word == *name));
    let names = names.filter(|name| !made.contains(name) && name.parse::<u32>().is_err());
    names.map(str::to_owned).collect()
}

#[test]
fn times_that_follow_the_full_sync_fit_each_other_and_cloudwatch() {
    let rows = RESOLVED["Mappings"]["FullSync"].as_object().expect("a mapping");
    assert_eq!(rows.len(), 7);
    for (minutes, row) in rows {
        let minutes: u32 = minutes.parse().expect("minutes");
        // A number, or minutes as the settings have them.
        let of = |name: &str| -> u32 {
            row[name].to_string().trim_matches(['"', 'm']).parse().expect(name)
        };
        let plural = if minutes > 1 { "s" } else { "" };
        assert_eq!(row["Rate"], format!("rate({minutes} minute{plural})"));
        assert_eq!(of("Visibility"), 6 * of("Timeout"));
        // One full sync that fails is no alarm, and one late run neither.
        assert!(of("NoGood") > 2 * minutes, "{minutes}");
        assert_eq!(of("Sync"), 60 * minutes);
        assert!(of("Long") >= of("Sync"), "{minutes}: a period without a full sync");
        assert_eq!(of("Long") * of("LongPeriods"), (120 * minutes).max(30 * 60));
        assert!(of("Stale") >= 3 * minutes && of("Stale") >= 15, "{minutes}");
        // The second full sync pages before the loss passes, which is within six waits.
        assert!(of("GuardWait") > minutes && of("GuardWait") * 6 > 2 * minutes, "{minutes}");
    }
}

#[test]
fn every_saved_answer_is_a_parameter() {
    let answers = include_str!("../samconfig.example.toml").split("parameter_overrides]\n").nth(1);
    let lines = answers.expect("answers").lines().filter_map(|line| line.split_once(" = "));
    let names: Vec<&str> = lines.map(|(name, _)| name.trim_start_matches("# ")).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert!(RESOLVED["Parameters"][name].is_object(), "{name}");
    }
}

#[test]
fn every_output_that_the_terraform_module_asks_for_is_one_of_the_template() {
    let main = include_str!("../deploy/terraform/main.tf");
    let module = [main, include_str!("../deploy/terraform/outputs.tf")].concat();
    let asked = module.split("outputs[\"").skip(1).filter_map(|rest| rest.split('"').next());
    let asked: BTreeSet<&str> = asked.collect();
    assert_eq!(asked.len(), 5, "{asked:?}");
    for name in asked {
        assert!(RESOLVED["Outputs"][name].is_object(), "{name}");
    }
}

fn without_quoted(text: &str, quote: char) -> String {
    text.split(quote).step_by(2).collect()
}

/// The rows of the reasons: the code of each, whether it keeps an endpoint out of a name, and its mark in the runbook.
fn rows_of_reasons() -> Vec<(&'static str, bool, &'static str)> {
    let source = include_str!("../src/publish/plan/reason.rs");
    let rows = &source[source.find("fn facts(").expect("the rows")..];
    let rows = &rows[..rows.find("\n    }\n").expect("their end")];
    let rows = rows.split("(\"").skip(1).map(|row| {
        let (code, facts) = row.split_once("\", ").expect("a row");
        let mended_by = facts.split_once(", ").expect("who mends it").1;
        let of_owner = mended_by.starts_with("Owner") || mended_by.starts_with("if");
        let mark = if of_owner { "\u{2713}" } else { "\u{2013}" };
        let mark = if mended_by.starts_with("Retry") { "\u{21bb}" } else { mark };
        (code, facts.starts_with("true"), mark)
    });
    rows.collect()
}

/// The section of the runbook in which each row has the mark that follows from the row of its reason.
fn marked(section: &str, rows: &[(&str, bool, &str)]) -> String {
    let lines = section.lines().map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let of_line = rows.iter().filter(|(code, ..)| cells[0].contains(&format!("`{code}`")));
        let marks: BTreeSet<&str> = of_line.map(|(_, _, mark)| *mark).collect();
        match (marks.into_iter().next_back(), &cells[..]) {
            (Some(mark), [reason, meaning, fix, _]) => {
                format!("|{reason} | {meaning} | {fix} | {mark} |")
            }
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A reason that keeps an endpoint out of a name has a row in the runbook; one that does not may be a remark below.
/// `UPDATE_README=1` writes who gets an Event and what is retried.
#[test]
fn runbook_has_every_reason_for_holding_back_with_what_follows_from_its_row() {
    let rows = rows_of_reasons();
    assert!(rows.len() > 30, "{rows:?}");
    let mut sections = RUNBOOK.split("\n## ");
    let section = sections.find(|it| it.starts_with("By reason")).expect("the section");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let cells: String = cells.collect();
    let remarks = section.lines().find(|it| it.starts_with("Remarks, ")).expect("the remarks");
    for (code, keeps_out, _) in &rows {
        let name = format!("`{code}`");
        let is_remark = remarks.contains(&name);
        assert!(cells.contains(&name) != is_remark, "{code}: a row or a remark");
        assert!(!(keeps_out & is_remark), "{code} is no remark");
    }
    let marked = marked(section.trim_end(), &rows);
    if std::env::var_os("UPDATE_README").is_some() {
        let page = RUNBOOK.replace(section.trim_end(), &marked);
        std::fs::write("docs/runbook.md", page).expect("the page");
    } else {
        assert_eq!(section.trim_end(), marked);
    }
}

/// The sections of the runbook as Markdown links to them.
fn anchors() -> BTreeSet<String> {
    let headings = RUNBOOK.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-');
    headings.map(|text| text.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}
