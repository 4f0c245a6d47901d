//! The documentation of every setting. The tables of the docs and the examples in messages are made from it.

use crate::model::Documented;

/// Every setting, in the order of the documentation.
pub const DOCUMENTED: &[Documented] = &[
    Documented {
        name: "CLUSTERS",
        meaning: "EKS clusters to sync: names or ARNs separated by commas; a JSON list of names, ARNs and \
                  [objects](docs/deploying.md#clusters); or `ssm:/path/`, a parameter for each cluster",
        default: "required",
        example: "blue,green",
    },
    Documented {
        name: "CLOUD_MAP_NAMESPACES",
        meaning: "Cloud Map namespaces to use, by name, id or ARN, separated by commas",
        default: "all visible namespaces",
        example: "prod.local,ns-abcdefghijklmnop",
    },
    Documented {
        name: "CREATE_NAMESPACES",
        meaning: "`true`: a missing namespace is created together with its first service, as an HTTP \
                  namespace; one whose name contains a dot or begins with `ns-` is not created",
        default: "`false`",
        example: "true",
    },
    Documented {
        name: "OWNER_ID",
        meaning: "the mark of this installation's instances; two installations need different ones",
        default: "`cloud-map-sync`",
        example: "team-a",
    },
    Documented {
        name: "CREATE_TAGS",
        meaning: "tags of the services and namespaces that the function creates in Cloud Map, as `KEY=VALUE` separated \
                  by commas; the role must [allow the keys](docs/deploying.md#tags)",
        default: "`cloud-map-sync/owner` alone",
        example: "team=shop,cost-center=4711",
    },
    Documented {
        name: "ADMIN_ALIAS",
        meaning: "`adopt`, `confirm` and `purge` are accepted only through \
                  [the alias of the function](docs/security.md#who-may-do-what) with this name",
        default: "they are accepted from everyone who may invoke the function",
        example: "admin",
    },
    Documented {
        name: "ANNOTATION_PREFIX",
        meaning: "the prefix of the annotations on Services",
        default: "`cloudmap.controller/`",
        example: "discovery.example.com/",
    },
    Documented {
        name: "POLICY",
        meaning: "`sync`: all changes; `upsert-only`: keeps the instances of an ended claim; \
                  `create-only`: creates and registers, and nothing else",
        default: "`sync`",
        example: "upsert-only",
    },
    Documented {
        name: "GUARD_SHARE",
        meaning: "the guard holds a loss of more than this share of a cluster's instances, in per cent; \
                  `100` switches it off",
        default: "`50`",
        example: "30",
    },
    Documented {
        name: "GUARD_MINIMUM",
        meaning: "the guard holds a loss only if it is also of more than this number of instances",
        default: "`10`",
        example: "25",
    },
    Documented {
        name: "GUARD_WAIT",
        meaning: "after this time a full sync that sees the same loss lets it pass",
        default: "`10m`",
        example: "1h",
    },
    Documented {
        name: "SCHEDULE_MINUTES",
        meaning: "the longest time between two full syncs of the schedule, in minutes; it limits the time in which \
                  [a held loss passes](docs/operations.md#when-a-loss-passes)",
        default: "`1`",
        example: "5",
    },
    Documented {
        name: "NAME_POLICY",
        meaning: "[the names that each Service may claim](docs/security.md#name-policy), as JSON or `ssm:/name`",
        default: "everything is allowed",
        example: r#"[{"clusters":["*"],"kubernetesNamespaces":["shop"],"cloudMapNamespaces":["prod*"],"names":["shop-*"]}]"#,
    },
    Documented {
        name: "DNS_NAMESPACES",
        meaning: "`false`: the function's own role has no rights in Route 53, so nothing is registered in Cloud Map \
                  services that have DNS records, and the plan and `doctor` report each of them (`DnsNotAllowed`)",
        default: "`true`; the template passes `false` without `HostedZoneIds`",
        example: "false",
    },
    Documented {
        name: "DRY_RUN",
        meaning: "`true`: plan and report, write nothing",
        default: "`false`",
        example: "true",
    },
    Documented {
        name: "QUEUE_URL",
        meaning: "the URL of the function's own queue of messages about Services: a failed message is delivered again \
                  after 1, 2, 4, 8 … minutes, at most an hour. This needs the permission `sqs:ChangeMessageVisibility`",
        default: "after the queue's visibility timeout",
        example: "https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync",
    },
    Documented {
        name: "QUOTA_SHARE",
        meaning: "the part of the account's rate limits for Cloud Map calls that the function uses; ECS and \
                  others share these limits. `1` is all of it, and a larger number removes the limit",
        default: "`0.5`",
        example: "0.8",
    },
    Documented {
        name: "EVENTS",
        meaning: "the Events on Services and ServiceExports: `warnings`; `all`: warnings, and one for each sync and \
                  name in which instances of a Service changed; `none`",
        default: "`all`",
        example: "warnings",
    },
    Documented {
        name: "MULTI_CLUSTER",
        meaning: "[services across clusters](docs/multi-cluster.md): with `on` the ServiceExports of the clusters are \
                  published, and the exports of their clusterset are imported; `export` or `import` does one of the two",
        default: "`off`",
        example: "on",
    },
    Documented {
        name: "STALE_CLUSTERS_AFTER",
        meaning: "a member of a clusterset whose last full sync is longer ago is reported as \
                  [stale](docs/multi-cluster.md#lost-clusters)",
        default: "`15m`",
        example: "1h",
    },
];
