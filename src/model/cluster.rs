//! An EKS cluster: its ARN, which alone identifies the cluster of an instance; the address and tokens of its API
//! server; and whether it exists. `eks` returns these values and `kubernetes` uses them, so that neither imports the
//! other. Also the owner in the marks of an instance: a flow of an installation, for one cluster.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::attributes::{EXPORTER, NAMESPACE, OWNER, SERVICE};
use super::{Attributes, CloudMapService, ServiceRef, display};

/// The ARN of an EKS cluster, `arn:aws:eks:REGION:ACCOUNT:cluster/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ClusterArn(String);

impl ClusterArn {
    /// Returns `None` if the text is not the ARN of an EKS cluster.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let [arn, partition, service, region, account, resource] = parts.as_slice() else {
            return None;
        };
        let name = resource.strip_prefix("cluster/")?;
        let well_formed = *arn == "arn"
            && partition.starts_with("aws")
            && is_region(partition)
            && *service == "eks"
            && is_region(region)
            && is_account(account)
            && is_cluster_name(name);
        well_formed.then(|| Self(text.to_owned()))
    }

    /// Returns the ARN of the cluster with this name in the account and Region of a Lambda function, whose ARN may have
    /// a qualifier. `None` if `function` is not the ARN of a function or `name` not the name of a cluster.
    pub fn beside_function(function: &str, name: &str) -> Option<Self> {
        let parts: Vec<&str> = function.split(':').collect();
        let ["arn", partition, "lambda", region, account, "function", ..] = parts.as_slice() else {
            return None;
        };
        Self::parse(&format!("arn:{partition}:eks:{region}:{account}:cluster/{name}"))
    }

    /// Unique in its account and Region.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }

    pub fn region(&self) -> &str {
        self.0.split(':').nth(3).unwrap_or("")
    }

    pub fn account(&self) -> &str {
        self.0.split(':').nth(4).unwrap_or("")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

display!(ClusterArn(arn) => "{arn}");

/// Whether a text can be the name of a Region or of a partition. The name becomes part of a host name, and anyone who
/// may register an instance can write any ARN into its marks.
pub fn is_region(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_part)
}

/// Whether a text is the number of an account.
pub(crate) fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// EKS's pattern: `^[0-9A-Za-z][A-Za-z0-9\-_]*$`, at most 100 characters.
pub(crate) fn is_cluster_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest =
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    first && rest && text.len() <= 100
}

/// A cluster as EKS describes it. Endpoint and certificate authority come from EKS alone, never from an event or a
/// setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EksCluster {
    pub name: String,
    /// The id of a local cluster on Outposts. Other clusters have none.
    pub local_id: Option<String>,
    /// The identity of the cluster in the marks.
    pub arn: ClusterArn,
    /// Always https.
    pub endpoint: http::Uri,
    /// PEM. Two certificates while EKS rotates the authority.
    pub certificate_authority: Vec<u8>,
    /// Whether EKS Auto Mode is enabled: its nodes have a DNS server of their own.
    pub is_auto_mode: bool,
}

impl EksCluster {
    /// The value of `x-k8s-aws-id` in the tokens that the cluster accepts: its id on Outposts (`aws eks get-token
    /// --cluster-id`), its name otherwise.
    pub fn token_audience(&self) -> &str {
        self.local_id.as_deref().unwrap_or(&self.name)
    }
}

/// The error of a token that could not be made.
pub type TokenError = Box<dyn std::error::Error + Send + Sync>;

/// Returns a bearer token for each request, or an error if it could not be signed. Each token is fresh for some
/// minutes.
pub type BearerTokens =
    Arc<dyn Fn() -> BoxFuture<'static, Result<String, TokenError>> + Send + Sync>;

/// The existence of a cluster in EKS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    Exists,
    /// Not found in the cluster's own account and Region.
    Gone,
    /// Unknown, for this reason.
    Unknown(String),
}

impl fmt::Display for Existence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("the cluster exists in EKS"),
            Self::Gone => f.write_str("the cluster is gone: EKS does not find it"),
            Self::Unknown(why) => {
                write!(f, "it is unknown whether the cluster exists in EKS ({why})")
            }
        }
    }
}

// The owner of an instance: the only place that decides whether an instance is ours.
//
// Two flows register instances, under one installation and one cluster. Each flow has its own mark, so an instance of
// one flow is foreign to the other.

/// The source of the instances of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// Annotated headless Services.
    Annotations,
    /// Services with a `ServiceExport`.
    Exports,
}

impl Flow {
    /// Returns the flow of a marked instance. An instance with the marks of both flows belongs to annotations.
    pub fn of(attributes: &Attributes) -> Option<Self> {
        let flows = [Self::Annotations, Self::Exports];
        flows.into_iter().find(|flow| flow.has_mark_on(attributes))
    }

    /// Whether an instance belongs to this flow, of any installation.
    pub fn is_of(self, attributes: &Attributes) -> bool {
        Self::of(attributes) == Some(self)
    }

    /// Whether an instance has the mark of this flow, of any installation.
    pub fn has_mark_on(self, attributes: &Attributes) -> bool {
        attributes.contains_key(self.mark())
    }

    /// The key of the mark that contains the installation.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Annotations => OWNER,
            Self::Exports => EXPORTER,
        }
    }
}

/// The owner of instances: one flow of one installation, for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `OWNER_ID`.
    pub id: String,
    pub cluster: ClusterArn,
    pub flow: Flow,
}

impl Owner {
    /// Returns the owner with the same cluster and flow under a former `OWNER_ID`.
    #[must_use]
    pub fn formerly(&self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self.clone() }
    }

    /// The owner in the marks of an instance, of any installation.
    pub fn of(attributes: &Attributes) -> Option<Self> {
        let flow = Flow::of(attributes)?;
        let id = attributes.get(flow.mark())?.to_owned();
        Some(Self { id, cluster: ClusterArn::parse(attributes.cluster()?)?, flow })
    }

    /// Returns the owner in the marks of an instance if its installation is `id` and it belongs to `flow`, for any
    /// cluster.
    pub fn of_installation(id: &str, flow: Flow, attributes: &Attributes) -> Option<Self> {
        Self::of(attributes).filter(|owner| owner.id == id && owner.flow == flow)
    }

    /// Whether the instance is ours: cluster, installation and flow match exactly. There is no other rule. The cluster
    /// is compared first: every plan checks all instances, and most instances in a shared registry belong to another
    /// cluster.
    pub fn owns(&self, attributes: &Attributes) -> bool {
        attributes.cluster() == Some(self.cluster.as_str())
            && attributes.get(self.flow.mark()) == Some(&self.id)
            && self.flow.is_of(attributes)
    }

    /// Whether a Cloud Map service has an instance of ours, as far as its instances were read.
    pub fn has_instance(&self, service: &CloudMapService) -> bool {
        let mut instances = service.instances.iter().flatten();
        instances.any(|(_, attributes)| self.owns(attributes))
    }

    /// Returns the namespace and the name of the Service in the marks of an instance of ours. If an
    /// instance has lost these marks, the names are empty. No Service can have empty names, so a sync deregisters it.
    pub fn names_of<'a>(&self, attributes: &'a Attributes) -> Option<(&'a str, &'a str)> {
        let text = |key| attributes.get(key).unwrap_or_default();
        self.owns(attributes).then(|| (text(NAMESPACE), text(SERVICE)))
    }

    /// The Service in the marks of an instance of ours.
    pub fn service_of(&self, attributes: &Attributes) -> Option<ServiceRef> {
        let (namespace, name) = self.names_of(attributes)?;
        Some(ServiceRef::new(namespace, name))
    }

    /// Whether an instance is ours and marked for this Service.
    pub fn marks_for(&self, attributes: &Attributes, service: &ServiceRef) -> bool {
        self.names_of(attributes) == Some((&service.namespace, &service.name))
    }
}

/// The likely owner of a foreign instance.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// A task of Amazon ECS.
    #[error("ECS")]
    Ecs,
    /// Another cluster, or another installation, of this function.
    #[error("of another cluster")]
    OtherCluster,
    /// This function, or another installation of it, for a `ServiceExport` of any cluster.
    #[error("of a ServiceExport")]
    Export,
    /// The AWS MCS controller for Kubernetes.
    #[error("AWS MCS controller")]
    McsController,
    /// The App Mesh controller for Kubernetes.
    #[error("App Mesh controller")]
    AppMesh,
    /// Any other owner: a user, Terraform, another controller.
    #[error("of no known owner")]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_arn_gives_name_region_and_account() {
        let arn = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/blue");
        let arn = arn.expect("well formed");
        assert_eq!((arn.name(), arn.region()), ("blue", "eu-central-1"));
        assert_eq!(arn.account(), "111122223333");
    }

    #[test]
    fn other_texts_are_no_cluster_arn() {
        for bad in [
            "blue",
            "arn:aws:eks:eu-central-1:111122223333:nodegroup/blue",
            "arn:aws:ecs:eu-central-1:111122223333:cluster/blue",
            "arn:aws:eks:eu-central-1:1:cluster/blue",
            "arn:aws:eks:eu-central-1:111122223333:cluster/-blue",
            "arn:aws:eks:eu-central-1:111122223333:cluster/a/b",
            "arn:aws:eks::111122223333:cluster/blue",
            "arn:aws:eks:eu-cent\u{feff}ral-1:111122223333:cluster/blue",
            "arn:aws:eks:eks.example.com/:111122223333:cluster/blue",
            "arn:aws:eks:EU-CENTRAL-1:111122223333:cluster/blue",
            "arn:aws#:eks:eu-central-1:111122223333:cluster/blue",
            "arn:gcp:eks:eu-central-1:111122223333:cluster/blue",
        ] {
            assert_eq!(ClusterArn::parse(bad), None, "{bad}");
        }
    }
}

#[cfg(test)]
mod owner_tests {
    use super::*;
    use crate::model::Marks;
    use crate::model::attributes::{CLUSTER, SCHEMA};

    const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
    const GREEN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/green";
    const FLOWS: [(Flow, Flow); 2] =
        [(Flow::Annotations, Flow::Exports), (Flow::Exports, Flow::Annotations)];

    fn owner(flow: Flow) -> Owner {
        let cluster = ClusterArn::parse(BLUE).expect("well formed");
        Owner { id: "cloud-map-sync".into(), cluster, flow }
    }

    fn web() -> ServiceRef {
        ServiceRef::new("shop", "web")
    }

    fn ours(flow: Flow) -> Attributes {
        Marks { service: web(), pod: Some("web-1".into()) }.write(&owner(flow))
    }

    #[test]
    fn the_service_of_marks_written_is_the_one_read() {
        for (flow, _) in FLOWS {
            assert_eq!(owner(flow).service_of(&ours(flow)), Some(web()));
        }
    }

    #[test]
    fn an_instance_is_ours_only_when_owner_and_cluster_match_exactly() {
        for (flow, other) in FLOWS {
            let with = |key: &str, value: &str| {
                let mut attributes = ours(flow);
                attributes.insert(key, value);
                attributes
            };
            let mut unowned = ours(flow);
            unowned.remove(flow.mark());
            let cases = [
                (ours(flow), true),
                (with(SCHEMA, "7"), true),
                (with("cloud-map-sync/later", "x"), true),
                (with(flow.mark(), "cloud-map-sync2"), false),
                (with(flow.mark(), "cloud-map"), false),
                (with(CLUSTER, GREEN), false),
                (unowned, false),
                (ours(other), false),
                (Attributes::new(), false),
            ];
            for (attributes, expected) in cases {
                assert_eq!(owner(flow).owns(&attributes), expected, "{flow:?} {attributes:?}");
            }
        }
    }

    #[test]
    fn instance_is_marked_for_one_service_if_it_is_ours_and_both_names_match() {
        for (flow, other) in FLOWS {
            let owner = owner(flow);
            let others = ours(other);
            for service in [("shop", "web"), ("shop", "mail"), ("prod", "web"), ("prod", "mail")] {
                let service = ServiceRef::new(service.0, service.1);
                for (attributes, is_ours) in [(&ours(flow), true), (&others, false)] {
                    let is_marked = owner.marks_for(attributes, &service);
                    assert_eq!(is_marked, is_ours && service == web(), "{flow:?} {service}");
                }
            }
        }
    }

    #[test]
    fn an_instance_with_both_marks_belongs_to_annotations() {
        let mut both = ours(Flow::Annotations);
        both.extend(&ours(Flow::Exports));
        assert!(owner(Flow::Annotations).owns(&both));
        assert!(!owner(Flow::Exports).owns(&both));
        both.insert(OWNER, "another installation");
        assert!(!owner(Flow::Exports).owns(&both));
    }

    #[test]
    fn cluster_is_read_from_marks_of_the_installation_and_its_flow_only() {
        for (flow, other) in FLOWS {
            let mut ours = ours(flow);
            let marked = |id, flow| Owner::of_installation(id, flow, &ours);
            assert_eq!(marked("cloud-map-sync", flow), Some(owner(flow)));
            assert_eq!(marked("cloud-map-sync", other), None);
            assert_eq!(marked("cloud-map-sync2", flow), None);
            assert_eq!(Owner::of(&ours), Some(owner(flow)));
            ours.insert(CLUSTER, "blue");
            assert_eq!(Owner::of(&ours), None);
        }
    }
}
