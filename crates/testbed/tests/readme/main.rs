//! The pages for users follow the code: their tables and lists are generated from it, and their transcripts are the
//! output of the sandbox command and of the plugin. `UPDATE_README=1 cargo test --workspace --test readme --
//! --test-threads 1` writes them.

mod growth;
#[path = "../../../../tests/scale/mod.rs"]
#[allow(dead_code, reason = "shared with the command and the scenarios, which use other parts")]
mod scale;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::Command;

use cloud_map_sync::model::Documented;
use cloud_map_sync::report::metrics;
use cloud_map_sync::{kubernetes::annotation, settings};
use scale::section;
use testbed::programs::{example, program};
use testbed::runtime_api::FUNCTION_ARN;

/// How many chapters of the sandbox's story the README shows.
const CHAPTERS: usize = 1;
/// The step of the migration that its page shows, and the one after it.
const MIGRATION: [usize; 2] = [2, 3];

#[test]
fn the_annotation_table_is_the_codes() {
    let mut table =
        String::from("| Annotation | Meaning | Without it | Example |\n|---|---|---|---|\n");
    for annotation in annotation::DOCUMENTED {
        let Documented { name, meaning, default, example } = annotation;
        writeln!(table, "| `{name}` | {meaning} | {default} | `{example}` |").expect("a string");
    }
    check("docs/reference/annotations.md", "annotations", &table);
}

#[test]
fn the_settings_table_is_the_codes() {
    check("docs/reference/settings.md", "settings", &table_of(settings::DOCUMENTED));
}

#[test]
fn the_table_of_the_forwarders_settings_is_the_codes() {
    let table = table_of(&cloud_map_forwarder::DOCUMENTED);
    check("deploy/forwarders/README.md", "forwarder-settings", &table);
}

fn table_of(settings: &[Documented]) -> String {
    let mut table = String::from("| Variable | Meaning | Default | Example |\n|---|---|---|---|\n");
    for setting in settings {
        let Documented { name, meaning, default, example } = setting;
        writeln!(table, "| `{name}` | {meaning} | {default} | `{example}` |").expect("a string");
    }
    table
}

#[test]
fn the_policy_of_names_shown_is_accepted() {
    let page = include_str!("../../../../docs/security.md");
    let start = page.find("```json\n[").expect("a policy") + "```json\n".len();
    let policy = &page[start..][..page[start..].find("```").expect("its end")];
    assert_valid("blue", policy);
}

fn assert_valid(clusters: &str, policy: &str) {
    let variable = |name: &str| match name {
        "CLUSTERS" => Some(clusters.to_owned()),
        "NAME_POLICY" => Some(policy.to_owned()),
        _ => None,
    };
    let read = settings::Settings::read(variable, &BTreeMap::new(), Some(FUNCTION_ARN));
    read.expect("valid settings");
}

#[test]
fn the_saved_answers_in_json_are_accepted() {
    let example = include_str!("../../../../samconfig.example.toml");
    let answer = |name: &str| {
        let rest = example.split(&format!("\n# {name} = '")).nth(1).expect("an example");
        rest.split('\'').next().expect("its end")
    };
    assert_valid(answer("ClusterSettings"), answer("NamePolicy"));
}

#[test]
fn the_lists_of_metrics_are_the_codes() {
    check("docs/reference/metrics.md", "of an invocation", &list_of(&metrics::INVOCATION_METRICS));
    check("docs/reference/metrics.md", "of a cluster", &list_of(&metrics::CLUSTER_METRICS));
}

fn list_of<T>(metrics: &[metrics::Metric<T>]) -> String {
    let mut list = String::new();
    for metric in metrics {
        writeln!(list, "- `{}`: {}", metric.name, metric.meaning).expect("a string");
    }
    list
}

#[test]
fn the_tables_of_growing_clustersets_are_those_of_the_formulas() {
    check("docs/multi-cluster-reference.md", "growth", &growth::cost());
    check("docs/multi-cluster-reference.md", "growth-ends", &growth::ends());
}

/// What the sandbox command prints.
fn story(arguments: &[&str]) -> String {
    let output = Command::new(example("sandbox")).args(arguments).output();
    let output = output.expect("the sandbox runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_output_shown_is_the_sandboxs() {
    let story = story(&[]);
    let end = story.find(&format!("\n{}. ", CHAPTERS + 1)).expect("one more chapter");
    check("README.md", "sandbox", &format!("```text\n{}\n```\n", story[..end].trim_end()));
}

#[test]
fn the_migration_shown_is_the_sandboxs() {
    let story = story(&["--migration"]);
    let [first, last] = MIGRATION.map(|step| story.find(&format!("\n{step}. ")).expect("a step"));
    let end = story.trim_end().lines().next_back().expect("the end of the story");
    let shown = format!("```text\n{}\n\n...\n\n{end}\n```\n", story[first..last].trim());
    check("docs/ecs-to-eks.md", "migration", &shown);
}

#[test]
fn the_tables_and_pictures_of_the_page_about_scale_are_the_commands() {
    let root = Path::new(testbed::ROOT);
    for (file, made) in scale::files(root).expect("the page and its sections") {
        let path = root.join(file);
        if std::env::var_os("UPDATE_README").is_some() {
            std::fs::write(path, made).expect("the file can be written");
        } else {
            let kept = std::fs::read_to_string(path).unwrap_or_default();
            assert!(kept == made, "{file} is out of date; run: cargo run --example scale");
        }
    }
}

#[test]
fn limits_of_the_simulation_are_those_of_the_function_and_its_template() {
    use scale::deployment::{LONGEST, SCHEDULES, SIDE_BY_SIDE};
    let function = include_str!("../../../../src/reconcile.rs");
    assert!(function.contains(&format!("const CONCURRENT_CLUSTERS: usize = {SIDE_BY_SIDE};")));
    let template = include_str!("../../../../template.yaml");
    let allowed = |parameter: &str| {
        let rest = template.split(&format!("\n  {parameter}:\n")).nth(1).expect("a parameter");
        let values = rest.split("AllowedValues: [").nth(1).expect("its values");
        let values = values.split(']').next().expect("their end").split(", ");
        values.filter_map(|it| it.trim_matches('"').parse().ok()).collect::<Vec<usize>>()
    };
    assert_eq!(allowed("FullSyncMinutes"), SCHEDULES);
    let timeouts = template.split(", Timeout: ").skip(1);
    let timeouts = timeouts.map(|it| it.split(',').next().expect("its end").parse());
    let longest = timeouts.map(|it| it.expect("seconds")).max().expect("a value");
    assert!((scale::deployment::count(longest) - LONGEST).abs() < f64::EPSILON);
}

#[test]
fn the_plugins_output_of_a_clusterset_shown_is_its_own() {
    let served = Served::start(&["--multi-cluster", "--serve"]);
    check(
        "docs/multi-cluster.md",
        "plugin",
        &served.transcript("explain service/web -n shop --cluster blue"),
    );
}

/// The sandbox command with `--serve`, and the environment that it prints.
struct Served {
    process: std::process::Child,
    /// Kept open: it goes on to print.
    _output: BufReader<std::process::ChildStdout>,
    environment: Vec<(String, String)>,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(example("sandbox"))
            .args(arguments)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("the sandbox runs");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let lines = output.by_ref().lines().map(|line| line.expect("text"));
        let environment = lines.take_while(|line| !line.starts_with("# then")).filter_map(|line| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('\'').to_owned()))
        });
        let environment = environment.collect();
        Self { process, _output: output, environment }
    }

    /// A command of the plugin with its output, as a page shows them.
    fn transcript(&self, words: &str) -> String {
        let output = Command::new(program("kubectl-cloudmap"))
            .args(words.split(' '))
            .envs(self.environment.clone())
            .env("CLOUD_MAP_SYNC_FUNCTION", "cloud-map-sync")
            .output()
            .expect("the plugin runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        format!("```console\n$ kubectl cloudmap {words}\n{}\n```\n", text.trim_end())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.process.kill().expect("it serves until it is ended");
        self.process.wait().expect("it has ended");
    }
}

/// Compares the generated section of a page with its source, or writes it.
fn check(file: &str, section: &str, generated: &str) {
    let path = Path::new(testbed::ROOT).join(file);
    let mut page = std::fs::read_to_string(&path).expect("the page");
    let place = section::place(&page, section).expect("the section with its markers");
    let expected = with_links_of(file, generated);
    if std::env::var_os("UPDATE_README").is_some() {
        page.replace_range(place, &expected);
        std::fs::write(&path, page).expect("the page can be written");
    } else {
        let hint = "run: UPDATE_README=1 cargo test --workspace --test readme -- --test-threads 1";
        assert_eq!(&page[place], expected, "{section} of {file} is out of date; {hint}");
    }
}

/// Links in the code are paths from the repository's root. A page needs them relative to its own folder.
fn with_links_of(file: &str, text: &str) -> String {
    let to_root = "../".repeat(Path::new(file).components().count() - 1);
    text.replace("](docs/", &format!("]({to_root}docs/"))
}
