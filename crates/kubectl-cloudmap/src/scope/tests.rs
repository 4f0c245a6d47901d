use std::fs;

use serde_json::json;

use super::*;
use cloud_map_sync::error::chain;

const ARN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

fn kubeconfig(cluster: &str, command: &str, arguments: &[&str]) -> Kubeconfig {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "work",
        "contexts": [
            {"name": "work", "context": {"cluster": cluster, "user": "me"}},
            {"name": "shop", "context": {"cluster": cluster, "user": "me", "namespace": "shop"}},
        ],
        "clusters": [{"name": cluster, "cluster": {"server": "https://localhost"}}],
        "users": [{"name": "me", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": command, "args": arguments,
        }}}],
    });
    serde_json::from_value(kubeconfig).expect("a kubeconfig")
}

#[test]
fn a_contexts_cluster_is_in_its_name_or_its_sign_in_command() {
    let token = ["--region", "eu-central-1", "eks", "get-token", "--cluster-name", "blue"];
    let named = |name: &str| ContextCluster::Named(name.to_owned());
    let id = "7d0d4f1c-8f5c-4f5b-9d6a-0c6f2a1b3c4d";
    let local = ["eks", "get-token", "--cluster-id", id];
    let rows: [(&str, &str, &[&str], ContextCluster); 12] = [
        (ARN, "aws", &token, named(ARN)),
        ("blue.eu-central-1.eksctl.io", "aws", &token, named("blue")),
        ("work", "/usr/local/bin/aws", &["eks", "get-token", "--cluster-name=blue"], named("blue")),
        ("work", "aws-iam-authenticator", &["token", "-i", "blue"], named("blue")),
        ("work", "aws", &["eks", "get-token"], ContextCluster::NotEks),
        ("work", "aws", &["eks", "get-token", "--cluster-name"], ContextCluster::NotEks),
        (
            "kind-kind",
            "gke-gcloud-auth-plugin",
            &["--cluster-name", "blue"],
            ContextCluster::NotEks,
        ),
        (ARN, "aws", &local, named(ARN)),
        ("edge.us-east-1.eksctl.io", "aws", &local, named("edge")),
        ("edge.eksctl.io", "aws", &local, ContextCluster::LocalById),
        ("work", "aws", &local, ContextCluster::LocalById),
        ("work", "aws-iam-authenticator", &["token", "-i", id], ContextCluster::LocalById),
    ];
    for (cluster, command, arguments, expected) in rows {
        let context =
            find_context(&kubeconfig(cluster, command, arguments), None).expect("current");
        assert_eq!(context.cluster, expected, "{cluster} {command} {arguments:?}");
    }
}

#[test]
fn region_of_a_named_cluster_is_in_its_server_its_name_or_its_sign_in_command() {
    let by_eksctl = "blue.eu-west-1.eksctl.io";
    let plain = ["eks", "get-token", "--cluster-name", "blue"];
    let option = [plain.as_slice(), &["--region", "eu-west-1"]].concat();
    let token = ["token", "-i", "blue"].as_slice();
    let west = "https://ABC.gr7.eu-west-1.eks.amazonaws.com";
    let variables = |name: &str| json!([{"name": name, "value": "eu-west-1"}]);
    let no = json!(null);
    let some = Some("eu-west-1");
    for (cluster, server, command, arguments, environment, expected) in [
        (by_eksctl, "https://localhost", "aws", plain.as_slice(), &no, some),
        (by_eksctl, "https://localhost", "aws-iam-authenticator", token, &no, some),
        ("work", "https://localhost", "aws", option.as_slice(), &no, some),
        ("work", "https://localhost", "aws", &plain, &variables("AWS_REGION"), some),
        ("work", "https://localhost", "aws", &plain, &variables("AWS_DEFAULT_REGION"), some),
        ("work", west, "aws", &plain, &no, some),
        // The endpoint is where kubectl connects.
        ("blue.us-east-1.eksctl.io", west, "aws", &plain, &variables("OTHER"), some),
        ("work", "https://localhost", "aws", &plain, &no, None),
        ("x.a b.eksctl.io", "https://localhost", "aws", &plain, &no, None),
        (ARN, west, "aws", &plain, &no, None),
    ] {
        let mut kubeconfig = kubeconfig(cluster, command, arguments);
        let cluster_entry = kubeconfig.clusters[0].cluster.as_mut().expect("a cluster");
        cluster_entry.server = Some(server.to_owned());
        let user = kubeconfig.auth_infos[0].auth_info.as_mut().expect("a user");
        user.exec.as_mut().expect("a command").env =
            serde_json::from_value(environment.clone()).expect("variables");
        let context = find_context(&kubeconfig, None).expect("current");
        assert_eq!(context.region.as_deref(), expected, "{cluster} {server} {arguments:?}");
    }
}

#[test]
fn context_named_by_arn_is_that_cluster_unless_its_command_names_another() {
    for (named, expected) in [("blue", ARN), ("green", "green")] {
        let mut kubeconfig = kubeconfig("work", "aws", &["get-token", "--cluster-name", named]);
        kubeconfig.contexts[0].name = ARN.to_owned();
        let context = find_context(&kubeconfig, Some(ARN)).expect("a context");
        assert_eq!(context.cluster, ContextCluster::Named(expected.to_owned()));
    }
}

#[test]
fn the_named_context_is_used_with_its_namespace() {
    let kubeconfig = kubeconfig(ARN, "aws", &[]);
    let namespace = |name| find_context(&kubeconfig, name).map(|context| context.namespace);
    assert_eq!(namespace(None).as_deref(), Some("default"));
    assert_eq!(namespace(Some("shop")).as_deref(), Some("shop"));
    assert_eq!(namespace(Some("away")), None);
}

#[test]
fn a_missing_kubeconfig_is_named_once_with_its_cause() {
    let missing = PathBuf::from("/missing/config");
    let arguments = arguments::ScopeArguments {
        kubeconfig: Some(missing),
        ..arguments::ScopeArguments::default()
    };
    let error = resolve(&arguments).expect_err("there is no such file");
    let expected = "cannot read the kubeconfig; --cluster NAME needs none: /missing/config: No such file or directory (os error 2)";
    assert_eq!(chain(&error), expected);
}

#[test]
fn files_of_a_list_are_merged_without_the_missing_ones_and_the_first_one_wins() {
    let folder = env::temp_dir().join(format!("kubectl-cloudmap-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).expect("written");
        file
    };
    let context = |cluster: &str| kubeconfig(cluster, "aws", &[]);
    let text = |cluster: &str| serde_json::to_string(&context(cluster)).expect("JSON");
    let one = file("one", &text("one"));
    let two = file("two", &text("two"));
    let invalid = file("invalid", "contexts: 1");
    let missing = folder.join("missing");
    let read = |files: &[&PathBuf]| read_list(&env::join_paths(files).expect("a list"));

    let merged = read(&[&missing, &PathBuf::new(), &one, &two]).expect("two files");

    assert_eq!(find_context(&merged, None).expect("current").name, "work");
    let clusters: Vec<&str> = merged.clusters.iter().map(|cluster| &*cluster.name).collect();
    assert_eq!(clusters, ["one", "two"]);
    let work = merged.contexts[0].context.as_ref().expect("a context");
    assert_eq!((merged.contexts.len(), &*work.cluster), (2, "one"), "two contexts have two names");
    assert!(matches!(read(&[&one, &invalid]), Err(KubeconfigError::Parse(_))));
    let error = Error::from(read(&[&missing, &folder.join("other")]).expect_err("no file"));
    assert!(chain(&error).contains("/missing: No such file"), "{}", chain(&error));
    fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_cluster_by_name_is_whole_unless_a_namespace_is_named() {
    let named = |namespace: Option<&str>, service: Option<&str>| {
        resolve(&arguments::ScopeArguments {
            cluster: Some("blue".to_owned()),
            namespace: namespace.map(str::to_owned),
            service: service.map(str::to_owned),
            ..arguments::ScopeArguments::default()
        })
    };
    let shown = |scope: Result<RequestedScope, Error>| scope.map(|scope| scope.to_string());
    assert_eq!(shown(named(None, None)).expect("whole"), "blue");
    assert_eq!(shown(named(Some("shop"), Some("web"))).expect("one"), "blue shop web");
    assert!(matches!(named(None, Some("web")), Err(Error::NoNamespace)));
}
