//! The setting `CLUSTERS`: the EKS clusters, their roles, and the account and Region of their Cloud Map; and
//! `MULTI_CLUSTER`: whether the exports of a cluster are published, and those of its clusterset imported.

use serde::Deserialize;

use super::parameter_store::{SCHEME, Text};
use crate::model::{
    ClusterArn, ClusterId, ClustersetId, NamespaceReference, SignedDuration, is_cluster_name,
    is_region, words,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub name: String,
    pub region: String,
    /// `None` if the setting has a name only; `DescribeCluster` returns the ARN.
    pub arn: Option<ClusterArn>,
    /// The ARNs of other entries that may be this cluster, if it has a name only.
    pub namesakes: Vec<ClusterArn>,
    /// The role to describe and read the cluster with; `None`: the function's own.
    pub role: Option<Role>,
    /// The role to read and write Cloud Map with; `None`: the function's own.
    pub registry_role: Option<Role>,
    /// The Region of the cluster's Cloud Map; `None`: the function's own.
    pub registry_region: Option<String>,
    /// The Cloud Map namespace of Services without a namespace annotation; `None`: the name of the Kubernetes
    /// namespace.
    pub default_namespace: Option<NamespaceReference>,
    pub membership: Membership,
    /// Whether its faults count in the metrics of the alarms that page.
    pub page: bool,
}

/// A role to assume through STS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role {
    pub arn: String,
    /// The external id that the trust policy of the role requires.
    pub external_id: Option<String>,
}

impl Role {
    pub fn account(&self) -> Option<&str> {
        self.arn.split(':').nth(4)
    }
}

impl Cluster {
    /// Whether an ARN can be that of a cluster which is configured by name only: name and Region match, and the account
    /// of the role. Without a role only EKS knows the account.
    pub fn may_be(&self, arn: &ClusterArn) -> bool {
        let account = self.role.as_ref().and_then(Role::account);
        self.arn.is_none()
            && self.name == arn.name()
            && self.region == arn.region()
            && account.is_none_or(|account| account == arn.account())
    }

    /// The account of the cluster's Cloud Map; `None` if the roles do not determine it. Without roles it is the
    /// function's own account, which is then also the cluster's.
    pub fn registry_account<'a>(&'a self, arn: &'a ClusterArn) -> Option<&'a str> {
        match (&self.registry_role, &self.role) {
            (Some(registry), _) => registry.account(),
            (None, None) => Some(arn.account()),
            (None, Some(_)) => None,
        }
    }

    /// The name in messages: the ARN if the setting has one.
    pub fn label(&self) -> &str {
        self.arn.as_ref().map_or(&self.name, ClusterArn::as_str)
    }
}

/// An entry of the setting.
#[derive(Deserialize)]
#[serde(untagged)]
enum ClusterEntry {
    Text(String),
    Object(Box<ClusterObject>),
}

/// An entry with more than a name, of which `docs/schemas` has a schema.
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

/// Parses the setting. Each text is a list of names or ARNs separated by commas, a JSON list, or one JSON object.
pub fn parse(texts: &[Text<'_>], region: Option<&str>) -> Result<Vec<Cluster>, String> {
    if texts.is_empty() {
        return Err("it is not set, and at least one cluster is required".to_owned());
    }
    let mut clusters = Vec::new();
    for text in texts {
        let found = parse_text(text.text, region, &clusters);
        clusters.extend(found.map_err(|problem| text.problem(&problem))?);
    }
    let arns: Vec<ClusterArn> = clusters.iter().filter_map(|it| it.arn.clone()).collect();
    for cluster in &mut clusters {
        cluster.namesakes = arns.iter().filter(|arn| cluster.may_be(arn)).cloned().collect();
    }
    Ok(clusters)
}

/// The clusters of one text. A repetition of a cluster of `before` is an error.
fn parse_text(
    text: &str,
    region: Option<&str>,
    before: &[Cluster],
) -> Result<Vec<Cluster>, String> {
    let entries = parse_entries(text)?.into_iter().map(|entry| parse_cluster(entry, region));
    let clusters = entries.collect::<Result<Vec<_>, _>>()?;
    if clusters.is_empty() {
        return Err("it names no cluster".to_owned());
    }
    match find_repetition(before, &clusters) {
        Some((first, second)) => Err(format!(
            "cluster {second:?} is named twice, first as {first:?}: remove one of the two, or give each its ARN if \
             they are two clusters"
        )),
        None => Ok(clusters),
    }
}

fn parse_entries(text: &str) -> Result<Vec<ClusterEntry>, String> {
    if text.starts_with('[') {
        return serde_json::from_str(text).map_err(|error| explain(text, &error));
    }
    if text.starts_with('{') {
        let object: Result<ClusterObject, _> = serde_json::from_str(text);
        let object =
            object.map_err(|error| format!("it is not a valid cluster object: {error}"))?;
        return Ok(vec![ClusterEntry::Object(Box::new(object))]);
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(items.map(|item| ClusterEntry::Text(item.to_owned())).collect())
}

/// The error of an untagged enum lacks the fields of the object, so the objects are parsed again.
fn explain(text: &str, error: &serde_json::Error) -> String {
    let items: Result<Vec<serde_json::Value>, _> = serde_json::from_str(text);
    let objects = items.into_iter().flatten().filter(serde_json::Value::is_object);
    let first = objects.map(serde_json::from_value::<ClusterObject>).find_map(Result::err);
    let error = first.as_ref().unwrap_or(error);
    format!("it is not a JSON list of names, ARNs and objects: {error}")
}

fn parse_cluster(entry: ClusterEntry, region: Option<&str>) -> Result<Cluster, String> {
    let object = match entry {
        ClusterEntry::Object(object) => *object,
        ClusterEntry::Text(cluster) => ClusterObject { cluster, ..ClusterObject::default() },
    };
    let (arn, name, region) = identify(&object.cluster, region)?;
    let role = |arn: Option<String>| {
        let external_id = object.external_id.clone();
        let arn = arn.map(|it| super::parse(&it, role_arn, "not the ARN of a role")).transpose()?;
        Ok::<_, String>(arn.map(|arn| Role { arn, external_id }))
    };
    let of_region = "the name of a Region, such as eu-central-1";
    let parse_region = |text: &str| is_region(text).then(|| text.to_owned());
    let registry_region = field("registryRegion", object.registry_region, parse_region, of_region)?;
    let of_namespace = "the name, id or ARN of a namespace";
    let of_id = "one DNS label, or two with a dot, of at most 63 characters";
    let of_clusterset = "1 to 128 letters, digits, dots, underscores and hyphens";
    Ok(Cluster {
        role: role(object.role_arn)?,
        registry_role: role(object.registry_role_arn)?,
        registry_region,
        default_namespace: field(
            "defaultNamespace",
            object.default_namespace,
            NamespaceReference::parse,
            of_namespace,
        )?,
        membership: Membership {
            multi_cluster: object.multi_cluster,
            cluster_id: field("clusterId", object.cluster_id, ClusterId::parse, of_id)?,
            clusterset: field("clusterset", object.clusterset, ClustersetId::parse, of_clusterset)?,
        },
        page: object.page.unwrap_or(true),
        name,
        region,
        arn,
        namesakes: Vec::new(),
    })
}

fn identify(
    text: &str,
    region: Option<&str>,
) -> Result<(Option<ClusterArn>, String, String), String> {
    if let Some(arn) = ClusterArn::parse(text) {
        let (name, region) = (arn.name().to_owned(), arn.region().to_owned());
        return Ok((Some(arn), name, region));
    }
    if text.starts_with(SCHEME) {
        return Err(format!("{text:?} references Parameter Store: it must be all of CLUSTERS"));
    }
    if !is_cluster_name(text) {
        return Err(format!("{text:?} is neither the name nor the ARN of an EKS cluster"));
    }
    let region = region.ok_or_else(|| {
        format!("{text:?} names no Region and AWS_REGION is not set: give the cluster's ARN")
    })?;
    Ok((None, text.to_owned(), region.to_owned()))
}

fn role_arn(text: &str) -> Option<String> {
    let is_role = text.starts_with("arn:aws") && text.contains(":role/");
    (is_role && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
}

/// The parsed value of a field, if the object has it.
fn field<T>(
    name: &str,
    text: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    form: &str,
) -> Result<Option<T>, String> {
    let parse = |it: String| parse(&it).ok_or_else(|| format!("{name} {it:?} is not {form}"));
    text.map(parse).transpose()
}

/// Two entries of one cluster, as they name it. An entry with a name may be the cluster of another one's ARN: only if its
/// role says so is it known here.
fn find_repetition<'a>(
    before: &'a [Cluster],
    clusters: &'a [Cluster],
) -> Option<(&'a str, &'a str)> {
    let is_of_account = |cluster: &Cluster, arn: &ClusterArn| {
        cluster.role.as_ref().and_then(Role::account) == Some(arn.account())
    };
    let same = |one: &Cluster, other: &Cluster| {
        let has_same_account = match (&one.arn, &other.arn) {
            (Some(arn), Some(other)) => arn == other,
            (None, None) => true,
            (None, Some(arn)) => is_of_account(one, arn),
            (Some(arn), None) => is_of_account(other, arn),
        };
        one.name == other.name && one.region == other.region && has_same_account
    };
    clusters.iter().enumerate().find_map(|(index, cluster)| {
        let earlier = before.iter().chain(&clusters[..index]).find(|it| same(it, cluster))?;
        Some((earlier.label(), cluster.label()))
    })
}

/// `STALE_CLUSTERS_AFTER`, unless it is set.
pub const STALE_CLUSTERS_AFTER: SignedDuration = SignedDuration::from_mins(15);

words! {
    /// The part that a cluster takes in the Multi-Cluster Services API.
    #[derive(Default)]
    pub enum MultiCluster {
        #[default]
        Off = "off",
        /// It exports and imports.
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
    /// `None`: as `MULTI_CLUSTER`.
    pub multi_cluster: Option<MultiCluster>,
    /// `None`: the `ClusterProperty` of the cluster.
    pub cluster_id: Option<ClusterId>,
    /// `None`: the `ClusterProperty` of the cluster.
    pub clusterset: Option<ClustersetId>,
}

/// Parses the setting.
///
/// # Errors
///
/// Returns the words that it takes if it has another one.
pub fn parse_multi_cluster(text: &str) -> Result<MultiCluster, String> {
    super::parse(text, MultiCluster::parse, "not one of off, on, export, import")
}

/// The warning for a `STALE_CLUSTERS_AFTER` that is too short for the schedule: a heartbeat may be that old although its
/// cluster is synced.
pub fn mismatch(stale_after: SignedDuration, period: SignedDuration) -> Option<String> {
    (stale_after < period * 2).then(|| {
        format!(
            "STALE_CLUSTERS_AFTER ({stale_after:#}) and SCHEDULE_MINUTES ({}) do not go together: clusters are reported as \
             stale between two full syncs; set it to at least twice the longest schedule of the clusterset",
            period.as_mins()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:eks:us-east-1:444455556666:cluster/green";

    fn parse(text: Option<&str>, region: Option<&str>) -> Result<Vec<Cluster>, String> {
        let texts = text.map(|text| Text { parameter: None, text });
        super::parse(texts.as_slice(), region)
    }

    #[test]
    fn names_arns_and_objects_are_accepted() {
        let object = r#"["blue", "ARN", {"cluster": "red", "roleArn": "arn:aws:iam::1:role/r",
            "externalId": "x", "registryRegion": "eu-west-1", "defaultNamespace": "prod"}]"#;
        let clusters = parse(Some(&object.replace("ARN", ARN)), Some("eu-central-1"));
        let [blue, green, red] = clusters.expect("valid").try_into().expect("three");
        assert_eq!((blue.region.as_str(), blue.arn.as_ref()), ("eu-central-1", None));
        assert_eq!((green.region.as_str(), green.label()), ("us-east-1", ARN));
        assert_eq!(red.role.and_then(|role| role.external_id).as_deref(), Some("x"));
        assert_eq!(red.registry_region.as_deref(), Some("eu-west-1"));
        assert_eq!(red.registry_role, None);
    }

    #[test]
    fn object_states_the_membership_of_a_cluster() {
        let object = r#"[{"cluster": "blue", "multiCluster": "export", "clusterId": "eu.blue",
            "clusterset": "shop"}, "green"]"#;
        let clusters = parse(Some(object), Some("eu-central-1")).expect("valid");
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
            let error = parse(Some(&text), Some("eu-central-1")).expect_err("a mistake");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn reference_beside_other_clusters_is_refused() {
        for text in ["blue,ssm:/clusters", r#"["ssm:/clusters"]"#] {
            let error = parse(Some(text), Some("eu-central-1")).expect_err("a mistake");
            assert_eq!(
                error,
                "\"ssm:/clusters\" references Parameter Store: it must be all of CLUSTERS"
            );
        }
    }

    #[test]
    fn every_cluster_pages_unless_its_object_denies_it() {
        let text = r#"["blue", {"cluster": "green"}, {"cluster": "red", "page": false}]"#;
        let clusters = parse(Some(text), Some("eu-central-1")).expect("valid");
        assert_eq!(clusters.iter().map(|it| it.page).collect::<Vec<_>>(), [true, true, false]);
        let wrong = parse(Some(r#"[{"cluster": "red", "page": "no"}]"#), Some("eu-central-1"));
        let error = wrong.expect_err("a mistake");
        assert!(error.contains("invalid type: string \"no\", expected a boolean"), "{error}");
    }

    #[test]
    fn name_beside_an_arn_is_refused_only_if_its_role_is_of_that_account() {
        let role = |account: &str| {
            format!(r#"{{"cluster": "green", "roleArn": "arn:aws:iam::{account}:role/r"}}"#)
        };
        let of = |account: &str| format!(r#""{}""#, ARN.replace("444455556666", account));
        let name = || r#""green""#.to_owned();
        let cases: [(_, _, Result<Vec<usize>, &str>); 8] = [
            (name(), of("444455556666"), Ok(vec![1, 0])),
            (of("444455556666"), name(), Ok(vec![0, 1])),
            (role("111122223333"), of("444455556666"), Ok(vec![0, 0])),
            (role("444455556666"), of("444455556666"), Err("first as \"green\"")),
            (of("444455556666"), role("444455556666"), Err("first as \"arn:aws:eks:us-east-1:")),
            (of("444455556666"), of("111122223333"), Ok(vec![0, 0])),
            (of("444455556666"), of("444455556666"), Err("is named twice")),
            (name(), role("444455556666"), Err("give each its ARN if they are two clusters")),
        ];
        for (one, other, expected) in cases {
            let parsed = parse(Some(&format!("[{one}, {other}]")), Some("us-east-1"));
            let namesakes: Result<Vec<usize>, String> =
                parsed.map(|all| all.iter().map(|it| it.namesakes.len()).collect());
            match (&namesakes, &expected) {
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                _ => assert_eq!(namesakes, expected.map_err(str::to_owned), "{one}, {other}"),
            }
        }
    }

    #[test]
    fn mistakes_name_the_wrong_entry() {
        let cases = [
            (None, "it is not set, and at least one cluster is required"),
            (Some(","), "it names no cluster"),
            (Some("a/b"), "\"a/b\" is neither the name nor the ARN of an EKS cluster"),
            (
                Some("blue,blue"),
                "cluster \"blue\" is named twice, first as \"blue\": remove one of the two, or give each its \
                 ARN if they are two clusters",
            ),
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
            assert_eq!(parse(text, Some("eu-central-1")), Err(expected.to_owned()));
        }
    }
}
