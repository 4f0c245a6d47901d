//! The names that belong to AWS's controller, which deregisters everything under its cluster id that it did not register.
//! Its finalizer is about one ServiceExport, since anyone who may write the export can set it. Its instances are about one
//! name if the cluster has a record of ours, and else about the whole cluster.

use super::observation::Observation;
use super::reason::Reason;
use crate::clusterset::attributes::read;
use crate::model::{
    Attributes, ClusterId, ClustersetId, Member, Place, Registry, ServiceKey, ServiceRef,
};

/// An export whose name is AWS's is left alone. Its ServiceExport has the finalizer of AWS's controller, or that controller
/// has instances for the same cluster id under its name: otherwise each endpoint would be registered twice, and that
/// controller would deregister ours if it came back.
///
/// # Errors
/// Returns the reason if there is such a sign.
pub fn is_not_of_aws(
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

/// A Cloud Map service with instances that AWS's controller has registered under the id of a member.
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
