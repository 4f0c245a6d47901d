//! All settings together: each is read, all mistakes are reported with their examples, and texts come from parameters,
//! too.

use super::*;
use crate::model::Policy;

const FUNCTION_ARN: &str = "arn:aws:lambda:eu-central-1:111122223333:function:sync";

fn read(variables: &[(&str, &str)]) -> Result<Settings, Mistakes> {
    let find = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::read(find, &Parameters::new(), Some(FUNCTION_ARN))
}

#[test]
fn only_the_clusters_are_required() {
    let settings = read(&[("CLUSTERS", "blue"), ("POLICY", " ")]).expect("valid");
    assert_eq!(settings.owner_id, "cloud-map-sync");
    assert_eq!(settings.annotation_prefix, "cloudmap.controller/");
    assert_eq!(*settings.rules, Rules::default());
    assert!(!settings.dry_run);
    assert_eq!(settings.quota_share, QuotaShare::default());
    assert_eq!(settings.queue_url, None);
}

#[test]
fn every_setting_is_read() {
    let settings = read(&[
        ("CLUSTERS", "blue, green"),
        ("CLOUD_MAP_NAMESPACES", "prod.local, ns-1"),
        ("OWNER_ID", "team-a"),
        ("ANNOTATION_PREFIX", "discovery.example.com"),
        ("CREATE_NAMESPACES", "true"),
        ("POLICY", "create-only"),
        ("GUARD_SHARE", "30 %"),
        ("GUARD_MINIMUM", "0"),
        ("GUARD_WAIT", "1h 30m"),
        ("SCHEDULE_MINUTES", "15"),
        ("QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/111122223333/queue"),
        ("DRY_RUN", "true"),
        ("DNS_NAMESPACES", "false"),
        ("QUOTA_SHARE", "0.25"),
        ("CREATE_TAGS", "team=shop, cost center=47=11,empty="),
        ("MULTI_CLUSTER", "import"),
        ("STALE_CLUSTERS_AFTER", "1h"),
    ]);
    let settings = settings.expect("valid");
    assert_eq!(settings.clusters.len(), 2);
    assert_eq!(settings.rules.namespaces.len(), 2);
    assert_eq!(settings.annotation_prefix, "discovery.example.com/");
    assert_eq!((settings.owner_id.as_str(), settings.rules.policy), ("team-a", Policy::CreateOnly));
    let wait = SignedDuration::from_mins(90);
    let period = SignedDuration::from_mins(15);
    assert_eq!(settings.rules.guard, Guard { share: 30, minimum: 0, wait, period });
    assert!(settings.dry_run && settings.rules.create_namespaces);
    assert!(settings.rules.lacks_dns_rights);
    assert_eq!(Some(settings.quota_share), QuotaShare::new(0.25));
    let tags = [("cost center", "47=11"), ("empty", ""), ("team", "shop")];
    assert_eq!(settings.create_tags, tags.map(|(key, it)| (key.into(), it.into())).into());
    assert_eq!(settings.multi_cluster, MultiCluster::Import);
    assert_eq!(settings.stale_clusters_after, SignedDuration::from_hours(1));
    assert!(settings.queue_url.is_some_and(|url| url.ends_with("/queue")));
}

#[test]
fn tags_that_cloud_map_or_the_function_refuse_are_mistakes() {
    let many: Vec<String> = (0..50).map(|key| format!("key-{key}=")).collect();
    let long_key = format!("{}=", "k".repeat(129));
    let long_value = format!("k={}", "v".repeat(257));
    let wrong =
        ["=shop", "a=b;c", &long_key, &long_value, "AWS:x=1", "cloud-map-sync/owner=a", "a=1,a=2"];
    for text in wrong.into_iter().chain([many.join(",").as_str()]) {
        let mistakes = read(&[("CLUSTERS", "blue"), ("CREATE_TAGS", text)]).expect_err(text);
        assert_eq!(mistakes.0.len(), 1, "{text}");
    }
    let most = many[1..].join(",");
    assert_eq!(
        read(&[("CLUSTERS", "blue"), ("CREATE_TAGS", &most)]).expect("49").create_tags.len(),
        49
    );
}

#[test]
fn heartbeats_that_a_slow_schedule_writes_too_seldom_are_a_warning() {
    let warnings = |schedule: &str, part: &str| {
        let variables = [
            ("CLUSTERS", "blue"),
            ("SCHEDULE_MINUTES", schedule),
            ("MULTI_CLUSTER", part),
            ("STALE_CLUSTERS_AFTER", "20m"),
        ];
        read(&variables).expect("valid").warnings()
    };
    assert_eq!(warnings("10", "on"), Vec::<String>::new());
    assert_eq!(warnings("15", "off"), Vec::<String>::new());
    insta::assert_snapshot!(warnings("15", "export").join("\n"), @"STALE_CLUSTERS_AFTER (20m) and SCHEDULE_MINUTES (15) do not go together: clusters are reported as stale between two full syncs; set it to at least twice the longest schedule of the clusterset");
}

#[test]
fn own_region_is_the_same_cloud_map_with_and_without_its_name() {
    for (region, number) in [("eu-central-1", 1), ("eu-west-1", 0)] {
        let role = r#""registryRoleArn": "arn:aws:iam::444455556666:role/registry""#;
        let clusters = format!(
            r#"[{{"cluster": "blue", {role}, "externalId": "x"}},
                {{"cluster": "green", {role}, "externalId": "y", "registryRegion": "{region}"}}]"#
        );
        let settings = read(&[("CLUSTERS", &clusters), ("MULTI_CLUSTER", "on")]).expect("valid");
        assert_eq!(settings.warnings().len(), number, "{region}");
    }
}

/// The function would take it for two Cloud Maps.
#[test]
fn members_that_use_one_cloud_map_by_different_roles_are_a_warning() {
    let registry = "arn:aws:iam::444455556666:role/registry";
    let warnings = |part: &str, external_id: &str| {
        let cluster = |name: &str, id: &str| {
            format!(
                r#"{{"cluster": "{name}", "registryRoleArn": "{registry}", "externalId": "{id}"}}"#
            )
        };
        let clusters = format!("[{}, {}]", cluster("blue", "x"), cluster("green", external_id));
        read(&[("CLUSTERS", &clusters), ("MULTI_CLUSTER", part)]).expect("valid").warnings()
    };
    for (part, external_id) in [("on", "x"), ("off", "y")] {
        assert_eq!(warnings(part, external_id), Vec::<String>::new(), "{part} {external_id}");
    }
    insta::assert_snapshot!(warnings("on", "y").join("\n"), @"arn:aws:eks:eu-central-1:111122223333:cluster/green and arn:aws:eks:eu-central-1:111122223333:cluster/blue use the Cloud Map of account 444455556666 by different roles, so changes of one reach the imports of the other only through Cloud Map: give both the same registryRoleArn and externalId");
}

#[test]
fn clusters_of_which_none_pages_are_a_warning_and_all_page() {
    let settings = |clusters: &str| read(&[("CLUSTERS", clusters)]).expect("valid");
    let some = settings(r#"["blue", {"cluster": "green", "page": false}]"#);
    assert_eq!(some.warnings(), Vec::<String>::new());
    let pages = |it: &Settings| it.clusters.iter().map(|one| it.pages(one)).collect::<Vec<_>>();
    assert_eq!(pages(&some), [true, false]);
    let none =
        settings(r#"[{"cluster": "blue", "page": false}, {"cluster": "green", "page": false}]"#);
    insta::assert_snapshot!(none.warnings().join("\n"), @"every cluster of CLUSTERS has page: false, which is ignored, since no alarm would page then: remove it from the clusters whose faults should wake somebody");
    assert_eq!(pages(&none), [true, true]);
}

#[test]
fn all_mistakes_are_reported_together_with_examples() {
    let mistakes = read(&[
        ("CLOUD_MAP_NAMESPACES", "a b"),
        ("OWNER_ID", "two words"),
        ("ADMIN_ALIAS", "7"),
        ("ANNOTATION_PREFIX", "Upper/"),
        ("CREATE_NAMESPACES", "HTTP"),
        ("POLICY", "delete"),
        ("GUARD_SHARE", "101"),
        ("GUARD_MINIMUM", "-1"),
        ("GUARD_WAIT", "10"),
        ("DRY_RUN", "yes"),
        ("DNS_NAMESPACES", "no"),
        ("QUOTA_SHARE", "0"),
        ("CREATE_TAGS", "team"),
        ("EVENTS", "some"),
        ("QUEUE_URL", "own"),
        ("SCHEDULE_MINUTES", "1m"),
        ("MULTI_CLUSTER", "yes"),
        ("STALE_CLUSTERS_AFTER", "off"),
    ]);
    let text = mistakes.expect_err("all are wrong").to_string().replace("; ", "\n");
    insta::assert_snapshot!(text, @r#"
    19 mistakes in the settings
    CLUSTERS: it is not set, and at least one cluster is required (example: CLUSTERS=blue,green)
    OWNER_ID: it must be 1 to 256 printable ASCII characters without spaces (example: OWNER_ID=team-a)
    ANNOTATION_PREFIX: "Upper/" is not a lower-case DNS name with a '/' at its end (example: ANNOTATION_PREFIX=discovery.example.com/)
    CLOUD_MAP_NAMESPACES: "a b" is not the name, id or ARN of a Cloud Map namespace (example: CLOUD_MAP_NAMESPACES=prod.local,ns-abcdefghijklmnop)
    CREATE_NAMESPACES: "HTTP" is neither true nor false (example: CREATE_NAMESPACES=true)
    POLICY: "delete" is not one of sync, upsert-only, create-only (example: POLICY=upsert-only)
    GUARD_SHARE: "101" is not a whole number from 0 to 100 (example: GUARD_SHARE=30)
    GUARD_MINIMUM: "-1" is not a whole number (example: GUARD_MINIMUM=25)
    GUARD_WAIT: "10" is not a duration such as 90s, 10m or 1h (example: GUARD_WAIT=1h)
    SCHEDULE_MINUTES: "1m" is not a whole number from 1 to 1440 (example: SCHEDULE_MINUTES=5)
    DNS_NAMESPACES: "no" is neither true nor false (example: DNS_NAMESPACES=false)
    DRY_RUN: "yes" is neither true nor false (example: DRY_RUN=true)
    ADMIN_ALIAS: "7" is not the name of an alias (1 to 128 letters, digits, '-' and '_', and no number) (example: ADMIN_ALIAS=admin)
    QUEUE_URL: "own" is not the URL of a queue (example: QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync)
    QUOTA_SHARE: "0" is not a number of at least 0.001 (example: QUOTA_SHARE=0.8)
    CREATE_TAGS: "team" is not a tag KEY=VALUE of letters, digits, spaces and _.:/=+-@, with at most 128 and 256 characters (example: CREATE_TAGS=team=shop,cost-center=4711)
    EVENTS: "some" is not one of all, warnings, none (example: EVENTS=warnings)
    MULTI_CLUSTER: "yes" is not one of off, on, export, import (example: MULTI_CLUSTER=on)
    STALE_CLUSTERS_AFTER: "off" is not a duration such as 90s, 10m or 1h (example: STALE_CLUSTERS_AFTER=1h)
    "#);
}

#[test]
fn texts_of_parameter_store_count_and_their_mistakes_name_the_parameter() {
    let rule = r#"[{"clusters":["*"],"kubernetesNamespaces":["a"],"cloudMapNamespaces":["*"],"names":["*"]}]"#;
    let stored = |parameters: &[(&str, &str)]| {
        let mut all = Parameters::new();
        for (name, value) in parameters {
            let name = (*name).to_owned();
            let value = (*value).to_owned();
            let path =
                parameter_store::Reference::Path(name[..=name.rfind('/').expect("one")].into());
            all.entry(path).or_default().push(parameter_store::Parameter { name, value });
        }
        let variable = |name: &str| match name {
            "CLUSTERS" => Some("ssm:/c/".to_owned()),
            "NAME_POLICY" => Some("ssm:/p/".to_owned()),
            _ => None,
        };
        Settings::read(variable, &all, Some(FUNCTION_ARN))
    };
    let green = r#" {"cluster": "green", "defaultNamespace": "prod.local"} "#;
    let found = stored(&[("/c/a", "blue\n"), ("/c/b", green), ("/p/1", rule), ("/p/2", rule)]);
    let found = found.expect("valid");
    let names: Vec<&str> = found.clusters.iter().map(|cluster| cluster.arn.name()).collect();
    assert_eq!(names, ["blue", "green"]);
    assert!(found.clusters[1].default_namespace.is_some());
    assert_eq!(found.rules.name_policy.as_ref().expect("a policy").0.len(), 2);

    let twice = stored(&[("/c/a", "blue"), ("/c/b", "blue"), ("/p/1", rule)]).expect("valid");
    assert_eq!(twice.clusters.len(), 1);
    assert_eq!(twice.clusters[0].repetitions, [r#""blue" in the parameter /c/b"#]);

    let none = stored(&[]);
    let wrong = stored(&[("/c/a", "a/b"), ("/p/1", rule), ("/p/2", "[{}]")]);
    let mistakes = [none, wrong].map(|it| it.expect_err("mistakes").0);
    let lines = mistakes.iter().flatten().map(|it| format!("{}: {}", it.variable, it.problem));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    CLUSTERS: Parameter Store does not have the parameters under /c/
    NAME_POLICY: Parameter Store does not have the parameters under /p/
    CLUSTERS: parameter /c/a: "a/b" is neither the name nor the ARN of an EKS cluster
    NAME_POLICY: parameter /p/2: [0]: missing field `clusters` at line 1 column 3
    "#);
}

#[test]
fn every_documented_example_is_accepted() {
    for setting in DOCUMENTED {
        let variables = [("CLUSTERS", "blue"), (setting.name, setting.example)];
        let start = usize::from(setting.name == "CLUSTERS");
        read(&variables[start..]).expect(setting.name);
    }
}

/// The parser of JSON repeats the name of an unknown field as it is.
#[test]
fn mistake_repeats_no_control_character() {
    let rules = "[{\"clusters\": [\"*\"], \"na\u{7f}me\u{202e}s\": [\"*\"]}]";
    let cluster = "{\"cluster\": \"blue\", \"\u{9b}31m\": 1}";
    let mistakes =
        read(&[("CLUSTERS", cluster), ("NAME_POLICY", rules)]).expect_err("both are wrong");
    let text = mistakes.to_string();
    assert!(text.contains(r"na\u{7f}me\u{202e}s") && text.contains(r"\u{9b}31m"), "{text}");
    assert!(!text.contains(char::is_control) && !text.contains('\u{202e}'), "{text}");
}

const RULE: &str = r#"{"clusters": ["*"], "kubernetesNamespaces": ["shop"],
        "cloudMapNamespaces": ["prod*"], "names": ["web"], "cidrs": ["10.0.0.0/16"],
        "maxInstances": 10}"#;

fn parse(text: Option<&str>) -> Result<Option<NamePolicy>, String> {
    super::name_policy(text.map(|text| Text { parameter: None, text }).as_slice())
}

#[test]
fn not_set_is_no_policy_and_rules_keep_their_order() {
    assert_eq!(parse(None), Ok(None));
    let two = format!("[{RULE}, {}]", RULE.replace("shop", "*").replace("10}", "20}"));
    let NamePolicy(rules) = parse(Some(&two)).expect("valid").expect("set");
    let limits = rules.iter().map(|rule| rule.max_instances.map(std::num::NonZero::get));
    assert_eq!(limits.collect::<Vec<_>>(), [Some(10), Some(20)]);
}

#[test]
fn a_rule_may_allow_no_name_at_all() {
    parse(Some(&format!("[{}]", RULE.replace("[\"web\"]", "[]")))).expect("valid");
}

#[test]
fn mistakes_name_their_path_and_the_expected_form() {
    let changed = |from: &str, to: &str| parse(Some(&format!("[{}]", RULE.replace(from, to))));
    let mistakes = [
        parse(Some("")),
        parse(Some("[]")),
        parse(Some(RULE)),
        parse(Some(&format!("[{RULE}] and more"))),
        parse(Some(&format!("[{RULE}, {}]", RULE.replace("\"clusters\": [\"*\"],", "")))),
        changed("\"names\"", "\"name\""),
        changed("[\"web\"]", "\"web\""),
        changed("web", "web-[ab]"),
        changed("10.0.0.0/16", "10.0.0.0/40"),
        changed("\"10.0.0.0/16\"", ""),
        changed("[\"shop\"]", "[]"),
        changed("10}", "0}"),
        changed("10}", "10, \"maxNames\": 0}"),
    ];
    let mistakes = mistakes.map(|result| result.expect_err("a mistake"));
    insta::assert_snapshot!(mistakes.join("\n"), @r#"
    it is not a JSON list of rules: EOF while parsing a value at line 1 column 0
    it contains no rule and allows nothing; if unset, everything is allowed
    it is not a JSON list of rules: invalid type: map, expected a sequence at line 1 column 0
    it is not a JSON list of rules: trailing characters at line 3 column 30
    [1]: missing field `clusters` at line 5 column 27
    [0].name: unknown field `name`, expected one of `clusters`, `kubernetesNamespaces`, `cloudMapNamespaces`, `names`, `cidrs`, `maxInstances`, `maxNames` at line 2 column 47
    [0].names: invalid type: string "web", expected a sequence at line 2 column 55
    [0].names[0]: "web-[ab]" has a "[", and only * and ? are special; list alternatives as separate strings at line 2 column 62
    [0].cidrs[0]: "10.0.0.0/40" is not a range of addresses, for instance "10.0.0.0/16" or "fd00::/8" at line 2 column 83
    [0].cidrs: it is empty; without it all are allowed
    [0].kubernetesNamespaces: it is empty; "*" matches everything, and "names": [] allows nothing
    [0].maxInstances: invalid value: integer `0`, expected a nonzero usize at line 3 column 25
    [0].maxNames: invalid value: integer `0`, expected a nonzero usize at line 3 column 41
    "#);
}
