//! The command line, parsed by clap: the verbs and their options, which are named as in kubectl and the AWS CLI. The
//! doc comments of the arguments are the help texts.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{
    Arg, ArgGroup, Args, Command, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint,
};
use cloud_map_sync::settings::{ANNOTATION_PREFIX, annotation_prefix, duration};

/// The parsed command line.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-cloudmap",
    bin_name = "kubectl cloudmap",
    version,
    about = "Syncs Kubernetes Services to AWS Cloud Map through the function cloud-map-sync",
    after_help = "Exit codes: 0 in sync, 1 for an error or an incomplete answer, 2 with changes to make."
)]
pub struct Arguments {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show the changes that a sync would make; writes nothing
    Plan(RunArguments),
    /// Sync the Services to Cloud Map now
    Sync(RunArguments),
    /// Adopt instances of other owners that have the address of a Service's endpoint
    Adopt(Adopt),
    /// Carry out the removals that the guard against mass deletion holds, accept an unfamiliar Cloud Map, or take over
    /// the records of another installation
    Confirm(Approved),
    /// Deregister all instances of one cluster
    Purge(Purge),
    /// Show the owners of the instances in each Cloud Map service: this cluster, other clusters, ECS, others
    Status(ShownArguments),
    /// Write a page about the move from ECS to EKS: instances by platform, conflicts, changes
    Report(ReportArguments),
    /// Check everything that the function needs, and show a fix for each failed check
    Doctor(StatusArguments),
    /// Show the result for each endpoint of one Service, and the answer that clients get
    Explain(Targeted),
    /// Wait until a Service is registered, or has no instance left; writes nothing
    Wait(Wait),
    /// Compare two plans: a comment in Markdown for a pull request
    Diff(Diff),
    /// Judge the annotations in manifests, without a cluster
    Validate(Validate),
    /// Print the admission policy that refuses a Service with a wrong annotation
    Admission(AdmissionArguments),
    /// Print the program kubectl_complete-cloudmap, by which kubectl completes this plugin's words
    Completion(Completion),
}

/// The arguments of `completion`.
#[derive(Debug, Args)]
pub struct Completion {
    /// The words to complete, as that program passes them
    #[arg(last = true, hide = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// The arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Write one HTML page to standard output
    #[arg(long, required = true)]
    pub html: bool,
    /// The output of an earlier `status -o json`: the page shows the changes since then
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
    /// The clusters.
    #[command(flatten)]
    pub clusters: ClustersArguments,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
}

/// The arguments of `status`.
#[derive(Debug, Args)]
pub struct ShownArguments {
    /// One Cloud Map service, with its Cloud Map namespace or without; default: all of them
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: Option<String>,
    /// The services of one Cloud Map namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Only the services that this installation created and that have no instance, with the commands to delete them
    #[arg(long)]
    pub created: bool,
    /// The clusters, the function and the output.
    #[command(flatten)]
    pub status: StatusArguments,
}

/// The arguments of `doctor`, and of `status` besides.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// The clusters.
    #[command(flatten)]
    pub clusters: ClustersArguments,
    /// The function and the output.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// The former OWNER_ID of the instances to adopt
    #[arg(long, value_name = "ID")]
    pub owner: Option<String>,
    /// Approve at once: skip the plan and the question
    #[arg(short, long)]
    pub yes: bool,
    /// The scope, the function and the output.
    #[command(flatten)]
    pub targeted: Targeted,
}

/// The arguments of a verb that changes one whole cluster and needs an approval.
#[derive(Debug, Args)]
pub struct Approved {
    /// The cluster.
    #[command(flatten)]
    pub whole: WholeCluster,
    /// Approve at once: skip the plan and the question
    #[arg(short, long)]
    pub yes: bool,
    /// The function and the output.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `purge`. The cluster must be named: the current context is no default.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("named").args(["cluster", "context"]).required(true))]
pub struct Purge {
    /// Only the Cloud Map of this account and Region; default: every Cloud Map in the settings
    #[arg(long, value_name = "ACCOUNT/REGION")]
    pub registry: Option<String>,
    /// Only the exports and imports of the cluster; the instances of its annotated Services stay
    #[arg(long)]
    pub clusterset: bool,
    /// The cluster, the function and the output.
    #[command(flatten)]
    pub approved: Approved,
}

/// The arguments of a verb about Services.
#[derive(Debug, Args)]
pub struct Targeted {
    /// The scope.
    #[command(flatten)]
    pub scope: ScopeArguments,
    /// The function and the output.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The scope: clusters, namespace, Service.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scope")]
pub struct ScopeArguments {
    /// A Service of the namespace; default: all of them
    #[arg(value_name = "service/NAME", value_parser = parse_service)]
    pub service: Option<String>,
    /// The Kubernetes namespace; default: that of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All namespaces of the cluster
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "service"])]
    pub all_namespaces: bool,
    /// The kubectl context of the cluster; default: the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; default: $KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The EKS cluster by name or ARN; the kubeconfig is not read then
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// All configured clusters of the function
    #[arg(
        long,
        conflicts_with_all = ["cluster", "context", "kubeconfig", "namespace", "service"]
    )]
    pub all_clusters: bool,
}

/// The function, and the credentials to invoke it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Function and credentials")]
pub struct Aws {
    /// The Lambda function to invoke; with --local, the function to read the settings from
    #[arg(
        long,
        env = "CLOUD_MAP_SYNC_FUNCTION",
        value_name = "NAME",
        required_unless_present = "local"
    )]
    pub function: Option<String>,
    /// A version or an alias of the function
    #[arg(long, value_name = "QUALIFIER", requires = "function")]
    pub qualifier: Option<String>,
    /// Run the same code in this process, with the credentials of this terminal
    #[arg(long)]
    pub local: bool,
    /// The AWS profile
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// The AWS Region of the function
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
}

/// The function, and the output of its answer.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArguments {
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
    /// The output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

/// The output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    #[default]
    Table,
    /// The table with more columns: the Kubernetes Service, or each owner
    Wide,
    /// The function's response
    Json,
    /// The function's response as YAML
    Yaml,
    /// Markdown, for a pull request
    Md,
    /// The names in Cloud Map, one a line: of a plan or sync those with changes
    Name,
}

/// A whole cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct WholeCluster {
    /// The EKS cluster by name or ARN; an ARN if it is no longer configured
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// The kubectl context of the cluster; default: the current one, except for purge
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; default: $KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

impl From<WholeCluster> for ScopeArguments {
    fn from(whole: WholeCluster) -> Self {
        let WholeCluster { cluster, context, kubeconfig } = whole;
        Self { cluster, context, kubeconfig, all_namespaces: true, ..Self::default() }
    }
}

/// One whole cluster, or all clusters.
#[derive(Clone, Debug, Default, Args)]
pub struct ClustersArguments {
    /// The cluster.
    #[command(flatten)]
    pub whole: WholeCluster,
    /// All configured clusters of the function
    #[arg(long, conflicts_with_all = ["cluster", "context", "kubeconfig"])]
    pub all_clusters: bool,
}

impl From<ClustersArguments> for ScopeArguments {
    fn from(ClustersArguments { whole, all_clusters }: ClustersArguments) -> Self {
        Self { all_clusters, ..whole.into() }
    }
}

/// Returns the name in `service/web` or another of kubectl's spellings, or a bare name.
fn parse_service(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some(("service" | "services" | "svc", name)) if !name.is_empty() => Ok(name.to_owned()),
        Some(_) => Err("expected service/NAME".to_owned()),
    }
}

/// The arguments of `plan` and `sync`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// End with an error, exit code 1, if something of this kind is in the answer
    #[arg(long, value_name = "KIND")]
    pub fail_on: Vec<FailOn>,
    /// The scope, the function and the output.
    #[command(flatten)]
    pub targeted: Targeted,
}

/// What a pipeline may take for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A Service, an endpoint, an export or an import is held back
    HeldBack,
}

/// The arguments of `wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// The state to wait for
    #[arg(long = "for", value_name = "STATE")]
    pub state: AwaitedState,
    /// The longest time to wait, for instance 90s or 5m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout)]
    pub timeout: Duration,
    /// The Service.
    #[command(flatten)]
    pub scope: ScopeArguments,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
}

/// A state of a Service in Cloud Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AwaitedState {
    /// Each of its names has all instances that it shall have, and at least one
    Registered,
    /// None of its names has an instance of it
    Empty,
}

/// The arguments of `diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The output of an earlier `plan -o json`; `-` is the standard input
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The output of a later `plan -o json` of the same scope; `-` is the standard input
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
}

/// The arguments of `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// A manifest; `-` is the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub filenames: Vec<PathBuf>,
    /// The function's ANNOTATION_PREFIX
    #[arg(long, value_name = "PREFIX", default_value = ANNOTATION_PREFIX, value_parser = annotation_prefix)]
    pub prefix: String,
}

/// The arguments of `admission`.
#[derive(Debug, Args)]
pub struct AdmissionArguments {
    /// The function's ANNOTATION_PREFIX
    #[arg(long, value_name = "PREFIX", default_value = ANNOTATION_PREFIX, value_parser = annotation_prefix)]
    pub prefix: String,
    /// Warn, and refuse nothing
    #[arg(long)]
    pub warn: bool,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    Duration::try_from(time).map_err(|error| error.to_string())
}

// The completion of `kubectl cloudmap` by Tab. kubectl's own completion runs a program `kubectl_complete-cloudmap` with
// the words so far, in bash, zsh and fish alike. It reads the choices from the program's output, one a line, each with
// a description after a tab. The last line is a directive: it names what else the shell may offer.
// <https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>

/// The program `kubectl_complete-cloudmap`.
const PROGRAM: &str = "#!/bin/sh\nexec kubectl-cloudmap completion -- \"$@\"\n";

/// Cobra's directives: the shell also completes the names of files, or nothing else.
const FILES: &str = ":0\n";
const NOTHING_ELSE: &str = ":4\n";

/// Returns the choices for the last word. Without a word it returns `PROGRAM`.
pub fn choices(words: &[String]) -> String {
    let Some((last, before)) = words.split_last() else { return PROGRAM.to_owned() };
    let mut command = Arguments::command();
    command.build();
    let verb = before.iter().find_map(|word| command.find_subcommand(word));
    let Some(verb) = verb else { return lines(last, verbs(&command)) };
    if let Some(option) = before.last().and_then(|word| find_option(verb, word)) {
        return values(option, "", last);
    }
    match last.split_once('=') {
        Some((name, value)) if name.starts_with("--") => {
            let option = find_option(verb, name);
            option.map_or(NOTHING_ELSE.to_owned(), |option| {
                values(option, &format!("{name}="), value)
            })
        }
        _ if last.starts_with('-') => lines(last, options(verb)),
        _ => NOTHING_ELSE.to_owned(),
    }
}

fn verbs(command: &Command) -> impl Iterator<Item = (String, String)> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(|verb| (verb.get_name().to_owned(), help(verb.get_about())))
}

fn options(verb: &Command) -> impl Iterator<Item = (String, String)> {
    let shown = verb.get_arguments().filter(|option| !option.is_hide_set());
    shown.filter_map(|option| Some((format!("--{}", option.get_long()?), help(option.get_help()))))
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// Returns the option that `word` names, if the option takes a value.
fn find_option<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_named = |option: &&Arg| {
        let long = option.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = option.get_short().is_some_and(|short| word == format!("-{short}"));
        (long || short) && option.get_action().takes_values()
    };
    verb.get_arguments().find(is_named)
}

fn values(option: &Arg, before: &str, begun: &str) -> String {
    if option.get_value_hint() == ValueHint::AnyPath {
        return FILES.to_owned();
    }
    let possible = option.get_possible_values().into_iter();
    let possible =
        possible.map(|value| (format!("{before}{}", value.get_name()), help(value.get_help())));
    lines(&format!("{before}{begun}"), possible)
}

/// Returns the lines of all choices that begin with `begun`, and the directive.
fn lines(begun: &str, choices: impl Iterator<Item = (String, String)>) -> String {
    let mut text = String::new();
    for (choice, help) in choices.filter(|(choice, _)| choice.starts_with(begun)) {
        let _ = writeln!(text, "{choice}\t{help}");
    }
    text + NOTHING_ELSE
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn prefix_that_no_key_can_have_is_refused_with_the_form() {
        let parsed = |prefix| {
            Arguments::try_parse_from(["kubectl cloudmap", "admission", "--prefix", prefix])
        };
        let refusal = parsed("Upper/").expect_err("no prefix").to_string();
        let form = "\"Upper/\" is not a lower-case DNS name with a '/' at its end";
        assert!(refusal.contains(form), "{refusal}");
        let Verb::Admission(admission) = parsed("example.com").expect("a prefix").verb else {
            panic!("another verb")
        };
        assert_eq!(admission.prefix, "example.com/");
    }

    #[test]
    fn contradictory_options_and_a_missing_function_are_rejected() {
        let local = ["plan", "--local"].as_slice();
        for more in [
            ["-A", "-n", "shop"].as_slice(),
            &["-A", "svc/web"],
            &["--cluster", "blue", "--context", "blue"],
            &["--all-clusters", "-n", "shop"],
        ] {
            let words = [&["kubectl cloudmap"], local, more].concat();
            assert!(Arguments::try_parse_from(&words).is_err(), "{words:?}");
        }
        let current = Arguments::try_parse_from(["kubectl cloudmap", "purge", "--local"]);
        assert!(current.is_err(), "the current context's cluster is not purged by chance");
        let refusal =
            Arguments::try_parse_from(["kubectl cloudmap", "plan"]).expect_err("no function");
        assert!(refusal.to_string().contains("--function <NAME>"), "{refusal}");
    }

    #[test]
    fn a_service_is_named_as_kubectl_names_it() {
        for text in ["web", "svc/web", "service/web", "services/web"] {
            assert_eq!(parse_service(text), Ok("web".to_owned()), "{text}");
        }
        for text in ["pod/web", "service/"] {
            assert!(parse_service(text).is_err(), "{text}");
        }
    }
}

#[cfg(test)]
mod completion_tests {
    use super::*;

    /// Returns the choices without their descriptions, and the directive.
    fn chosen(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let text = choices(&words);
        let names = text.lines().map(|line| line.split('\t').next().unwrap_or_default());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn verbs_options_and_their_values_are_completed() {
        let rows = [
            ("st", "status :4"),
            ("wa", "wait :4"),
            ("plan -o ", "table wide json yaml md name :4"),
            ("plan --output=j", "--output=json :4"),
            ("plan --fail-on h", "held-back :4"),
            ("wait --for ", "registered empty :4"),
            ("status --created --na", "--namespace :4"),
            ("plan -n ", ":4"),
            ("plan --kubeconfig ", ":0"),
            ("validate -f ", ":0"),
            ("plan ser", ":4"),
            ("nothing --", ":4"),
        ];
        for (words, expected) in rows {
            assert_eq!(chosen(words), expected, "{words}");
        }
        let all = chosen("");
        assert!(all.starts_with("plan sync ") && all.ends_with(" :4"), "{all}");
        let described = choices(&["plan".to_owned(), "--all-c".to_owned()]);
        assert!(described.starts_with("--all-clusters\tAll configured"), "{described}");
    }
}
