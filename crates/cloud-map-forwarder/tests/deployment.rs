//! The manifests of `deploy/forwarders/cloud-map-forwarder` have settings that the program takes.

use cloud_map_forwarder::ForwarderSettings;
use serde_json::Value;

const FOLDER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/forwarders/cloud-map-forwarder");

/// The first document of a file.
fn document(file: &str) -> Value {
    let text = std::fs::read_to_string(format!("{FOLDER}/{file}")).expect(file);
    serde_saphyr::from_multiple(&text).expect(file).remove(0)
}

#[test]
fn our_forwarder_is_deployed_with_settings_that_it_takes() {
    let kustomization = document("kustomization.yaml");
    let container = document("deployment.yaml");
    let container = &container["spec"]["template"]["spec"]["containers"][0];
    let generated = &kustomization["configMapGenerator"][0];
    assert_eq!(container["envFrom"][0]["configMapRef"]["name"], generated["name"]);
    assert_eq!(container["image"], kustomization["images"][0]["name"]);

    let literals = generated["literals"].as_array().expect("literals");
    let settings = ForwarderSettings::read(|variable| {
        let literals = literals.iter().filter_map(|literal| literal.as_str()?.split_once('='));
        literals.into_iter().find(|(name, _)| *name == variable).map(|(_, it)| it.to_owned())
    });
    let settings = settings.expect("the example is valid");
    assert_eq!(
        (settings.cluster.as_str(), settings.queue.region.as_str()),
        ("blue", "eu-central-1")
    );
}
