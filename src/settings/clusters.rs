//! The setting `CLUSTERS`: the EKS clusters, their roles, and the account and Region of their Cloud Map. Also the
//! setting `MULTI_CLUSTER`: whether the exports of a cluster are published, and the exports of its clusterset imported.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::parameter_store::{SCHEME, Text};
use crate::model::{
    ClusterArn, ClusterId, ClustersetId, NamespaceReference, SignedDuration, is_cluster_name,
    is_region, words,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub arn: ClusterArn,
    /// Descriptions of the later entries for the same cluster. They are ignored and reported as warnings: only the
    /// first entry is used.
    pub repetitions: Vec<String>,
    /// The role that describes and reads the cluster. `None` for the function's own role.
    pub role: Option<Role>,
    /// The role that reads and writes Cloud Map. `None` for the function's own role.
    pub registry_role: Option<Role>,
    /// The Region of the cluster's Cloud Map. `None` for the function's own Region.
    pub registry_region: Option<String>,
    /// The Cloud Map namespace of Services without a namespace annotation. `None` for the name of the Kubernetes
    /// namespace.
    pub default_namespace: Option<NamespaceReference>,
    pub membership: Membership,
    /// Whether the faults of the cluster count in the metrics of alarms that page.
    pub pages_on_fault: bool,
}

/// A role to assume through STS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role {
    pub arn: String,
    /// The external id that the trust policy of the role requires, if any.
    pub external_id: Option<String>,
}

impl Role {
    pub fn account(&self) -> Option<&str> {
        self.arn.split(':').nth(4)
    }
}

impl Cluster {
    /// Returns the account of the cluster's Cloud Map: that of its role, or `own`, the account of the function. If the
    /// account of the function is not known, a cluster without a role of its own shows it. Otherwise the result is
    /// `None`.
    pub fn registry_account<'a>(&'a self, own: Option<&'a str>) -> Option<&'a str> {
        match (&self.registry_role, &self.role) {
            (Some(registry), _) => registry.account(),
            (None, None) => own.or(Some(self.arn.account())),
            (None, Some(_)) => own,
        }
    }

    /// Returns a warning about each entry that repeats the cluster.
    pub fn repetition_warnings(&self) -> impl Iterator<Item = String> {
        self.repetitions.iter().map(|repetition| {
            format!(
                "CLUSTERS names the cluster {} a second time, as {repetition}: the first entry is served and the later one \
                 is held back; remove one of the two",
                self.arn
            )
        })
    }
}

/// An entry of a JSON list.
#[derive(Deserialize)]
#[serde(untagged)]
enum ClusterEntry {
    Text(String),
    Object(Box<ClusterObject>),
}

/// An entry as a JSON object. `docs/schemas` has its schema. A bare name or ARN becomes an object with only `cluster`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterObject {
    cluster: String,
    role_arn: Option<String>,
    external_id: Option<String>,
    registry_role_arn: Option<String>,
    registry_region: Option<String>,
    default_namespace: Option<String>,
    multi_cluster: Option<MultiCluster>,
    cluster_id: Option<String>,
    clusterset: Option<String>,
    page: Option<bool>,
}

/// Parses `CLUSTERS`. Each text is a list of names or ARNs separated by commas, a JSON list, or one JSON object. A name
/// stands for a cluster in the account and Region of `function_arn`. If two entries name one cluster, the first is
/// used.
pub fn parse(texts: &[Text<'_>], function_arn: Option<&str>) -> Result<Vec<Cluster>, String> {
    if texts.is_empty() {
        return Err("it is not set, and at least one cluster is required".to_owned());
    }
    let mut clusters: Vec<Cluster> = Vec::new();
    for text in texts {
        let entries = parse_entries(text.text).map_err(|problem| text.problem(&problem))?;
        if entries.is_empty() {
            return Err(text.problem("it names no cluster"));
        }
        for entry in entries {
            let description = text.describe_entry(&entry.cluster);
            let cluster = parse_cluster(entry, function_arn);
            let cluster = cluster.map_err(|problem| text.problem(&problem))?;
            match clusters.iter_mut().find(|earlier| earlier.arn == cluster.arn) {
                Some(earlier) => earlier.repetitions.push(description),
                None => clusters.push(cluster),
            }
        }
    }
    Ok(clusters)
}

fn parse_entries(text: &str) -> Result<Vec<ClusterObject>, String> {
    let from_text = |cluster: String| ClusterObject { cluster, ..ClusterObject::default() };
    if text.starts_with('[') {
        let entries: Vec<ClusterEntry> =
            serde_json::from_str(text).map_err(|error| describe_list_error(text, &error))?;
        let objects = entries.into_iter().map(|entry| match entry {
            ClusterEntry::Object(object) => *object,
            ClusterEntry::Text(cluster) => from_text(cluster),
        });
        return Ok(objects.collect());
    }
    if text.starts_with('{') {
        let object: Result<ClusterObject, _> = serde_json::from_str(text);
        let object =
            object.map_err(|error| format!("it is not a valid cluster object: {error}"))?;
        return Ok(vec![object]);
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(items.map(|item| from_text(item.to_owned())).collect())
}

/// Describes why the JSON list is invalid. Serde's error for an untagged enum does not name the faulty field, so each
/// object is parsed again on its own.
fn describe_list_error(text: &str, error: &serde_json::Error) -> String {
    let items: Result<Vec<serde_json::Value>, _> = serde_json::from_str(text);
    let objects = items.into_iter().flatten().filter(serde_json::Value::is_object);
    let first = objects.map(serde_json::from_value::<ClusterObject>).find_map(Result::err);
    let error = first.as_ref().unwrap_or(error);
    format!("it is not a JSON list of names, ARNs and objects: {error}")
}

fn parse_cluster(object: ClusterObject, function_arn: Option<&str>) -> Result<Cluster, String> {
    let parse_role = |arn: Option<String>| {
        let external_id = object.external_id.clone();
        let arn =
            arn.map(|arn| super::parse(&arn, role_arn, "not the ARN of a role")).transpose()?;
        Ok::<_, String>(arn.map(|arn| Role { arn, external_id }))
    };
    let role = parse_role(object.role_arn)?;
    let arn = parse_arn(&object.cluster, role.as_ref(), function_arn)?;
    let region_form = "the name of a Region, such as eu-central-1";
    let parse_region = |text: &str| is_region(text).then(|| text.to_owned());
    let registry_region =
        field("registryRegion", object.registry_region, parse_region, region_form)?;
    let own_region = function_arn.and_then(|arn| arn.split(':').nth(3));
    let registry_region = registry_region.filter(|region| Some(region.as_str()) != own_region);
    let namespace_form = "the name, id or ARN of a namespace";
    let id_form = "one DNS label, or two with a dot, of at most 63 characters";
    let clusterset_form = "1 to 128 letters, digits, dots, underscores and hyphens";
    Ok(Cluster {
        arn,
        repetitions: Vec::new(),
        role,
        registry_role: parse_role(object.registry_role_arn)?,
        registry_region,
        default_namespace: field(
            "defaultNamespace",
            object.default_namespace,
            NamespaceReference::parse,
            namespace_form,
        )?,
        membership: Membership {
            multi_cluster: object.multi_cluster,
            cluster_id: field("clusterId", object.cluster_id, ClusterId::parse, id_form)?,
            clusterset: field(
                "clusterset",
                object.clusterset,
                ClustersetId::parse,
                clusterset_form,
            )?,
        },
        pages_on_fault: object.page.unwrap_or(true),
    })
}

/// Returns the ARN of a cluster from an entry's name or ARN. A name stands for a cluster in the function's account. If
/// `role` is of another account, the name is rejected: only that account can describe its clusters, so the entry must
/// give the ARN.
fn parse_arn(
    text: &str,
    role: Option<&Role>,
    function_arn: Option<&str>,
) -> Result<ClusterArn, String> {
    if let Some(arn) = ClusterArn::parse(text) {
        return Ok(arn);
    }
    if text.starts_with(SCHEME) {
        return Err(format!(
            "{text:?} references Parameter Store: the reference must be the whole value of CLUSTERS"
        ));
    }
    if !is_cluster_name(text) {
        return Err(format!("{text:?} is neither the name nor the ARN of an EKS cluster"));
    }
    let arn = function_arn.and_then(|function| ClusterArn::beside_function(function, text));
    let arn = arn.ok_or_else(|| {
        format!(
            "{text:?} names no account and Region, and the ARN of the function is not known: give the cluster's ARN"
        )
    })?;
    match role.and_then(Role::account).filter(|account| *account != arn.account()) {
        Some(account) => Err(format!(
            "{text:?} is the cluster {arn}, in the account of the function, and its roleArn is of the account {account}: \
             give the cluster's ARN"
        )),
        None => Ok(arn),
    }
}

fn role_arn(text: &str) -> Option<String> {
    let is_role = text.starts_with("arn:aws") && text.contains(":role/");
    (is_role && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
}

/// Parses a field. Returns `None` if the object does not have it.
fn field<T>(
    name: &str,
    text: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    form: &str,
) -> Result<Option<T>, String> {
    let parse = |text: String| parse(&text).ok_or_else(|| format!("{name} {text:?} is not {form}"));
    text.map(parse).transpose()
}

/// The default of the setting `STALE_CLUSTERS_AFTER`.
pub const DEFAULT_STALE_CLUSTERS_AFTER: SignedDuration = SignedDuration::from_mins(15);

words! {
    /// Whether a cluster exports and imports by the Multi-Cluster Services API.
    #[derive(Default)]
    pub enum MultiCluster {
        #[default]
        Off = "off",
        /// The cluster exports and imports.
        On = "on",
        Export = "export",
        Import = "import",
    }
}

impl MultiCluster {
    pub fn exports(self) -> bool {
        matches!(self, Self::On | Self::Export)
    }

    pub fn imports(self) -> bool {
        matches!(self, Self::On | Self::Import)
    }
}

/// A cluster's own settings for the Multi-Cluster Services API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Whether the cluster exports and imports. `None` for the value of `MULTI_CLUSTER`.
    pub multi_cluster: Option<MultiCluster>,
    /// The cluster id. `None` for the id in the cluster's `ClusterProperty` `cluster.clusterset.k8s.io`.
    pub cluster_id: Option<ClusterId>,
    /// The clusterset. `None` for the clusterset in the cluster's `ClusterProperty` `clusterset.k8s.io`.
    pub clusterset: Option<ClustersetId>,
}

/// Parses `MULTI_CLUSTER`.
///
/// # Errors
///
/// Returns a message that lists the valid values if `text` is not one of them.
pub fn parse_multi_cluster(text: &str) -> Result<MultiCluster, String> {
    super::parse(text, MultiCluster::parse, "not one of off, on, export, import")
}

/// Returns a warning if `stale_after` is less than two schedule periods. A cluster that is synced on schedule may have
/// a heartbeat of that age, and would be reported as stale.
pub fn stale_after_warning(stale_after: SignedDuration, period: SignedDuration) -> Option<String> {
    (stale_after < period * 2).then(|| {
        format!(
            "STALE_CLUSTERS_AFTER ({stale_after:#}) and SCHEDULE_MINUTES ({}) do not go together: clusters are reported as \
             stale between two full syncs; set it to at least twice the longest schedule of the clusterset",
            period.as_mins()
        )
    })
}

/// Returns a warning about each member that uses the Cloud Map of an earlier member by another role. The function takes
/// the two for different Cloud Maps, and the two clusters for members of different clustersets. So the exports of one
/// reach the other only through Cloud Map. `own` is the account of the function.
pub fn registry_role_warnings<'a>(
    members: impl Iterator<Item = &'a Cluster>,
    own: Option<&'a str>,
) -> Vec<String> {
    let mut first_users: BTreeMap<(&str, Option<&str>), &Cluster> = BTreeMap::new();
    let mut warnings = Vec::new();
    for cluster in members {
        let Some(account) = cluster.registry_account(own) else { continue };
        let registry = (account, cluster.registry_region.as_deref());
        let first = first_users.entry(registry).or_insert(cluster);
        if first.registry_role != cluster.registry_role {
            let Cluster { arn, .. } = cluster;
            warnings.push(format!(
                "{arn} and {} use the Cloud Map of account {account} by different roles, so changes of one reach the \
                 imports of the other only through Cloud Map: give both the same registryRoleArn and externalId",
                first.arn
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:eks:us-east-1:444455556666:cluster/green";
    const FUNCTION: &str = "arn:aws:lambda:eu-central-1:111122223333:function:sync";

    fn parse(text: Option<&str>) -> Result<Vec<Cluster>, String> {
        parse_for(text, Some(FUNCTION))
    }

    fn parse_for(text: Option<&str>, function: Option<&str>) -> Result<Vec<Cluster>, String> {
        let texts = text.map(|text| Text { parameter: None, text });
        super::parse(texts.as_slice(), function)
    }

    #[test]
    fn names_arns_and_objects_are_accepted() {
        let object = r#"["blue", "ARN", {"cluster": "red", "roleArn": "arn:aws:iam::111122223333:role/r",
            "externalId": "x", "registryRegion": "eu-west-1", "defaultNamespace": "prod"}]"#;
        let clusters = parse(Some(&object.replace("ARN", ARN)));
        let [blue, green, red] = clusters.expect("valid").try_into().expect("three");
        assert_eq!(blue.arn.as_str(), "arn:aws:eks:eu-central-1:111122223333:cluster/blue");
        assert_eq!(green.arn.as_str(), ARN);
        assert_eq!(red.role.and_then(|role| role.external_id).as_deref(), Some("x"));
        assert_eq!(red.registry_region.as_deref(), Some("eu-west-1"));
        assert_eq!(red.registry_role, None);
    }

    #[test]
    fn registry_is_in_the_account_of_its_role_or_of_the_function() {
        let role = r#""roleArn": "arn:aws:iam::444455556666:role/r""#;
        let registry = r#""registryRoleArn": "arn:aws:iam::777788889999:role/r""#;
        let own = Some("111122223333");
        for (fields, function, expected) in [
            (role.to_owned(), own, own),
            (role.to_owned(), None, None),
            (registry.to_owned(), own, Some("777788889999")),
            (format!("{role}, {registry}"), own, Some("777788889999")),
            (r#""page": true"#.to_owned(), own, own),
            (r#""page": true"#.to_owned(), None, Some("444455556666")),
        ] {
            let text = format!(r#"{{"cluster": "{ARN}", {fields}}}"#);
            let clusters = parse(Some(&text)).expect("valid");
            assert_eq!(clusters[0].registry_account(function), expected, "{text} {function:?}");
        }
    }

    #[test]
    fn name_is_of_the_account_and_region_of_the_function() {
        let own = "arn:aws:lambda:eu-central-1:111122223333:function:sync";
        let unknown = Err("the ARN of the function is not known: give the cluster's ARN");
        let blue = r#""blue""#;
        let far = format!(r#""{ARN}""#);
        let with_role = |cluster: &str, account: &str| {
            format!(r#"{{"cluster": "{cluster}", "roleArn": "arn:aws:iam::{account}:role/r"}}"#)
        };
        let cases = [
            (blue, Some(own), Ok("arn:aws:eks:eu-central-1:111122223333:cluster/blue")),
            (
                blue,
                Some("arn:aws:lambda:eu-west-1:444455556666:function:sync:admin"),
                Ok("arn:aws:eks:eu-west-1:444455556666:cluster/blue"),
            ),
            (
                blue,
                Some("arn:aws-cn:lambda:cn-north-1:111122223333:function:sync:7"),
                Ok("arn:aws-cn:eks:cn-north-1:111122223333:cluster/blue"),
            ),
            (
                blue,
                Some("arn:aws-us-gov:lambda:us-gov-west-1:111122223333:function:sync"),
                Ok("arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/blue"),
            ),
            (blue, None, unknown),
            (blue, Some("function-arn"), unknown),
            (blue, Some("arn:aws:sqs:eu-central-1:111122223333:sync"), unknown),
            (&far, Some(own), Ok(ARN)),
            (&far, None, Ok(ARN)),
            (
                &with_role("blue", "111122223333"),
                Some(own),
                Ok("arn:aws:eks:eu-central-1:111122223333:cluster/blue"),
            ),
            (
                &with_role("blue", "444455556666"),
                Some(own),
                Err("its roleArn is of the account 444455556666: give the cluster's ARN"),
            ),
            (&with_role(ARN, "444455556666"), Some(own), Ok(ARN)),
        ];
        for (entry, function, expected) in cases {
            let parsed = parse_for(Some(&format!("[{entry}]")), function);
            let arn = parsed.as_ref().map(|clusters| clusters[0].arn.as_str());
            match (arn, expected) {
                (Err(problem), Err(end)) => assert!(problem.ends_with(end), "{problem}"),
                (arn, expected) => {
                    assert_eq!(arn, expected.map_err(str::to_owned).as_ref().copied(), "{entry}");
                }
            }
        }
    }

    /// A served cluster, with the entries that repeat it.
    type Served<'a> = (&'a str, &'a [&'a str]);

    #[test]
    fn later_of_two_entries_for_one_cluster_is_held_back() {
        let own = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
        let elsewhere = "arn:aws:eks:eu-west-1:111122223333:cluster/blue";
        let cases: [(_, &[Served<'_>]); 6] = [
            ("blue".to_owned(), &[(own, &[])]),
            ("blue,blue".to_owned(), &[(own, &["blue"])]),
            (format!("blue,{own}"), &[(own, &[own])]),
            (format!("{own},blue,{own}"), &[(own, &["blue", own])]),
            (format!("blue,{elsewhere}"), &[(own, &[]), (elsewhere, &[])]),
            (format!("{elsewhere},blue,{own}"), &[(elsewhere, &[]), (own, &[own])]),
        ];
        for (text, expected) in cases {
            let clusters = parse(Some(&text)).expect("valid");
            let found = clusters.iter().map(|cluster| {
                let repetitions = cluster.repetitions.iter().map(|entry| entry.trim_matches('"'));
                let repetitions: Vec<&str> = repetitions.collect();
                (cluster.arn.as_str(), repetitions)
            });
            let expected = expected.iter().map(|(arn, names)| (*arn, names.to_vec()));
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{text}");
        }
        let entries = r#"["blue", {"cluster": "blue", "defaultNamespace": "prod"}]"#;
        let clusters = parse(Some(entries)).expect("valid");
        assert_eq!(clusters[0].default_namespace, None, "the first entry is served");
        let warnings: Vec<String> = clusters[0].repetition_warnings().collect();
        insta::assert_snapshot!(warnings.join("\n"), @r#"CLUSTERS names the cluster arn:aws:eks:eu-central-1:111122223333:cluster/blue a second time, as "blue": the first entry is served and the later one is held back; remove one of the two"#);
    }

    #[test]
    fn object_states_the_membership_of_a_cluster() {
        let object = r#"[{"cluster": "blue", "multiCluster": "export", "clusterId": "eu.blue",
            "clusterset": "shop"}, "green"]"#;
        let clusters = parse(Some(object)).expect("valid");
        let Membership { multi_cluster, cluster_id, clusterset } = &clusters[0].membership;
        assert_eq!(*multi_cluster, Some(MultiCluster::Export));
        assert_eq!(cluster_id.as_ref().map(ToString::to_string).as_deref(), Some("eu.blue"));
        assert_eq!(clusterset.as_ref().map(ToString::to_string).as_deref(), Some("shop"));
        assert_eq!(clusters[1].membership, Membership::default());
        for (member, expected) in [
            (
                r#""clusterId": "Blue""#,
                "clusterId \"Blue\" is not one DNS label, or two with a dot",
            ),
            (r#""clusterset": "a b""#, "clusterset \"a b\" is not 1 to 128 letters, digits"),
            (r#""multiCluster": "yes""#, "unknown variant `yes`, expected one of `off`, `on`"),
        ] {
            let text = format!(r#"[{{"cluster": "blue", {member}}}]"#);
            let error = parse(Some(&text)).expect_err("a mistake");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn reference_beside_other_clusters_is_refused() {
        for text in ["blue,ssm:/clusters", r#"["ssm:/clusters"]"#] {
            let error = parse(Some(text)).expect_err("a mistake");
            assert_eq!(
                error,
                "\"ssm:/clusters\" references Parameter Store: the reference must be the whole value of CLUSTERS"
            );
        }
    }

    #[test]
    fn every_cluster_pages_unless_its_object_denies_it() {
        let text = r#"["blue", {"cluster": "green"}, {"cluster": "red", "page": false}]"#;
        let clusters = parse(Some(text)).expect("valid");
        assert_eq!(
            clusters.iter().map(|cluster| cluster.pages_on_fault).collect::<Vec<_>>(),
            [true, true, false]
        );
        let wrong = parse(Some(r#"[{"cluster": "red", "page": "no"}]"#));
        let error = wrong.expect_err("a mistake");
        assert!(error.contains("invalid type: string \"no\", expected a boolean"), "{error}");
    }

    #[test]
    fn mistakes_name_the_wrong_entry() {
        let cases = [
            (None, "it is not set, and at least one cluster is required"),
            (Some(","), "it names no cluster"),
            (Some("a/b"), "\"a/b\" is neither the name nor the ARN of an EKS cluster"),
            (Some(r#"[{"cluster": "blue", "roleArn": "me"}]"#), "\"me\" is not the ARN of a role"),
            (
                Some(r#"[{"cluster": "blue", "roleArn": "arn:aws:iam::111122223333:role/a\nb"}]"#),
                r#""arn:aws:iam::111122223333:role/a\nb" is not the ARN of a role"#,
            ),
            (
                Some(r#"[{"cluster": "blue", "registryRegion": "eks.example.com/"}]"#),
                "registryRegion \"eks.example.com/\" is not the name of a Region, such as eu-central-1",
            ),
            (
                Some(r#"{"name": "blue"}"#),
                "it is not a valid cluster object: unknown field `name`, expected one of `cluster`, \
                 `roleArn`, `externalId`, `registryRoleArn`, `registryRegion`, \
                 `defaultNamespace`, `multiCluster`, `clusterId`, `clusterset`, `page` at line 1 column 7",
            ),
            (
                Some(r#"[{"cluster": "blue", "role": "x"}]"#),
                "it is not a JSON list of names, ARNs and objects: unknown field `role`, expected \
                 one of `cluster`, `roleArn`, `externalId`, `registryRoleArn`, `registryRegion`, \
                 `defaultNamespace`, `multiCluster`, `clusterId`, `clusterset`, `page`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Err(expected.to_owned()));
        }
    }
}
