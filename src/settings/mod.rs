//! The settings of the function: environment variables, parsed once at a cold start into one typed value.
//!
//! `parameter_store` reads the variables and the parameters that they reference; the rest is pure. `clusters`
//! parses one setting, `value` all others, and collects all mistakes, each with the variable, the problem
//! and an example. The SDK and the Lambda runtime read `AWS_*`.

mod clusters;
mod documented;
mod parameter_store;
#[cfg(test)]
mod tests;
pub mod value;

use std::sync::Arc;

use crate::cloud_map::{CustomTags, QuotaShare};
use crate::model::{Events, Guard, Policy, Rules, ServiceLimit, SignedDuration};
use crate::report::metrics::WrittenMetrics;

pub use clusters::{Cluster, ClusterObject, Membership, MultiCluster, Role, parse_multi_cluster};
pub use documented::DOCUMENTED;
use parameter_store::Parameters;
pub use parameter_store::{LoadError, load};
pub use value::{Mistake, Mistakes, Reader};

const UNPAGED: &str = "every cluster of CLUSTERS has page: false, which is ignored, since no alarm would page then: \
                       remove it from the clusters whose faults should wake somebody";

/// Every setting of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `CLUSTERS`: the EKS clusters to keep in step, at least one.
    pub clusters: Vec<Cluster>,
    /// `OWNER_ID`: the mark of this installation's instances.
    pub owner_id: String,
    /// `ANNOTATION_PREFIX`: the prefix of the annotations on Services, `/` included.
    pub annotation_prefix: String,
    /// All other settings: the rules of a plan.
    pub rules: Arc<Rules>,
    /// `DRY_RUN`: plan and report, write nothing.
    pub dry_run: bool,
    /// `ADMIN_ALIAS`: the alias of the function through which alone the actions of administrators are accepted.
    pub admin_alias: Option<String>,
    /// `FAN_OUT`: the URL of the function's own queue to which it sends full syncs.
    pub fan_out: Option<String>,
    /// `QUEUE_URL`: the URL of the function's own queue of messages about single Services.
    pub queue_url: Option<String>,
    /// `QUOTA_SHARE`: the share of Cloud Map's rate limits that this process may use.
    pub quota_share: QuotaShare,
    /// `CREATE_TAGS`: the tags of what is created in Cloud Map, beside the owner's.
    pub create_tags: CustomTags,
    /// `METRICS`: the metrics that are written.
    pub metrics: WrittenMetrics,
    /// `EVENTS`: the Events that are created in the clusters.
    pub events: Events,
    /// `MULTI_CLUSTER`: the part that clusters take in the Multi-Cluster Services API.
    pub multi_cluster: MultiCluster,
    /// `STALE_CLUSTERS_AFTER`: the age of a heartbeat at which its cluster is reported as stale.
    pub stale_clusters_after: SignedDuration,
    /// `EXPIRE_CLUSTERS_AFTER`: the age at which its endpoints leave imports that others serve; `None` means never.
    pub expire_clusters_after: Option<SignedDuration>,
    /// A warning for each setting that no longer has an effect.
    pub retired: Vec<String>,
}

impl Settings {
    /// Reads the settings. `variable` returns an environment variable, `parameters` are the values that the settings
    /// reference, and `region` is the function's own, for clusters without a Region.
    ///
    /// # Errors
    /// Returns all mistakes.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        parameters: &Parameters,
        region: Option<&str>,
    ) -> Result<Self, Mistakes> {
        let mut reader = Reader::new(variable, DOCUMENTED);
        let settings = Self {
            clusters: reader.read_optional("CLUSTERS", |text| {
                clusters::parse(&parameter_store::texts(text, parameters)?, region)
            }),
            owner_id: reader.read_or("OWNER_ID", "cloud-map-sync".to_owned(), value::owner_id),
            annotation_prefix: reader.read_or(
                "ANNOTATION_PREFIX",
                value::ANNOTATION_PREFIX.to_owned(),
                value::annotation_prefix,
            ),
            rules: Arc::new(reader.rules(parameters)),
            dry_run: reader.read("DRY_RUN", value::boolean),
            admin_alias: reader.read("ADMIN_ALIAS", value::alias),
            fan_out: reader.read("FAN_OUT", value::queue_url),
            queue_url: reader.read("QUEUE_URL", value::queue_url),
            quota_share: reader.read("QUOTA_SHARE", value::quota_share),
            create_tags: reader.read("CREATE_TAGS", value::tags),
            metrics: reader.read("METRICS", |text| {
                value::word(text, WrittenMetrics::parse, "neither all nor function")
            }),
            events: reader.read("EVENTS", |text| {
                value::word(text, Events::parse, "not one of all, warnings, none")
            }),
            multi_cluster: reader.read("MULTI_CLUSTER", parse_multi_cluster),
            stale_clusters_after: reader.read_or(
                "STALE_CLUSTERS_AFTER",
                clusters::STALE_CLUSTERS_AFTER,
                value::duration,
            ),
            expire_clusters_after: reader.read("EXPIRE_CLUSTERS_AFTER", value::duration_or_off),
            retired: reader.find_retired(),
        };
        reader.finish(settings)
    }

    /// The part of a cluster in the Multi-Cluster Services API.
    pub fn multi_cluster_of(&self, cluster: &Cluster) -> MultiCluster {
        cluster.membership.multi_cluster.unwrap_or(self.multi_cluster)
    }

    /// Whether the faults of a cluster page. If no cluster is to page, `page` is ignored: an alarm on a good sync needs
    /// one that can be good.
    pub fn pages(&self, cluster: &Cluster) -> bool {
        cluster.page || self.clusters.iter().all(|it| !it.page)
    }

    /// Warnings about settings that have no effect, or contradict each other.
    pub fn warnings(&self) -> Vec<String> {
        let guard = self.rules.guard;
        let takes_part = |cluster| self.multi_cluster_of(cluster) != MultiCluster::Off;
        let stale = clusters::mismatch(self.stale_clusters_after, guard.period);
        let stale = stale.filter(|_| self.clusters.iter().any(takes_part));
        let unpaged = self.clusters.iter().all(|it| !it.page).then(|| UNPAGED.to_owned());
        self.retired.iter().cloned().chain(guard.mismatch()).chain(stale).chain(unpaged).collect()
    }
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn rules(&mut self, parameters: &Parameters) -> Rules {
        let Guard { share, minimum, wait, period } = Guard::default();
        Rules {
            namespaces: self.read("CLOUD_MAP_NAMESPACES", value::namespaces),
            create_namespaces: self.read("CREATE_NAMESPACES", value::boolean),
            delete_empty_services: self.read("DELETE_EMPTY_SERVICES", value::boolean),
            policy: self.read("POLICY", |text| {
                value::word(text, Policy::parse, "not one of sync, upsert-only, create-only")
            }),
            guard: Guard {
                share: self.read_or("GUARD_SHARE", share, value::per_cent),
                minimum: self.read_or("GUARD_MINIMUM", minimum, value::count),
                wait: self.read_or("GUARD_WAIT", wait, value::duration),
                period: self.read_or("SCHEDULE_MINUTES", period, value::minutes),
            },
            service_limit: ServiceLimit::default(),
            name_policy: self.read_optional("NAME_POLICY", |text| {
                value::name_policy(&parameter_store::texts(text, parameters)?)
            }),
            lacks_dns_rights: !self.read_or("DNS_NAMESPACES", true, value::boolean),
            purge_dead_clusters_after: self
                .read("PURGE_DEAD_CLUSTERS_AFTER", value::duration_or_off),
        }
    }
}
