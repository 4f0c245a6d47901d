//! `CLUSTERS`: which EKS clusters, with which roles, and which account's and Region's Cloud Map.

use serde::Deserialize;

use super::stored::Text;
use crate::model::cluster::is_cluster_name;
use crate::model::{ClusterArn, NamespaceReference};

/// One configured cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The Region it runs in.
    pub region: String,
    /// Its ARN, where the setting gives it; else `DescribeCluster` tells.
    pub arn: Option<ClusterArn>,
    /// The role to describe and read the cluster with; none: the function's own.
    pub role: Option<Role>,
    /// The role to read and write Cloud Map with; none: the function's own.
    pub registry_role: Option<Role>,
    /// The Region of the Cloud Map that the cluster's Services are kept in; none: the function's own.
    pub registry_region: Option<String>,
    /// The Cloud Map namespace of Services that name none; none: the Kubernetes namespace's name.
    pub default_namespace: Option<NamespaceReference>,
}

/// A role to assume through STS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role {
    /// Its ARN.
    pub arn: String,
    /// The external id that its trust policy asks for.
    pub external_id: Option<String>,
}

impl Role {
    /// The account that it is in.
    pub fn account(&self) -> Option<&str> {
        self.arn.split(':').nth(4)
    }
}

impl Cluster {
    /// Whether an event's word for a cluster means this one: its ARN or its name.
    pub fn is_called(&self, text: &str) -> bool {
        self.name == text || self.arn.as_ref().is_some_and(|arn| arn.as_str() == text)
    }

    /// Whether it is configured by its name alone, and an ARN has that name and Region. Its account is that of its
    /// role; without a role only EKS can tell it.
    pub fn may_be(&self, arn: &ClusterArn) -> bool {
        let account = self.role.as_ref().and_then(Role::account);
        self.arn.is_none()
            && self.name == arn.name()
            && self.region == arn.region()
            && account.is_none_or(|account| account == arn.account())
    }

    /// The account of the Cloud Map that the cluster is kept in, if its role names one. Without any role it is the
    /// function's own, which is then the cluster's, too.
    pub fn registry_account<'a>(&'a self, arn: &'a ClusterArn) -> Option<&'a str> {
        match (&self.registry_role, &self.role) {
            (Some(registry), _) => registry.account(),
            (None, None) => Some(arn.account()),
            (None, Some(_)) => None,
        }
    }

    /// The cluster as messages call it: by ARN where the setting gives one.
    pub fn label(&self) -> &str {
        self.arn.as_ref().map_or(&self.name, ClusterArn::as_str)
    }
}

/// A cluster as the setting spells it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Spelled {
    Text(String),
    Object(Box<Object>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Object {
    cluster: String,
    role_arn: Option<String>,
    external_id: Option<String>,
    registry_role_arn: Option<String>,
    registry_region: Option<String>,
    default_namespace: Option<String>,
}

/// Reads the setting: in each text names or ARNs separated by commas, a JSON list, or one object.
pub fn parse(texts: &[Text<'_>], region: Option<&str>) -> Result<Vec<Cluster>, String> {
    if texts.is_empty() {
        return Err("it is not set, and there is nothing to keep in step without it".to_owned());
    }
    let mut clusters = Vec::new();
    for text in texts {
        let found = parse_one(text.text, region, &clusters);
        clusters.extend(found.map_err(|problem| text.problem(&problem))?);
    }
    Ok(clusters)
}

/// The clusters of one text, none of which may be among those `before`.
fn parse_one(text: &str, region: Option<&str>, before: &[Cluster]) -> Result<Vec<Cluster>, String> {
    let spelled = spelled(text)?.into_iter().map(|spelled| cluster(spelled, region));
    let clusters = spelled.collect::<Result<Vec<_>, _>>()?;
    if clusters.is_empty() {
        return Err("it names no cluster".to_owned());
    }
    match first_repeated(before, &clusters) {
        Some(name) => Err(format!("cluster {name:?} is named twice")),
        None => Ok(clusters),
    }
}

fn spelled(text: &str) -> Result<Vec<Spelled>, String> {
    if text.starts_with('[') {
        return serde_json::from_str(text).map_err(|error| explain(text, &error));
    }
    if text.starts_with('{') {
        let object: Result<Object, _> = serde_json::from_str(text);
        let object = object.map_err(|error| format!("it is no object of a cluster: {error}"))?;
        return Ok(vec![Spelled::Object(Box::new(object))]);
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(items.map(|item| Spelled::Text(item.to_owned())).collect())
}

/// An untagged enum's error says nothing of the object's fields, so the objects are read once more.
fn explain(text: &str, error: &serde_json::Error) -> String {
    let items: Result<Vec<serde_json::Value>, _> = serde_json::from_str(text);
    let objects = items.into_iter().flatten().filter(serde_json::Value::is_object);
    let first = objects.map(serde_json::from_value::<Object>).find_map(Result::err);
    let error = first.as_ref().unwrap_or(error);
    format!("it is no JSON list of names, ARNs and objects: {error}")
}

fn cluster(spelled: Spelled, region: Option<&str>) -> Result<Cluster, String> {
    let object = match spelled {
        Spelled::Object(object) => *object,
        Spelled::Text(cluster) => Object {
            cluster,
            role_arn: None,
            external_id: None,
            registry_role_arn: None,
            registry_region: None,
            default_namespace: None,
        },
    };
    let (arn, name, region) = identify(&object.cluster, region)?;
    let role = |arn: Option<String>| {
        let role = arn.map(|arn| Role { arn, external_id: object.external_id.clone() });
        role.map(checked).transpose()
    };
    let namespace = object.default_namespace.as_deref().map(|text| {
        let problem = || format!("defaultNamespace {text:?} is no name, id or ARN of a namespace");
        NamespaceReference::parse(text).ok_or_else(problem)
    });
    Ok(Cluster {
        role: role(object.role_arn)?,
        registry_role: role(object.registry_role_arn)?,
        registry_region: object.registry_region,
        default_namespace: namespace.transpose()?,
        name,
        region,
        arn,
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
    if !is_cluster_name(text) {
        return Err(format!("{text:?} is neither the name nor the ARN of an EKS cluster"));
    }
    let region = region.ok_or_else(|| {
        format!("{text:?} names no Region and AWS_REGION is not set: give the cluster's ARN")
    })?;
    Ok((None, text.to_owned(), region.to_owned()))
}

fn checked(role: Role) -> Result<Role, String> {
    let well_formed = role.arn.starts_with("arn:aws") && role.arn.contains(":role/");
    if well_formed { Ok(role) } else { Err(format!("{:?} is no ARN of a role", role.arn)) }
}

fn first_repeated<'a>(before: &[Cluster], clusters: &'a [Cluster]) -> Option<&'a str> {
    let same = |a: &Cluster, b: &Cluster| {
        let account = |cluster: &Cluster| cluster.arn.clone().map(|arn| arn.as_str().to_owned());
        a.name == b.name && a.region == b.region && account(a) == account(b)
    };
    let repeated = |(index, cluster): &(usize, &Cluster)| {
        before.iter().chain(&clusters[..*index]).any(|earlier| same(earlier, cluster))
    };
    clusters.iter().enumerate().find(repeated).map(|(_, cluster)| cluster.label())
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
        assert!(green.is_called("green") && green.is_called(ARN) && !green.is_called("blue"));
        assert_eq!(red.role.and_then(|role| role.external_id).as_deref(), Some("x"));
        assert_eq!(red.registry_region.as_deref(), Some("eu-west-1"));
        assert_eq!(red.registry_role, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (None, "it is not set, and there is nothing to keep in step without it"),
            (Some(","), "it names no cluster"),
            (Some("a/b"), "\"a/b\" is neither the name nor the ARN of an EKS cluster"),
            (Some("blue,blue"), "cluster \"blue\" is named twice"),
            (Some(r#"[{"cluster": "blue", "roleArn": "me"}]"#), "\"me\" is no ARN of a role"),
            (
                Some(r#"{"name": "blue"}"#),
                "it is no object of a cluster: unknown field `name`, expected one of `cluster`, \
                 `roleArn`, `externalId`, `registryRoleArn`, `registryRegion`, \
                 `defaultNamespace` at line 1 column 7",
            ),
            (
                Some(r#"[{"cluster": "blue", "role": "x"}]"#),
                "it is no JSON list of names, ARNs and objects: unknown field `role`, expected \
                 one of `cluster`, `roleArn`, `externalId`, `registryRoleArn`, `registryRegion`, \
                 `defaultNamespace`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text, Some("eu-central-1")), Err(expected.to_owned()));
        }
    }
}
