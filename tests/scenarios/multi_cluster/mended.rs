//! Objects of imports that another writer changed or is deleting.

use super::{Members, exported, imported, pods, slices, sources, web};

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
