//! A week as it happens: the events of its story, a full sync every half an hour, messages with their redeliveries, and
//! a look at the registry every few minutes, side by side.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::future::ProvideCredentials as Provided;
use cloud_map_sync::function::{Answer, Function};
use cloud_map_sync::settings;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::outcome::{self, Pods, Registered};
use super::story::{self, Event, SERVICES};
use crate::faults::play::on_a_runtime;
use crate::faults::situation::READER;
use crate::fleet::{Fleet, annotated, give_pods};
use crate::queue::{batch, failures, message};
use testbed::clock::tokio_clock;
use testbed::cloud_map::Behaviour;
use testbed::function::invoke;
use testbed::kubernetes::{BOUND_GROUP, KubernetesServer};
use testbed::{ROLE_ARN, Sandbox};

/// Between two full syncs.
const SCHEDULE: Duration = Duration::from_mins(30);
const LOOK: Duration = Duration::from_mins(2);
/// A message that was not done comes again after this time, so many times.
const VISIBILITY: Duration = Duration::from_mins(6);
const DELIVERIES: usize = 5;
/// After this time nothing that was begun is under way any more.
const REST: Duration = Duration::from_mins(10);
/// How long the credentials of a process last.
const CREDENTIALS: Duration = Duration::from_hours(6);

/// What the weeks of a test did.
#[derive(Default)]
pub struct Sums {
    syncs: usize,
    messages: usize,
    calls: usize,
    compared: usize,
}

impl Sums {
    pub fn add(&mut self, other: &Self) {
        self.syncs += other.syncs;
        self.messages += other.messages;
        self.calls += other.calls;
        self.compared += other.compared;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { syncs, messages, calls, compared } = self;
        write!(text, "{syncs} full syncs, {messages} messages, {calls} calls to AWS, ")?;
        write!(text, "compared {compared} times with the wanted state")
    }
}

/// The world of a week. One process serves the schedule, the other one the queue.
pub struct Stage {
    pub fleet: Fleet,
    green: KubernetesServer,
    processes: [RefCell<Arc<Function>>; 2],
    pods: RefCell<Pods>,
    /// The events so far: a full sync during which there was none can be compared with the world.
    happened: Cell<usize>,
    in_trouble: Cell<bool>,
    sums: RefCell<Sums>,
}

/// Plays the week of a seed up to some second, on a runtime of its own.
pub fn week(seed: u64, length: u64) -> Sums {
    let named = Named(seed);
    let sums = on_a_runtime(play(seed, length));
    std::mem::forget(named);
    sums
}

/// Prints the seed of a week that broke a rule.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("WEEKS_FIRST={} WEEKS=1 repeats it", self.0);
    }
}

async fn play(seed: u64, length: u64) -> Sums {
    let stage = Stage::set().await;
    let events = story::week(seed, length);
    let start = Instant::now();
    tokio::select! {
        () = async { tokio::join!(stage.events(&events, start), stage.schedule(start, length)); } => {}
        () = stage.looks() => {}
    }
    stage.end_trouble();
    sleep(REST).await;
    let (first, second) = (stage.sync().await, {
        outcome::assert_wanted(&stage, "after the week");
        stage.fleet.cloud_map.forget_calls();
        stage.sync().await
    });
    assert_eq!(stage.fleet.cloud_map.writes(), 0, "at rest: {first:?} {second:?}");
    assert_eq!(stage.fleet.cloud_map.take_violations(), [""; 0], "something foreign was touched");
    let mut sums = stage.sums.take();
    sums.calls = stage.fleet.sandbox.aws().requests().len();
    sums
}

impl Stage {
    async fn set() -> Self {
        let fleet = Fleet::start().await;
        let green = fleet.green().await;
        fleet.sandbox.role(READER, None);
        green.grant(READER, &[BOUND_GROUP]);
        fleet.ecs_service("web", "10.0.9.1");
        let processes = [process(&fleet.sandbox).await, process(&fleet.sandbox).await];
        let processes = processes.map(|it| RefCell::new(Arc::new(it)));
        let (pods, happened, in_trouble, sums) = Default::default();
        Self { fleet, green, processes, pods, happened, in_trouble, sums }
    }

    pub fn cluster(&self, name: &str) -> &KubernetesServer {
        if name == "blue" { &self.fleet.cluster } else { &self.green }
    }

    /// The addresses of the ready pods.
    pub fn ready(&self) -> Pods {
        self.pods.borrow().clone()
    }

    pub fn refuse_role(&self) {
        self.fleet.sandbox.aws().identities.refuse_role(READER);
    }

    async fn events(&self, events: &[(u64, Event)], start: Instant) {
        let messages = async {
            let about = events.iter().filter_map(|(at, event)| match event {
                Event::Message(service) => {
                    Some(self.deliver(*service, start + Duration::from_secs(*at)))
                }
                _ => None,
            });
            futures_util::future::join_all(about).await;
        };
        let others = async {
            for (at, event) in events {
                sleep_until(start + Duration::from_secs(*at)).await;
                self.happen(event).await;
            }
        };
        tokio::join!(messages, others);
    }

    async fn happen(&self, event: &Event) {
        self.happened.set(self.happened.get() + 1);
        match event {
            Event::Pods(service, pods) => self.put(*service, pods.as_deref()),
            Event::Restart(number) => {
                let new = Arc::new(process(&self.fleet.sandbox).await);
                self.processes[*number].replace(new);
            }
            Event::Task(comes) => {
                let web =
                    self.fleet.cloud_map.find_service("prod.local", "web").expect("a service");
                let id = "fedcba9876543210fedcba9876543210";
                match comes {
                    true => self.fleet.ecs_task(&web, id, "10.0.9.7"),
                    false => self.fleet.cloud_map.withdraw(&web, id),
                }
            }
            Event::Begin(trouble) => {
                self.in_trouble.set(true);
                trouble.begin(self);
            }
            Event::End => self.end_trouble(),
            Event::Message(_) => {}
        }
    }

    fn end_trouble(&self) {
        self.fleet.cloud_map.heal();
        self.fleet.cloud_map.behave(Behaviour::default());
        self.fleet.cluster.clear_faults();
        self.green.clear_faults();
        self.fleet.sandbox.role(READER, None);
        self.in_trouble.set(false);
    }

    fn put(&self, service: usize, pods: Option<&[u8]>) {
        let (cluster, name, place) = SERVICES[service];
        let server = self.cluster(cluster);
        let network = if cluster == "blue" { 1 } else { 2 };
        let address = |pod: &u8| format!("10.{network}.{service}.{pod}");
        let addresses: Vec<String> = pods.into_iter().flatten().map(address).collect();
        if pods.is_some() {
            server.service(annotated(name, place.0, place.1));
            give_pods(server, name, &addresses.iter().map(String::as_str).collect::<Vec<_>>());
        } else {
            server.delete_service("shop", name);
        }
        self.pods.borrow_mut().insert(service, addresses.into_iter().collect());
    }

    async fn schedule(&self, start: Instant, length: u64) {
        let mut next = start + SCHEDULE;
        while next < start + Duration::from_secs(length) {
            sleep_until(next).await;
            let (happened, was_well) = (self.happened.get(), !self.in_trouble.get());
            let answer = self.sync().await;
            let is_same = happened == self.happened.get();
            if was_well && is_same && !self.in_trouble.get() {
                let report = answer.report.expect("a report");
                assert!(report.ok, "outside of trouble: {report}");
                outcome::assert_wanted(self, "after a full sync");
                self.sums.borrow_mut().compared += 1;
            }
            next = (next + SCHEDULE).max(Instant::now());
        }
    }

    async fn sync(&self) -> Answer {
        self.sums.borrow_mut().syncs += 1;
        let function = self.processes[0].borrow().clone();
        invoke(&function, &json!({ "action": "sync" })).await
    }

    async fn deliver(&self, service: usize, at: Instant) {
        sleep_until(at).await;
        let (cluster, name, _) = SERVICES[service];
        let about = json!({ "cluster": cluster, "namespace": "shop", "service": name });
        let payload: Value = batch(&[message("one", &about)]);
        for _ in 0..DELIVERIES {
            self.sums.borrow_mut().messages += 1;
            let function = self.processes[1].borrow().clone();
            let answer = invoke(&function, &payload).await;
            if failures(&answer).is_empty() {
                return;
            }
            sleep(VISIBILITY).await;
        }
    }

    async fn looks(&self) {
        let mut registered = Registered::default();
        loop {
            registered.look(self);
            sleep(LOOK).await;
        }
    }
}

/// A process that has just been started, with credentials that expire.
async fn process(sandbox: &Sandbox) -> Function {
    let config: SdkConfig = sandbox.sdk_config().await;
    let config = config.into_builder().credentials_provider(
        aws_credential_types::provider::SharedCredentialsProvider::new(OfRole(sandbox.clone())),
    );
    let config = config.build();
    let clusters =
        r#"["blue", {"cluster": "green", "roleArn": "arn:aws:iam::111122223333:role/reader"}]"#;
    let variable = |name: &str| match name {
        "CLUSTERS" => Some(clusters.to_owned()),
        "GUARD_MINIMUM" | "QUOTA_SHARE" => Some("1000".to_owned()),
        _ => None,
    };
    let settings = settings::load(variable, &config).await.expect("the test's settings");
    Function::new(settings, config).with_clock(tokio_clock())
}

/// The credentials of the function's role, which Lambda issues anew before they expire.
#[derive(Clone)]
struct OfRole(Sandbox);

impl fmt::Debug for OfRole {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("OfRole")
    }
}

impl ProvideCredentials for OfRole {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        let key = self.0.aws().identities.issue(ROLE_ARN, "cloud-map-sync", CREDENTIALS);
        let expires = key.expires.into();
        let token = Some(key.session_token);
        Provided::ready(Ok(Credentials::new(key.id, key.secret, token, Some(expires), "sandbox")))
    }
}
