//! The probable owner of an instance, and the parties with instances in each Cloud Map service. They are reported to people,
//! and an adoption leaves instances that ECS may have registered. Nothing else is decided by them: only [`Owner::owns`]
//! decides whether this function may change an instance.

use crate::model::attributes::{AVAILABILITY_ZONE, MARK_PREFIX, REGION};
use crate::model::{Attributes, Flow, Foreign, Owner};

/// The probable owner of the instance; `None` if the instance is ours.
pub fn foreign(id: &str, attributes: &Attributes, owner: &Owner) -> Option<Foreign> {
    if owner.owns(attributes) { None } else { Some(likely_owner(id, attributes)) }
}

/// The probable owner of an instance that is not ours.
pub fn likely_owner(id: &str, attributes: &Attributes) -> Foreign {
    let has = |prefix: &str| attributes.keys().any(|key| key.starts_with(prefix));
    let mcs = attributes.get("K8S_CONTROLLER").is_some_and(|it| it.starts_with(MCS_CONTROLLER));
    if Flow::of(attributes) == Some(Flow::Exports) {
        Foreign::Export
    } else if has(MARK_PREFIX) {
        Foreign::OtherCluster
    } else if is_ecs(id, attributes) {
        Foreign::Ecs
    } else if mcs {
        Foreign::McsController
    } else if has("appmesh.k8s.aws/") {
        Foreign::AppMesh
    } else {
        Foreign::Unknown
    }
}

/// Whether ECS registered the instance, judged by its id and attributes. Not all tasks have the keys of their service. A
/// UUID is certain only with the place that ECS writes for each task, which instances of ours have, too.
pub fn is_ecs(id: &str, attributes: &Attributes) -> bool {
    let has = |key: &str| attributes.contains_key(key);
    attributes.keys().any(|key| key.starts_with("ECS_"))
        || is_ecs_task_id(id)
        || has(AVAILABILITY_ZONE) && has(REGION) && may_be_ecs(id, attributes)
}

/// Whether ECS may have registered the instance: its id is a UUID, as those of tasks were for years, and other tools may
/// use such ids, too.
pub fn may_be_ecs(id: &str, attributes: &Attributes) -> bool {
    is_uuid(id) && !attributes.keys().any(|key| key.starts_with(MARK_PREFIX))
}

/// The marker that the AWS MCS controller writes into its instances, before its version.
const MCS_CONTROLLER: &str = "aws-cloud-map-mcs-controller-for-k8s";

/// ECS registers a task under its id: 32 lower-case hexadecimal digits.
fn is_ecs_task_id(id: &str) -> bool {
    is_hexadecimal(id, 32)
}

/// Five groups of lower-case hexadecimal digits with dashes between them.
fn is_uuid(id: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let mut parts = id.split('-');
    groups.into_iter().all(|length| parts.next().is_some_and(|part| is_hexadecimal(part, length)))
        && parts.next().is_none()
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterArn, Marks, ServiceRef};

    fn owner(cluster: &str) -> Owner {
        let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}");
        let cluster = ClusterArn::parse(&arn).expect("an ARN");
        Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Annotations }
    }

    #[test]
    fn foreign_instances_are_told_apart_for_the_reader() {
        let marks = Marks { service: ServiceRef::new("shop", "web"), pod: None };
        let exporter = Owner { flow: Flow::Exports, ..owner("blue") };
        let task = "0123456789abcdef0123456789abcdef";
        let uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
        let (capitals, longer) = (uuid.to_uppercase(), format!("{uuid}-1"));
        let attributes = |key: &str| Attributes::from([(key.to_owned(), "x".to_owned())]);
        let place = Attributes::from([("AVAILABILITY_ZONE", "x"), ("REGION", "x")]);
        let mut adopted = marks.write(&owner("green"));
        adopted.extend(&place);
        let mcs = |it: &str| Attributes::from([("K8S_CONTROLLER".to_owned(), it.to_owned())]);
        let cases = [
            ("a", marks.write(&owner("blue")), None),
            ("a", marks.write(&owner("green")), Some(Foreign::OtherCluster)),
            ("a", marks.write(&exporter), Some(Foreign::Export)),
            ("a", attributes("cloud-map-sync/schema"), Some(Foreign::OtherCluster)),
            ("a", attributes("ECS_SERVICE_NAME"), Some(Foreign::Ecs)),
            (task, attributes("AWS_INSTANCE_IPV4"), Some(Foreign::Ecs)),
            (uuid, place.clone(), Some(Foreign::Ecs)),
            (uuid, adopted, Some(Foreign::OtherCluster)),
            (uuid, attributes("REGION"), Some(Foreign::Unknown)),
            (&capitals, place.clone(), Some(Foreign::Unknown)),
            (&uuid[1..], place.clone(), Some(Foreign::Unknown)),
            (&longer, place.clone(), Some(Foreign::Unknown)),
            ("a", place, Some(Foreign::Unknown)),
            ("a", mcs("aws-cloud-map-mcs-controller-for-k8s 0.3.1"), Some(Foreign::McsController)),
            ("a", mcs("my-own"), Some(Foreign::Unknown)),
            ("a", attributes("appmesh.k8s.aws/mesh"), Some(Foreign::AppMesh)),
            ("a", attributes("AWS_INSTANCE_IPV4"), Some(Foreign::Unknown)),
        ];
        for (id, attributes, expected) in cases {
            assert_eq!(foreign(id, &attributes, &owner("blue")), expected, "{id} {attributes:?}");
        }
    }
}
