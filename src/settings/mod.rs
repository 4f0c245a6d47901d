//! The settings of the function: environment variables, parsed once at the first invocation into one typed value.
//!
//! `parameter_store` reads the variables and the parameters that they reference. The rest is pure. `clusters` parses
//! the settings about clusters, and this module all others. All mistakes are reported together, each with the variable,
//! the problem and an example. The SDK and the Lambda runtime read `AWS_*`.

mod clusters;
mod documented;
mod parameter_store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::cloud_map::{CustomTags, OWNER_TAG, QuotaShare};
use crate::error::{printable, shorten_to};
use crate::model::{
    ClusterArn, Documented, Events, Guard, NamePolicy, NamespaceReference, Policy, Rule, Rules,
    ServiceLimit, SignedDuration,
};

pub use clusters::{Cluster, ClusterObject, Membership, MultiCluster, Role, parse_multi_cluster};
pub use documented::DOCUMENTED;
pub use parameter_store::{LoadError, load};
use parameter_store::{Parameters, Text};

const UNPAGED: &str = "every cluster of CLUSTERS has page: false, which is ignored, since no alarm would page then: \
                       remove it from the clusters whose faults should wake somebody";

/// Every setting of an installation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `CLUSTERS`: the EKS clusters to keep in step, at least one.
    pub clusters: Vec<Cluster>,
    /// `OWNER_ID`: the mark of this installation's instances.
    pub owner_id: String,
    /// `ANNOTATION_PREFIX`: the prefix of the annotations on Services, `/` included.
    pub annotation_prefix: String,
    /// The account of the function. `None` if its ARN is not known.
    pub account: Option<String>,
    /// The settings that are rules of a plan.
    pub rules: Arc<Rules>,
    /// `DRY_RUN`: plan and report, write nothing.
    pub dry_run: bool,
    /// `ADMIN_ALIAS`: the alias of the function through which the actions of administrators must be invoked. `None` if
    /// they are accepted from every caller.
    pub admin_alias: Option<String>,
    /// `QUEUE_URL`: the URL of the function's own queue of messages about single Services.
    pub queue_url: Option<String>,
    /// `QUOTA_SHARE`: the share of Cloud Map's rate limits that this process may use.
    pub quota_share: QuotaShare,
    /// `CREATE_TAGS`: the tags of services and namespaces that are created in Cloud Map, in addition to the owner's
    /// tag.
    pub create_tags: CustomTags,
    /// `EVENTS`: the Events that are created in the clusters.
    pub events: Events,
    /// `MULTI_CLUSTER`: whether clusters export and import by the Multi-Cluster Services API.
    pub multi_cluster: MultiCluster,
    /// `STALE_CLUSTERS_AFTER`: the age of its heartbeat from which a member is reported as stale.
    pub stale_clusters_after: SignedDuration,
}

impl Settings {
    /// Reads the settings. `variable` returns an environment variable, `parameters` are the values that the settings
    /// reference, and `function_arn` has the account and Region of clusters that are given by name.
    ///
    /// # Errors
    /// Returns an error with all mistakes if a setting is invalid.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        parameters: &Parameters,
        function_arn: Option<&str>,
    ) -> Result<Self, Mistakes> {
        let mut reader = Reader::new(variable, DOCUMENTED);
        let settings = Self {
            clusters: reader.read_optional("CLUSTERS", |text| {
                clusters::parse(&parameter_store::texts(text, parameters)?, function_arn)
            }),
            account: function_arn.and_then(|arn| arn.split(':').nth(4)).map(str::to_owned),
            owner_id: reader.read_or("OWNER_ID", "cloud-map-sync".to_owned(), owner_id),
            annotation_prefix: reader.read_or(
                "ANNOTATION_PREFIX",
                ANNOTATION_PREFIX.to_owned(),
                annotation_prefix,
            ),
            rules: Arc::new(reader.rules(parameters)),
            dry_run: reader.read("DRY_RUN", boolean),
            admin_alias: reader.read("ADMIN_ALIAS", alias),
            queue_url: reader.read("QUEUE_URL", queue_url),
            quota_share: reader.read("QUOTA_SHARE", quota_share),
            create_tags: reader.read("CREATE_TAGS", tags),
            events: reader.read("EVENTS", |text| {
                parse(text, Events::parse, "not one of all, warnings, none")
            }),
            multi_cluster: reader.read("MULTI_CLUSTER", parse_multi_cluster),
            stale_clusters_after: reader.read_or(
                "STALE_CLUSTERS_AFTER",
                clusters::DEFAULT_STALE_CLUSTERS_AFTER,
                duration,
            ),
        };
        reader.finish(settings)
    }

    /// Returns `None` if the cluster is not configured.
    pub fn cluster(&self, arn: &ClusterArn) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.arn == *arn)
    }

    pub fn multi_cluster_of(&self, cluster: &Cluster) -> MultiCluster {
        cluster.membership.multi_cluster.unwrap_or(self.multi_cluster)
    }

    /// Whether the faults of a cluster page. If no cluster pages, `page` is ignored: the alarm on a missing good sync
    /// needs a cluster that counts.
    pub fn pages(&self, cluster: &Cluster) -> bool {
        cluster.pages_on_fault || self.clusters.iter().all(|other| !other.pages_on_fault)
    }

    /// Returns warnings about settings that have no effect or contradict each other.
    pub fn warnings(&self) -> Vec<String> {
        let guard = self.rules.guard;
        let takes_part = |cluster: &Cluster| self.multi_cluster_of(cluster) != MultiCluster::Off;
        let stale = clusters::stale_after_warning(self.stale_clusters_after, guard.period);
        let stale = stale.filter(|_| self.clusters.iter().any(takes_part));
        let unpaged =
            self.clusters.iter().all(|cluster| !cluster.pages_on_fault).then(|| UNPAGED.to_owned());
        let members = self.clusters.iter().filter(|cluster| takes_part(cluster));
        let roles = clusters::registry_role_warnings(members, self.account.as_deref());
        guard.mismatch().into_iter().chain(stale).chain(unpaged).chain(roles).collect()
    }
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn rules(&mut self, parameters: &Parameters) -> Rules {
        let Guard { share, minimum, wait, period } = Guard::default();
        Rules {
            namespaces: self.read("CLOUD_MAP_NAMESPACES", namespaces),
            create_namespaces: self.read("CREATE_NAMESPACES", boolean),
            policy: self.read("POLICY", |text| {
                parse(text, Policy::parse, "not one of sync, upsert-only, create-only")
            }),
            guard: Guard {
                share: self.read_or("GUARD_SHARE", share, per_cent),
                minimum: self.read_or("GUARD_MINIMUM", minimum, count),
                wait: self.read_or("GUARD_WAIT", wait, duration),
                period: self.read_or("SCHEDULE_MINUTES", period, minutes),
            },
            service_limit: ServiceLimit::default(),
            name_policy: self.read_optional("NAME_POLICY", |text| {
                name_policy(&parameter_store::texts(text, parameters)?)
            }),
            lacks_dns_rights: !self.read_or("DNS_NAMESPACES", true, boolean),
        }
    }
}

// Parses environment variables one by one into typed values. The error of each function is the text of the mistake.

/// The default of `ANNOTATION_PREFIX`.
pub const ANNOTATION_PREFIX: &str = "cloudmap.controller/";
/// The largest number of tags in `CREATE_TAGS`. Cloud Map allows 50 tags, and one is the owner's tag.
const MOST_TAGS: usize = 49;

fn namespaces(text: &str) -> Result<Vec<NamespaceReference>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let form = "the name, id or ARN of a Cloud Map namespace";
    items.map(|item| parse(item, NamespaceReference::parse, &format!("not {form}"))).collect()
}

/// Parses the owner id. It becomes the value of an attribute and of a tag, so it has at most 256 printable ASCII
/// characters.
fn owner_id(text: &str) -> Result<String, String> {
    let is_id = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let problem = "it must be 1 to 256 printable ASCII characters without spaces";
    is_id.then(|| text.to_owned()).ok_or_else(|| problem.to_owned())
}

/// Parses the prefix of annotations, and adds a missing `/` at its end. Kubernetes requires a DNS subdomain and `/`.
///
/// # Errors
/// Returns the text of the mistake if it is not a DNS subdomain.
pub fn annotation_prefix(text: &str) -> Result<String, String> {
    let domain = text.strip_suffix('/').unwrap_or(text);
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_name = domain.len() <= 253 && domain.split('.').all(label);
    let prefix = |_: &str| is_name.then(|| format!("{domain}/"));
    parse(text, prefix, "not a lower-case DNS name with a '/' at its end")
}

/// Parses the name of a Lambda alias, which must not be a version number.
fn alias(text: &str) -> Result<Option<String>, String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_version = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_alias = (1..=128).contains(&text.len()) && text.bytes().all(is_inner) && !is_version;
    let form = "1 to 128 letters, digits, '-' and '_', and no number";
    let alias = |name: &str| is_alias.then(|| Some(name.to_owned()));
    parse(text, alias, &format!("not the name of an alias ({form})"))
}

/// Parses a text with `value`. `problem` is the predicate of the error message, such as "not a whole number".
fn parse<T>(text: &str, value: impl Fn(&str) -> Option<T>, problem: &str) -> Result<T, String> {
    value(text).ok_or_else(|| format!("{text:?} is {problem}"))
}

/// Parses tags as `KEY=VALUE`, separated by commas. Neither a key nor a value may contain a comma.
fn tags(text: &str) -> Result<CustomTags, String> {
    let mut tags = CustomTags::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) = item.split_once('=').unwrap_or((item, "\0"));
        let key = key.trim();
        let value = value.trim();
        let is_tag =
            |text: &str| text.chars().all(|c| c.is_alphanumeric() || " _.:/=+-@".contains(c));
        let fits = (1..=128).contains(&key.chars().count()) && value.chars().count() <= 256;
        if !fits || !is_tag(key) || !is_tag(value) {
            return Err(format!(
                "{item:?} is not a tag KEY=VALUE of letters, digits, spaces and _.:/=+-@, with at most 128 and 256 characters"
            ));
        }
        if key == OWNER_TAG || key.to_ascii_lowercase().starts_with("aws:") {
            return Err(format!("{key:?} is a key that the function or AWS sets: use another one"));
        }
        if tags.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("{key:?} has two values: give one"));
        }
    }
    let count = tags.len();
    if count > MOST_TAGS {
        return Err(format!("it has {count} tags, and Cloud Map takes {MOST_TAGS} beside ours"));
    }
    Ok(tags)
}

/// Parses a whole percentage, with or without `%`.
fn per_cent(text: &str) -> Result<u8, String> {
    let number = |text: &str| text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok();
    let share = |text: &str| number(text).filter(|share| *share <= 100);
    parse(text, share, "not a whole number from 0 to 100")
}

fn count(text: &str) -> Result<usize, String> {
    parse(text, |text| text.parse().ok(), "not a whole number")
}

/// Parses a duration with its unit, such as `90s`, `10m`, `1h 30m` or `7d`, from one second to a year.
///
/// # Errors
/// Returns the text of the mistake.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    parse(text, parse_duration, "not a duration such as 90s, 10m or 1h")
}

/// Parses whole minutes, from one minute to a day.
fn minutes(text: &str) -> Result<SignedDuration, String> {
    let minutes = |text: &str| text.parse().ok().filter(|minutes| (1..=1440).contains(minutes));
    let minutes = parse(text, minutes, "not a whole number from 1 to 1440");
    minutes.map(SignedDuration::from_mins)
}

/// A day has 24 hours.
fn parse_duration(text: &str) -> Option<SignedDuration> {
    const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u16>().ok());
    let days = days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
    let time = days.or_else(|| text.parse().ok());
    time.filter(|time| (SignedDuration::from_secs(1)..=YEAR).contains(time))
}

fn boolean(text: &str) -> Result<bool, String> {
    parse(text, |text| text.parse().ok(), "neither true nor false")
}

/// Parses a number of at least 0.001. 1 is the whole limit.
fn quota_share(text: &str) -> Result<QuotaShare, String> {
    parse(text, |text| QuotaShare::new(text.parse().ok()?), "not a number of at least 0.001")
}

/// Parses the URL of a queue, which has a host, an account and a name.
fn queue_url(text: &str) -> Result<Option<String>, String> {
    let rest = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
    let parts = rest.map(|(_, rest)| rest.split('/').filter(|part| !part.is_empty()).count());
    let is_url = parts == Some(3) && !text.contains(char::is_whitespace);
    parse(text, |url| is_url.then(|| Some(url.to_owned())), "not the URL of a queue")
}

/// Parses `NAME_POLICY`. Each text is a JSON list of rules, and the lists are joined. An error has the path in the
/// JSON. `None` allows everything.
fn name_policy(texts: &[Text<'_>]) -> Result<Option<NamePolicy>, String> {
    let mut policy = Vec::new();
    for text in texts {
        policy.extend(parse_rules(text.text).map_err(|problem| text.problem(&problem))?);
    }
    if policy.is_empty() && !texts.is_empty() {
        return Err(
            "it contains no rule and allows nothing; if unset, everything is allowed".into()
        );
    }
    Ok(if texts.is_empty() { None } else { Some(NamePolicy(policy)) })
}

fn parse_rules(text: &str) -> Result<Vec<Rule>, String> {
    let not_a_list = |error: &serde_json::Error| format!("it is not a JSON list of rules: {error}");
    let mut json = serde_json::Deserializer::from_str(text);
    let rules: Vec<Rule> = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.inner();
        if path == "." { not_a_list(error) } else { format!("{path}: {error}") }
    })?;
    json.end().map_err(|error| not_a_list(&error))?;
    match rules.iter().enumerate().find_map(|(number, rule)| Some((number, find_empty_list(rule)?)))
    {
        Some((number, (list, hint))) => Err(format!("[{number}].{list}: it is empty; {hint}")),
        None => Ok(rules),
    }
}

/// Returns the first empty list of a rule with a hint, since an empty list matches nothing. Only `names` may be empty:
/// such a rule allows no name.
fn find_empty_list(rule: &Rule) -> Option<(&'static str, &'static str)> {
    let everything = "\"*\" matches everything, and \"names\": [] allows nothing";
    let lists = [
        ("clusters", rule.clusters.is_empty(), everything),
        ("kubernetesNamespaces", rule.kubernetes_namespaces.is_empty(), everything),
        ("cloudMapNamespaces", rule.cloud_map_namespaces.is_empty(), everything),
        ("cidrs", rule.cidrs.as_ref().is_some_and(Vec::is_empty), "without it all are allowed"),
    ];
    let empty = lists.into_iter().find(|(_, is_empty, _)| *is_empty);
    empty.map(|(list, _, hint)| (list, hint))
}

/// The largest number of characters of a problem, since some problems repeat the value.
const LONGEST_PROBLEM: usize = 1_000;

/// An invalid environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub variable: &'static str,
    pub problem: String,
    /// A valid value.
    pub example: &'static str,
}

/// All mistakes in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count} mistake{} in the settings", if count == 1 { "" } else { "s" })?;
        for Mistake { variable, problem, example } in &self.0 {
            write!(f, "; {variable}: {problem} (example: {variable}={example})")?;
        }
        Ok(())
    }
}

pub struct Reader<F> {
    variable: F,
    documented: &'static [Documented],
    mistakes: Vec<Mistake>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// Creates a reader. `variable` returns an environment variable, and `documented` has the examples for mistakes.
    pub fn new(variable: F, documented: &'static [Documented]) -> Self {
        Self { variable, documented, mistakes: Vec::new() }
    }

    /// Reads the value of a variable. Returns the default of its type if the variable is not set or has a mistake.
    pub fn read<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        self.read_or(variable, T::default(), parse)
    }

    /// Reads the value of a variable. Returns `default` if the variable is not set.
    pub fn read_or<T: Default>(
        &mut self,
        variable: &'static str,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        self.read_optional(variable, |text| text.map_or(Ok(default), parse))
    }

    /// Reads the value of a variable. `parse` gets `None` if the variable is not set or blank, since templates pass
    /// empty parameters on. After a mistake, returns the default of the type.
    pub fn read_optional<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl FnOnce(Option<&str>) -> Result<T, String>,
    ) -> T {
        let text = (self.variable)(variable);
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        parse(text).unwrap_or_else(|problem| {
            let documented = self.documented.iter().find(|setting| setting.name == variable);
            let example = documented.map_or("", |setting| setting.example);
            let problem = shorten_to(&printable(&problem), LONGEST_PROBLEM);
            self.mistakes.push(Mistake { variable, problem, example });
            T::default()
        })
    }

    /// Returns the settings.
    ///
    /// # Errors
    ///
    /// Returns an error with all mistakes if there is one.
    pub fn finish<T>(self, settings: T) -> Result<T, Mistakes> {
        if self.mistakes.is_empty() { Ok(settings) } else { Err(Mistakes(self.mistakes)) }
    }
}
