//! The shell of a reader: kubectl with the plugin, Helm, a kubeconfig of the real cluster as EKS writes it, credentials
//! for the function, and the AWS CLI, which here invokes the function and does nothing else. Nor do other programs.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use super::ROOT;
use crate::chart::tools::{Tools, printed};
use crate::real_cluster::RealCluster;
use crate::world::{World, blue};
use testbed::lambda::{Deployed, Handler};
use testbed::programs::{is_ci, program};
use testbed::{ACCOUNT, REGION};

const ROLE: &str = "arn:aws:iam::111122223333:role/reader";
/// What the pages call the function.
const FUNCTIONS: [&str; 2] = ["FUNCTION", "cloud-map-sync"];
/// Programs of the same blocks that are not for the cluster.
const OTHERS: [&str; 4] = ["cargo", "docker", "sam", "sed"];
/// Where `.ci/run` has the AWS CLI. It is version 1, which lacks an option of version 2.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/ci/venv/bin/python");
const AWS: &str = "#!/bin/sh
[ \"$1 $2\" = 'lambda invoke' ] || exit 0
for word; do
    shift
    case $word in --cli-binary-format | raw-in-base64-out) ;; *) set -- \"$@\" \"$word\" ;; esac
done
said=$(\"$PYTHON\" -m awscli \"$@\") || exit
case $said in *FunctionError*) echo \"$said\" >&2; exit 1 ;; esac
";
/// The plugin ends with 2 if there are changes to make.
const KUBECTL: &str = "#!/bin/sh
\"${0%/*}/../kubectl\" \"$@\" || [ $? = 2 -a \"$1\" = cloudmap ]
";
/// What differs here from the place of a reader: there is no network, and no node, so that no pod runs and has a log; the
/// values that a reader puts in; and the credentials, which are for the function alone.
const INSTEAD: [(&str, &str); 9] = [
    ("$(aws eks list-clusters --query 'clusters[]' --output text)", "blue"),
    (" --context \"$cluster\"", ""),
    (" --local", " --function FUNCTION"),
    ("https://raw.githubusercontent.com/kubernetes-sigs/mcs-api/v0.5.2/config/crd", "definitions"),
    (" logs deployment/", " get deployment/"),
    (" --wait", " --dry-run=client"),
    ("=QUEUE_URL", "=https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync"),
    ("=CLUSTER ", "=blue "),
    ("=REGISTRY/", "=registry.example.com/"),
];

pub struct Reader {
    folder: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Reader {
    /// In a folder with the files that the pages name.
    pub async fn new(
        world: &World,
        cluster: &RealCluster,
        tools: &Tools,
        handler: Handler,
    ) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reader");
        let _ = std::fs::remove_dir_all(&folder);
        let programs = folder.join("programs");
        std::fs::create_dir_all(&programs).expect("Cargo's folder for test files");
        symlink(format!("{ROOT}/deploy"), folder.join("deploy")).expect("a new link");
        let definitions = cluster.control_plane.multi_cluster_definitions();
        symlink(definitions, folder.join("definitions")).expect("a new link");
        symlink(tools.path("kubectl"), folder.join("kubectl")).expect("a new link");
        symlink(tools.path("helm"), programs.join("helm")).expect("a new link");
        symlink(program("kubectl-cloudmap"), programs.join("kubectl-cloudmap"))
            .expect("a new link");
        script(&programs.join("kubectl"), KUBECTL);
        let has_aws = Path::new(PYTHON).exists();
        assert!(has_aws || !is_ci(), "with CI=true nothing is skipped: there is no {PYTHON}");
        script(&programs.join("aws"), if has_aws { AWS } else { "#!/bin/sh\n" });
        for other in OTHERS {
            script(&programs.join(other), "#!/bin/sh\n");
        }
        tools.pack(&folder).await;
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, of_eks(cluster).to_string()).expect("the own folder");

        let lambda = &world.sandbox.aws().lambda;
        lambda.allow(ROLE);
        for name in FUNCTIONS {
            let aliases = ["admin".to_owned()].into();
            let function =
                Deployed { environment: BTreeMap::default(), aliases, handler: handler.clone() };
            lambda.deploy(REGION, ACCOUNT, name, function);
        }
        let key = world.sandbox.aws().identities.issue(ROLE, "reader", Duration::from_hours(1));
        let environment = vec![
            ("PATH", programs.display().to_string()),
            ("HOME", folder.display().to_string()),
            ("KUBECONFIG", kubeconfig.display().to_string()),
            ("AWS_ENDPOINT_URL", world.sandbox.endpoint_url()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("PYTHON", PYTHON.to_owned()),
            ("AWS_ACCESS_KEY_ID", key.id),
            ("AWS_SECRET_ACCESS_KEY", key.secret),
            ("AWS_SESSION_TOKEN", key.session_token),
        ];
        Self { folder, environment }
    }

    /// Runs a script; what it printed, or its errors.
    pub async fn run(&self, script: &str) -> Result<String, String> {
        let mut script = format!("set -euo pipefail\n{script}");
        for (words, instead) in INSTEAD {
            script = script.replace(words, instead);
        }
        let output = Command::new("/bin/bash")
            .args(["-c", &script])
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.clone())
            .stdin(std::process::Stdio::null())
            .output()
            .await;
        printed(output.expect("bash"))
    }
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the own folder");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, executable).expect("of a new file");
}

/// The administrator's kubeconfig with the cluster under its ARN, as `aws eks update-kubeconfig` writes it.
fn of_eks(cluster: &RealCluster) -> Value {
    let text = std::fs::read_to_string(cluster.control_plane.write_admin_kubeconfig());
    let mut kubeconfig: Value = serde_json::from_str(&text.expect("just written")).expect("JSON");
    let arn = json!(blue().arn());
    kubeconfig["clusters"][0]["name"] = arn.clone();
    kubeconfig["contexts"][0]["context"]["cluster"] = arn;
    kubeconfig
}
