//! The stories: the changes of a name's tasks and pods while callers call it. Each story is prepared and played on a stage
//! of its own.

use std::future::Future;
use std::pin::Pin;

use crate::stage::{Recipe, SERVICE, Setting, Stage};

/// The tasks and pods of a name.
const COUNT: usize = 4;
/// The pods of a Service whose loss is large enough for the guard.
const FLEET: usize = 12;
/// How long callers may keep an address by the schedule alone with a TTL of 60 s, in seconds.
const SCHEDULE_DELAY: u32 = 180;
/// The same with a forwarder and a TTL of 10 s.
const FORWARDER_DELAY: u32 = 75;
/// The longest `stopTimeout` of a task on Fargate.
const STOP_TIMEOUT: u32 = 120;
/// How long calls are recorded after the last event of a story: callers still meet what it left behind.
const AFTERWARDS: u32 = 120;

/// A story of the page.
#[derive(Clone, Copy)]
pub struct Story {
    pub title: &'static str,
    pub setting: Setting,
    pub expected: Expected,
    pub is_in_short_form: bool,
    /// Whether it is in the table for users.
    pub is_for_users: bool,
    script: Script,
}

/// The failed calls that a story should have.
#[derive(Clone, Copy, PartialEq)]
pub enum Expected {
    /// The story is a recipe: no call of a caller that follows the name may fail.
    NoFailure,
    /// The recipe is broken by hand: if no call failed, the stage could not show a failure.
    Failures,
    /// The figure is the result.
    Anything,
}

#[derive(Clone, Copy)]
enum Script {
    Canary,
    EcsToZero {
        stop_timeout: u32,
    },
    CutBack {
        tasks_come_first: bool,
    },
    Roll(Recipe),
    PodKilled,
    AllRestarted {
        annotations: &'static [(&'static str, &'static str)],
    },
    NodeGone,
    FunctionAway,
    CloudMapRefuses,
    /// The selectors of Services find no pod; of several Services the guard holds the loss.
    SelectorsFindNothing {
        services: &'static [&'static str],
        annotations: &'static [(&'static str, &'static str)],
    },
    ServiceRenamed,
    ClusterReplaced,
}

const BY_SCHEDULE: Setting =
    Setting { name: "", clusters: &["blue"], has_forwarder: false, ttl: 60 };
const WITH_FORWARDER: Setting = Setting { has_forwarder: true, ttl: 10, ..BY_SCHEDULE };

const STORY: Story = Story {
    title: "",
    setting: BY_SCHEDULE,
    expected: Expected::Anything,
    is_in_short_form: false,
    is_for_users: false,
    script: Script::Canary,
};

/// The last ready pods stay registered if none is ready.
const KEEP: &[(&str, &str)] = &[("when-none-ready", "keep")];

/// All of them, in the order of the page.
pub const STORIES: &[Story] = &[
    Story {
        title: "Canary of one pod, then three, then all",
        setting: Setting { name: "canary", ..BY_SCHEDULE },
        expected: Expected::NoFailure,
        is_in_short_form: true,
        ..STORY
    },
    Story {
        title: "ECS to zero, tasks serve on for their `stopTimeout` of 120 s",
        setting: Setting { name: "ecs-to-zero", ..BY_SCHEDULE },
        is_for_users: true,
        expected: Expected::NoFailure,
        script: Script::EcsToZero { stop_timeout: STOP_TIMEOUT },
        ..STORY
    },
    Story {
        title: "ECS to zero, tasks end at once",
        setting: Setting { name: "ecs-at-once", ..BY_SCHEDULE },
        script: Script::EcsToZero { stop_timeout: 0 },
        ..STORY
    },
    Story {
        title: "Cut back: tasks first",
        setting: Setting { name: "cut-back", ..BY_SCHEDULE },
        expected: Expected::NoFailure,
        script: Script::CutBack { tasks_come_first: true },
        ..STORY
    },
    Story {
        title: "Cut back in the wrong order: `publish: \"false\"` first",
        setting: Setting { name: "wrong-cut-back", ..BY_SCHEDULE },
        is_for_users: true,
        expected: Expected::Failures,
        script: Script::CutBack { tasks_come_first: false },
        ..STORY
    },
    Story {
        title: "Roll-out by the schedule, both times 180 s",
        setting: Setting { name: "schedule", ..BY_SCHEDULE },
        is_for_users: true,
        expected: Expected::NoFailure,
        script: Script::Roll(Recipe { min_ready: SCHEDULE_DELAY, pre_stop: SCHEDULE_DELAY }),
        ..STORY
    },
    Story {
        title: "Roll-out by the schedule without `preStop`",
        setting: Setting { name: "schedule-no-pre-stop", ..BY_SCHEDULE },
        is_for_users: true,
        expected: Expected::Failures,
        script: Script::Roll(Recipe { min_ready: SCHEDULE_DELAY, pre_stop: 0 }),
        ..STORY
    },
    Story {
        title: "Roll-out by the schedule without `minReadySeconds`",
        setting: Setting { name: "schedule-no-min-ready", ..BY_SCHEDULE },
        script: Script::Roll(Recipe { min_ready: 0, pre_stop: SCHEDULE_DELAY }),
        ..STORY
    },
    Story {
        title: "Roll-out by the schedule with neither",
        setting: Setting { name: "schedule-bare", ..BY_SCHEDULE },
        expected: Expected::Failures,
        script: Script::Roll(Recipe { min_ready: 0, pre_stop: 0 }),
        ..STORY
    },
    Story {
        title: "Roll-out with a forwarder, both times 75 s",
        setting: Setting { name: "forwarder", ..WITH_FORWARDER },
        is_for_users: true,
        expected: Expected::NoFailure,
        is_in_short_form: true,
        script: Script::Roll(Recipe { min_ready: FORWARDER_DELAY, pre_stop: FORWARDER_DELAY }),
    },
    Story {
        title: "Roll-out with a forwarder without `preStop`",
        setting: Setting { name: "forwarder-no-pre-stop", ..WITH_FORWARDER },
        is_for_users: false,
        expected: Expected::Failures,
        is_in_short_form: true,
        script: Script::Roll(Recipe { min_ready: FORWARDER_DELAY, pre_stop: 0 }),
    },
    Story {
        title: "Roll-out with a forwarder without `minReadySeconds`",
        setting: Setting { name: "forwarder-no-min-ready", ..WITH_FORWARDER },
        script: Script::Roll(Recipe { min_ready: 0, pre_stop: FORWARDER_DELAY }),
        ..STORY
    },
    Story {
        title: "Roll-out with a forwarder with neither",
        setting: Setting { name: "forwarder-bare", ..WITH_FORWARDER },
        is_for_users: true,
        expected: Expected::Failures,
        script: Script::Roll(Recipe { min_ready: 0, pre_stop: 0 }),
        ..STORY
    },
    Story {
        title: "The same recipe of 75 s with a TTL of 300 s",
        setting: Setting { name: "long-ttl", ttl: 300, ..WITH_FORWARDER },
        is_for_users: true,
        expected: Expected::Failures,
        script: Script::Roll(Recipe { min_ready: FORWARDER_DELAY, pre_stop: FORWARDER_DELAY }),
        ..STORY
    },
    Story {
        title: "A pod's process is killed",
        setting: Setting { name: "pod-killed", ..WITH_FORWARDER },
        script: Script::PodKilled,
        ..STORY
    },
    Story {
        title: "All pods are deleted at once, `preStop` of 90 s",
        setting: Setting { name: "all-restarted", ..WITH_FORWARDER },
        script: Script::AllRestarted { annotations: &[] },
        ..STORY
    },
    Story {
        title: "The same deletion with `when-none-ready: keep`",
        setting: Setting { name: "all-restarted-keep", ..WITH_FORWARDER },
        expected: Expected::NoFailure,
        script: Script::AllRestarted { annotations: KEEP },
        ..STORY
    },
    Story {
        title: "A node with two of four pods is gone",
        setting: Setting { name: "node-gone", ..WITH_FORWARDER },
        script: Script::NodeGone,
        ..STORY
    },
    Story {
        title: "The function is away for ten minutes, and a pod is replaced meanwhile",
        setting: Setting { name: "function-away", ..WITH_FORWARDER },
        script: Script::FunctionAway,
        ..STORY
    },
    Story {
        title: "Cloud Map refuses writes for three minutes, and a pod is replaced meanwhile",
        setting: Setting { name: "refusing", ..WITH_FORWARDER },
        script: Script::CloudMapRefuses,
        ..STORY
    },
    Story {
        title: "The selectors of two Services find no pod for three minutes; the guard holds",
        setting: Setting { name: "guard", ..BY_SCHEDULE },
        expected: Expected::NoFailure,
        script: Script::SelectorsFindNothing { services: &[SERVICE, "api"], annotations: &[] },
        ..STORY
    },
    Story {
        title: "The selector of one Service finds no pod for three minutes",
        setting: Setting { name: "selector", ..BY_SCHEDULE },
        script: Script::SelectorsFindNothing { services: &[SERVICE], annotations: &[] },
        ..STORY
    },
    Story {
        title: "The same selector with `when-none-ready: keep`",
        setting: Setting { name: "selector-keep", ..BY_SCHEDULE },
        expected: Expected::NoFailure,
        script: Script::SelectorsFindNothing { services: &[SERVICE], annotations: KEEP },
        ..STORY
    },
    Story {
        title: "Another Service takes the name over, `preStop` of 180 s",
        setting: Setting { name: "service-renamed", ..BY_SCHEDULE },
        expected: Expected::NoFailure,
        script: Script::ServiceRenamed,
        ..STORY
    },
    Story {
        title: "A cluster replaces another, `preStop` of 180 s",
        setting: Setting { name: "cluster-replaced", clusters: &["blue", "green"], ..BY_SCHEDULE },
        expected: Expected::NoFailure,
        script: Script::ClusterReplaced,
        ..STORY
    },
];

impl Story {
    /// Starts the tasks and pods that exist before the first call.
    pub async fn prepare(&self, stage: &Stage) {
        match self.script {
            Script::Canary => {
                stage.start_tasks(COUNT).await;
                stage.create_service("blue", SERVICE);
                stage.start_pods("blue", SERVICE, COUNT).await;
                stage.registered(COUNT).await;
            }
            Script::EcsToZero { .. } => {
                stage.start_tasks(COUNT).await;
                start(stage, "blue", SERVICE, &[]).await;
                stage.registered(2 * COUNT).await;
            }
            Script::SelectorsFindNothing { services, annotations } => {
                for service in services {
                    stage.claim_name("blue", service, service, annotations);
                    stage.start_pods("blue", service, FLEET).await;
                }
                stage.registered(FLEET).await;
            }
            Script::AllRestarted { annotations } => {
                start(stage, "blue", SERVICE, annotations).await;
                stage.registered(COUNT).await;
            }
            _ => {
                start(stage, "blue", SERVICE, &[]).await;
                stage.registered(COUNT).await;
            }
        }
    }

    /// Plays the changes, and waits until callers have met their consequences.
    pub fn play(self, stage: Stage) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            self.script.play(&stage).await;
            stage.wait(AFTERWARDS).await;
        })
    }
}

async fn start(stage: &Stage, cluster: &str, service: &str, annotations: &[(&str, &str)]) {
    stage.claim(cluster, service, annotations);
    stage.start_pods(cluster, service, COUNT).await;
}

impl Script {
    async fn play(self, stage: &Stage) {
        match self {
            Self::Canary => canary(stage).await,
            Self::EcsToZero { stop_timeout } => stage.stop_tasks(stop_timeout).await,
            Self::CutBack { tasks_come_first } => cut_back(stage, tasks_come_first).await,
            Self::Roll(recipe) => stage.roll("blue", SERVICE, recipe).await,
            Self::PodKilled => stage.kill_pod(stage.pods(SERVICE)[0]).await,
            Self::AllRestarted { .. } => {
                let former = stage.pods(SERVICE);
                let start = stage.start_pods("blue", SERVICE, COUNT);
                // With `when-none-ready` they leave the name only after the new ones have come.
                tokio::join!(stage.delete_pods(former, FORWARDER_DELAY + 15), start);
            }
            Self::NodeGone => stage.lose_node(&stage.pods(SERVICE)[..2]).await,
            Self::FunctionAway => {
                stage.set_function_away(true);
                stage.wait(60).await;
                replace_one_pod(stage).await;
                stage.wait(600 - 60 - FORWARDER_DELAY).await;
                stage.set_function_away(false);
            }
            Self::CloudMapRefuses => {
                for operation in ["RegisterInstance", "DeregisterInstance"] {
                    stage.cloud_map().deny(operation);
                }
                replace_one_pod(stage).await;
                stage.wait(180 - FORWARDER_DELAY).await;
                stage.cloud_map().heal();
            }
            Self::SelectorsFindNothing { services, .. } => {
                for finds_pods in [false, true] {
                    for service in services {
                        stage.set_selector("blue", service, finds_pods);
                    }
                    stage.wait(if finds_pods { 0 } else { 180 }).await;
                }
            }
            Self::ServiceRenamed => {
                let former = stage.pods(SERVICE);
                start(stage, "blue", "web-2", &[]).await;
                stage.wait(SCHEDULE_DELAY).await;
                stage.delete_service("blue", SERVICE);
                stage.wait(SCHEDULE_DELAY).await;
                stage.delete_pods(former, 0).await;
            }
            Self::ClusterReplaced => {
                let former = stage.pods(SERVICE);
                start(stage, "green", SERVICE, &[]).await;
                stage.wait(SCHEDULE_DELAY).await;
                stage.delete_pods(former, SCHEDULE_DELAY).await;
            }
        }
    }
}

async fn canary(stage: &Stage) {
    for instances in ["1", "3"] {
        stage.claim("blue", SERVICE, &[("max-instances", instances)]);
        stage.wait(SCHEDULE_DELAY).await;
    }
    stage.claim("blue", SERVICE, &[]);
    stage.wait(SCHEDULE_DELAY).await;
}

async fn cut_back(stage: &Stage, tasks_come_first: bool) {
    if tasks_come_first {
        stage.start_tasks(COUNT).await;
        stage.wait(SCHEDULE_DELAY).await;
    }
    stage.claim("blue", SERVICE, &[("publish", "false")]);
    stage.wait(SCHEDULE_DELAY).await;
    if !tasks_come_first {
        stage.start_tasks(COUNT).await;
    }
}

async fn replace_one_pod(stage: &Stage) {
    let former = stage.pods(SERVICE)[0];
    let start = stage.start_pods("blue", SERVICE, 1);
    tokio::join!(stage.delete_pod(former, FORWARDER_DELAY), start);
}
