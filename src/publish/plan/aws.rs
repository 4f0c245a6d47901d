//! Detects the names that belong to AWS's controller. That controller deregisters every instance under its cluster id
//! that it did not register. Its finalizer excludes only one ServiceExport, since anyone who may write the export can
//! set the finalizer. Its instances exclude one name if the cluster has a record of ours, and otherwise the whole
//! cluster.

use super::observation::Observation;
use super::reason::Reason;
use crate::clusterset::attributes::read;
use crate::model::{
    Attributes, ClusterId, ClustersetId, Member, Place, Registry, ServiceKey, ServiceRef,
};

/// Checks that the name of an export does not belong to AWS's controller. It does if the ServiceExport has the
/// finalizer of that controller, or if that controller has instances under the name for the same cluster id. Publishing
/// the export would register each endpoint twice, and that controller would deregister our instances if it came back.
///
/// # Errors
/// Returns an error if the name belongs to AWS's controller.
pub fn check_not_of_aws(
    observation: &Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Result<(), Reason> {
    let published = observation.desired.services.get(holder);
    let Some(exported) = published.and_then(|published| published.export.as_ref()) else {
        return Ok(());
    };
    if exported.is_of_aws {
        return Err(Reason::FinalizerOfAws);
    }
    let instances = observation.registry.instances(key);
    let of_aws = instances.filter(|(id, attributes)| {
        is_of_aws(id, attributes, &exported.clusterset, &exported.export.cluster)
    });
    match of_aws.count() {
        0 => Ok(()),
        instances => Err(Reason::InstancesOfAws { instances }),
    }
}

/// Returns a Cloud Map service in which AWS's controller has registered instances under the id of a member.
pub fn place_of_aws(registry: &Registry, member: &Member) -> Option<String> {
    let Member { cluster, clusterset } = member;
    let mut keys = registry.services.keys();
    let key = keys.find(|key| {
        let mut instances = registry.instances(key);
        instances.any(|(id, attributes)| is_of_aws(id, attributes, clusterset, cluster))
    });
    key.map(|key| Place::of(key, registry).to_string())
}

/// Whether AWS's controller has registered an instance for a cluster.
fn is_of_aws(
    id: &str,
    attributes: &Attributes,
    clusterset: &ClustersetId,
    cluster: &ClusterId,
) -> bool {
    if attributes.has_marks() || attributes.may_be_of_ecs(id) || attributes.is_of_ecs(id) {
        return false;
    }
    let instance = read(attributes, clusterset).ok().flatten();
    instance.is_some_and(|instance| instance.cluster == *cluster)
}
