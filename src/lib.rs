//! Keeps AWS Cloud Map in step with the annotated headless Services of EKS clusters.
//!
//! # One invocation
//!
//! ```text
//! Lambda payload ─> event ─> function ─────────────────────────────────────────────> answer
//!                               │ for each cluster                                     ▲
//!                               ├─> reconcile: connect ─> publish ─> Events            │
//!                               │     publish: observe ─> plan ─> groups + apply ─> report
//!                               │     then for each clusterset: publish exports ─> import into each member
//!                               └─> actions: a question or a purge of a person ─> answer
//! ```
//!
//! # The rooms
//!
//! Each row imports only from the rows below it; `tests/architecture.rs` checks this.
//!
//! | Room | Contents |
//! |---|---|
//! | [`function`] | one invocation: its clusters, scope, messages, answer and log |
//! | [`actions`] | a person's questions and purges |
//! | [`reconcile`] | the run of one cluster: connect, publish, create Events |
//! | [`clients`] | every client, built once a process, by account and Region |
//! | [`settings`] | the settings, each checked once |
//! | [`publish`] | Kubernetes into Cloud Map: the run of one cluster on one screen |
//! | [`publish::observe`], [`publish::apply`] | all reads of a run; one change, one call |
//! | [`import`] | Cloud Map into Kubernetes: observe, plan and apply the objects of the imports of a cluster |
//! | [`publish::group`], [`publish::plan`] | pure: the sync of one group of Services; every rule |
//! | [`guard`] | pure: the rules against mass deletion, for instances and for imports |
//! | [`report`], [`event`] | pure: the report, its tables and metrics; payloads into scopes |
//! | [`clusterset`] | pure: the exports of a clusterset as attributes, and the service that follows from them |
//! | [`cloud_map`], [`kubernetes`], [`eks`] | one outside system each; they know neither each other nor a flow |
//! | [`connections`] | the order of the addresses of a name, and which connections are reused |
//! | [`model`], [`error`], [`time`] | the shared nouns; the chain of causes; clock and deadline |
//!
//! [`lambda`] is the process as Lambda sees it. The plugin of kubectl and the forwarder are programs of their own in
//! `crates/`, and the stand-ins of the tests are `crates/testbed`; the function is built without them.
//!
//! # Glossary
//!
//! Kubernetes' and Cloud Map's own nouns keep their meaning: *Service* is Kubernetes', *Cloud Map service* and
//! *instance* are Cloud Map's.
//!
//! | Word | Meaning |
//! |---|---|
//! | registry | one account's Cloud Map in one Region |
//! | owner, marks | the installation, cluster and flow that an instance belongs to; the attributes that record them |
//! | flow | the source of instances: annotated Services, or exports |
//! | member | a cluster of a clusterset |
//! | import | a ServiceImport with its derived Service, which has the virtual IP, and its EndpointSlices |
//! | export record, cluster record | an instance without an address, which describes an export or a member |
//! | claim, holder | a name that a Service asks for; the Service that gets it |
//! | observation | the input of a plan: the claims and endpoints of the cluster, and the contents of Cloud Map |
//! | change, plan | one call to Cloud Map; all changes, and all that is held back with the reasons |
//! | comparison, look | the plan of all that a run is about; the plan of one group on a fresh read |
//! | group | the Services joined by a name that both claim or have instances under; most often one |
//! | permit | the right of a run to take an instance away, which the judged comparison gives |
//! | surplus | an instance of ours that is to leave; most often no endpoint asks for it |
//! | exchange | a new endpoint under the id of a surplus instance, if there is no capacity for both |
//! | held back | asked for and not done, and a retry does not help |
//! | loss | the instances that a full sync would take from a cluster, or the endpoints from its imports; the guard holds one that is too large |
//! | sighting, note | when a full sync first saw the loss of a Service, and how many instances it would have left; as it stands on an instance of that Service |
//! | orphan | an instance of ours from a cluster that is not configured for its Cloud Map |
//! | mirror | what this process last read of one Cloud Map; no change rests on it |
//! | refusal | a request that Cloud Map would refuse again, and that is not sent for ten minutes |
//! | source | where a run learns what a cluster exports: the cluster itself if the function serves it, else Cloud Map |
//! | stale | a member that was not heard of for long |
//! | adopt | put our marks on an instance that another party registered |
//! | scope, selection | the Services that a payload names; the same in the clusters that are configured |

pub mod actions;
pub mod clients;
pub mod cloud_map;
pub mod clusterset;
pub mod connections;
pub mod eks;
pub mod error;
pub mod event;
pub mod function;
pub mod guard;
#[cfg(test)]
mod hostile;
pub mod import;
pub mod kubernetes;
pub mod lambda;
pub mod model;
pub mod publish;
pub mod reconcile;
pub mod report;
pub mod settings;
pub mod time;
