//! Objects of imports that another writer changed or is deleting.

use serde_json::json;

use super::{Members, exported, imported, pods, slices, sources, web};
use crate::fleet::OWNER;
use crate::run::sync;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::kubernetes::KubernetesServer;

const CREATED: &str = "2026-01-01T00:00:00Z";
const IMPORT: &str = "multicluster.kubernetes.io/service-name";

#[tokio::test]
async fn slice_without_its_labels_is_found_by_its_owner_and_mended() {
    for labels in [
        &["endpointslice.kubernetes.io/managed-by"][..],
        &[IMPORT],
        &[IMPORT, "endpointslice.kubernetes.io/managed-by"],
    ] {
        let members = Members::start().await;
        let Members { blue, green, .. } = &members;
        exported(blue, web(), &["10.0.0.1", "10.0.0.2"], CREATED);
        members.converge().await;
        let mut slice = slices(green, "web").remove(0);
        for label in labels {
            slice["metadata"]["labels"].as_object_mut().expect("labels").remove(*label);
        }
        green.put(slice);
        pods(blue, "web", &["10.0.0.2"]);

        members.converge().await;

        assert_eq!(imported(green, "web"), sources([("blue", &["10.0.0.2:8080"])]), "{labels:?}");
        assert_eq!(green.objects("endpointslices", "shop").len(), 1, "{labels:?}");
        let mended = &slices(green, "web")[0]["metadata"]["labels"];
        assert!(labels.iter().all(|label| !mended[*label].is_null()), "{mended}");
    }
}

/// The resources of which objects are left of a deleted import, and the number of these objects.
pub const LEFT: [(&[&str], usize); 3] =
    [(&["services", "endpointslices"], 3), (&["services"], 1), (&["endpointslices"], 2)];

/// A person deletes an import and leaves some of what it owns, of which then neither a label nor an owner names it.
pub fn leave_unnamed(cluster: &KubernetesServer, name: &str, left: &[&str]) {
    let import = cluster.service_import("shop", name).expect("an import");
    let derived = &import["metadata"]["annotations"]["multicluster.kubernetes.io/derived-service"];
    let derived = cluster.service_object("shop", derived.as_str().expect("a name"));
    let derived = derived.map(|it| ("services", it));
    let slices = slices(cluster, name).into_iter().map(|it| ("endpointslices", it));
    for (resource, mut object) in slices.chain(derived) {
        if left.contains(&resource) {
            object["metadata"]["ownerReferences"] = json!([]);
            object["metadata"]["labels"].as_object_mut().expect("labels").remove(IMPORT);
            cluster.put(object);
        } else {
            cluster.delete(resource, "shop", object["metadata"]["name"].as_str().expect("a name"));
        }
    }
    cluster.delete("serviceimports", "shop", name);
}

/// The names of the derived Services and slices of this owner.
pub fn left_of(cluster: &KubernetesServer, owner: &str) -> Vec<String> {
    let all = ["services", "endpointslices"].map(|it| cluster.objects(it, "shop")).concat();
    let ours = all.iter().filter(|it| it["metadata"]["labels"]["cloud-map-sync/owner"] == owner);
    ours.map(|it| it["metadata"]["name"].to_string()).collect()
}

#[tokio::test]
async fn what_is_left_of_an_import_goes_once_it_is_known_that_no_cluster_exports_its_name() {
    for (left, count) in LEFT {
        let members = Members::start().await;
        let Members { blue, green, fleet, .. } = &members;
        exported(blue, web(), &["10.0.0.1"], CREATED);
        members.amber("web", &["10.2.0.1"]);
        members.converge().await;
        leave_unnamed(green, "web", left);
        blue.unexport("shop", "web");
        let place = fleet.cloud_map.find_service("shop", "web").expect("a service");
        let denied = Fault::on("ListInstances", FaultKind::AccessDenied).service(&place);
        fleet.cloud_map.inject(denied.always());

        let report = sync(&members.function).await;

        // Amber may export it.
        assert_eq!(left_of(green, OWNER).len(), count, "{left:?}\n{report}");
        fleet.cloud_map.heal();
        members.amber("web", &[]);
        let report = sync(&members.function).await;
        assert_eq!(left_of(green, OWNER), [""; 0], "{left:?}\n{report}");
        members.converge().await;
    }
}

/// Garbage collection takes the Service with the import, which may also be one that another run has just made.
#[tokio::test]
async fn derived_service_stays_while_an_import_owns_it_that_is_not_ours_any_more() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    exported(blue, web(), &[], CREATED);
    members.converge().await;
    let mut import = green.service_import("shop", "web").expect("an import");
    import["metadata"]["labels"].as_object_mut().expect("labels").remove("cloud-map-sync/owner");
    green.put(import);
    blue.unexport("shop", "web");

    let report = sync(&members.function).await;

    assert_eq!(left_of(green, OWNER).len(), 1, "{report}");
}
