//! Finds the EKS cluster of a kubeconfig's context. `aws eks update-kubeconfig` names cluster and context by the
//! cluster's ARN; with eksctl and renamed contexts the name is in the arguments of the credential command. A name is that of
//! one cluster in each Region, so the Region is searched, too. Pure.

use kube::config::{ExecConfig, Kubeconfig};

use cloud_map_sync::model::{ClusterArn, is_region};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub name: String,
    /// The EKS cluster's ARN, or its name.
    pub cluster: Option<String>,
    /// The Region of a cluster by name, if the kubeconfig has it.
    pub region: Option<String>,
    /// The default namespace of kubectl.
    pub namespace: String,
}

/// Finds a context, or the current one; `None` if it does not exist.
pub fn find_context(kubeconfig: &Kubeconfig, name: Option<&str>) -> Option<Context> {
    let name = name.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty())?;
    let found = kubeconfig.contexts.iter().find(|context| context.name == name)?;
    let context = found.context.as_ref()?;
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    let exec = user.and_then(|user| user.auth_info.as_ref()?.exec.as_ref());
    let in_command = exec.and_then(cluster_in_command);
    // A person may rename a context, and then its name is no proof against the command.
    let is_fitting = |arn: &ClusterArn| in_command.as_ref().is_none_or(|it| it == arn.name());
    let arn = ClusterArn::parse(&context.cluster)
        .or_else(|| ClusterArn::parse(name).filter(is_fitting))
        .map(|arn| arn.as_str().to_owned());
    let region = match arn {
        Some(_) => None,
        None => region_of_server(kubeconfig, &context.cluster)
            .or_else(|| region_of_eksctl(&context.cluster))
            .or_else(|| exec.and_then(region_in_command)),
    };
    Some(Context {
        name: name.to_owned(),
        cluster: arn.or(in_command),
        region: region.filter(|region| is_region(region)),
        namespace: context.namespace.clone().unwrap_or_else(|| "default".to_owned()),
    })
}

/// The cluster's name in the arguments of `aws eks get-token` or `aws-iam-authenticator token`.
fn cluster_in_command(exec: &ExecConfig) -> Option<String> {
    let command = exec.command.as_deref().unwrap_or_default();
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let options: &[&str] = match program.trim_end_matches(".exe") {
        "aws" => &["--cluster-name", "--cluster-id"],
        "aws-iam-authenticator" => &["-i", "--cluster-id"],
        _ => return None,
    };
    let arguments = exec.args.as_deref().unwrap_or_default();
    options.iter().find_map(|option| option_value(arguments, option))
}

/// The Region in the host name of EKS' endpoint: `HASH.gr7.REGION.eks.amazonaws.com`.
fn region_of_server(kubeconfig: &Kubeconfig, cluster: &str) -> Option<String> {
    let named = kubeconfig.clusters.iter().find(|it| it.name == cluster)?;
    let server = named.cluster.as_ref()?.server.as_deref()?;
    let host = server.strip_prefix("https://")?.split(['/', ':']).next()?;
    let (before, _) = host.split_once(".eks.amazonaws.com")?;
    Some(before.rsplit_once('.')?.1.to_owned())
}

/// The Region in the name that eksctl gives a cluster: `NAME.REGION.eksctl.io`.
fn region_of_eksctl(cluster: &str) -> Option<String> {
    Some(cluster.strip_suffix(".eksctl.io")?.rsplit_once('.')?.1.to_owned())
}

/// The Region of the credential command: of its option, or of its environment, in the order of the AWS CLI.
fn region_in_command(exec: &ExecConfig) -> Option<String> {
    let option = option_value(exec.args.as_deref().unwrap_or_default(), "--region");
    let environment = exec.env.as_deref().unwrap_or_default();
    let variable = |name: &str| {
        let entry = environment.iter().find(|it| it.get("name").is_some_and(|it| it == name))?;
        entry.get("value").cloned()
    };
    option.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"))
}

/// The value of an option: `--option value` or `--option=value`.
fn option_value(arguments: &[String], option: &str) -> Option<String> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == option {
            return rest.next().cloned();
        }
        let joined = argument.strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
        if let Some(value) = joined {
            return Some(value.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let rows: [(&str, &str, &[&str], Option<&str>); 7] = [
            (ARN, "aws", &token, Some(ARN)),
            ("blue.eu-central-1.eksctl.io", "aws", &token, Some("blue")),
            (
                "work",
                "/usr/local/bin/aws",
                &["eks", "get-token", "--cluster-name=blue"],
                Some("blue"),
            ),
            ("work", "aws-iam-authenticator", &["token", "-i", "blue"], Some("blue")),
            ("work", "aws", &["eks", "get-token"], None),
            ("work", "aws", &["eks", "get-token", "--cluster-name"], None),
            ("kind-kind", "gke-gcloud-auth-plugin", &["--cluster-name", "blue"], None),
        ];
        for (cluster, command, arguments, expected) in rows {
            let context =
                find_context(&kubeconfig(cluster, command, arguments), None).expect("current");
            assert_eq!(context.cluster.as_deref(), expected, "{cluster} {command} {arguments:?}");
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
        let (no, some) = (json!(null), Some("eu-west-1"));
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
            assert_eq!(context.cluster.as_deref(), Some(expected));
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
}
