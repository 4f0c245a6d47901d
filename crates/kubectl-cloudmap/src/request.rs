//! A request to the function: the payload of a direct invocation, with an action and its scope (`FunctionRequest`). The
//! deployed function runs it through Lambda. With `--local` the same handler runs in this process, with the credentials
//! of the terminal. Meanwhile standard error shows a line with the progress if it is a terminal.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::ops::Not;
use std::time::Duration;

use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{Region, SdkConfig};
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::interceptors::InterceptorContext;
use aws_sdk_lambda::config::retry::{ClassifyRetry, RetryAction};
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::primitives::Blob;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use super::{Aws, Output, RequestedScope, escape, print_error};
use cloud_map_sync::error::answer_of;
use cloud_map_sync::function::{Error as FunctionError, Function};
use cloud_map_sync::report::RELEASE;
use cloud_map_sync::settings::{self, LoadError, Settings};
use cloud_map_sync::time::Deadline;

/// Lambda's longest timeout of a function, 15 min, and 30 s for the response.
pub const LONGEST_RUN: Duration = Duration::from_secs(15 * 60 + 30);
/// The timeout of a run in this process without a deployed function.
const TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} the function {name}: {problem}{hint}")]
    Refused { action: &'static str, name: String, problem: String, hint: &'static str },
    #[error(
        "Lambda did not return the response of the function {name}: {problem}; the function may have run or still be running, so the request was not sent again: look at a plan or the function's log before you repeat it"
    )]
    NoResponse { name: String, problem: String },
    #[error("the function {name} failed with {kind}: {message}")]
    Failed { name: String, kind: String, message: String },
    #[error("the response of the function {0} is not JSON")]
    NotJson(String, #[source] serde_json::Error),
    #[error("Lambda did not return the settings of the function {name}: {problem}")]
    NoSettings { name: String, problem: String },
    #[error("the settings {source_of} cannot be used")]
    Settings {
        source_of: String,
        #[source]
        source: LoadError,
    },
    #[error("{}", .0.kind())]
    FailedHere(#[source] FunctionError),
}

/// A command for the function. `payload` serialises it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionRequest {
    pub action: &'static str,
    #[serde(flatten)]
    pub scope: RequestedScope,
    /// The former owner id of the instances to adopt.
    pub owner: Option<String>,
    /// The Cloud Map to purge, as `ACCOUNT/REGION`. `None` for every Cloud Map in the settings.
    pub registry: Option<String>,
    /// Whether a purge removes only the exports and imports of the cluster.
    #[serde(skip_serializing_if = "Not::not")]
    pub clusterset: bool,
    /// Whether to carry out the plan.
    #[serde(skip_serializing_if = "Not::not")]
    pub confirm: bool,
    /// Whether the status has only the Cloud Map services that this installation created and that have no instance.
    #[serde(skip_serializing_if = "Not::not")]
    pub created: bool,
}

impl FunctionRequest {
    /// Returns a command with no optional field set.
    pub fn new(action: &'static str, scope: RequestedScope) -> Self {
        Self { action, scope, ..Self::default() }
    }

    /// Whether the action writes, if the other fields let it.
    fn can_write(&self) -> bool {
        matches!(self.action, "adopt" | "confirm" | "purge" | "sync")
    }

    /// Returns the payload. It has the Region only for an action that writes: the function then refuses a cluster of
    /// the same name in another Region. The other actions do not accept a Region. Their answers show the cluster's ARN.
    pub fn payload(&self) -> Value {
        let mut command = self.clone();
        if !self.can_write() {
            command.scope.region = None;
        }
        json!(command)
    }
}

impl fmt::Display for FunctionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.action, self.scope)
    }
}

/// Runs a command, and shows its progress.
pub async fn request(aws: &Aws, command: &FunctionRequest) -> Result<Value, Error> {
    let config = sdk_config(aws).await;
    let named = aws.function.as_ref();
    let deployed = named.map(|name| Deployed::new(&config, name, aws.qualifier.as_deref()));
    let runner = match &deployed {
        Some(function) if !aws.local => format!("by {function}"),
        Some(function) => format!("in this process, with the settings of {function}"),
        None => "in this process".to_owned(),
    };
    let run = async {
        match &deployed {
            Some(function) if !aws.local => function.invoke(command).await,
            deployed => Box::pin(run_here(config, deployed.as_ref(), &command.payload())).await,
        }
    };
    let answer = show_during(&format!("{command} {runner}"), run).await?;
    if let Some(hint) = hint(&answer) {
        print_error(&hint);
    }
    Ok(answer)
}

/// Returns the SDK's configuration, from the environment and the options.
async fn sdk_config(aws: &Aws) -> SdkConfig {
    let mut loader = cloud_map_sync::clients::sdk_config();
    if let Some(profile) = &aws.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &aws.region {
        loader = loader.region(Region::new(region.clone()));
    }
    loader.load().await
}

/// Runs the function once in this process, with the settings of `deployed`, or of the environment if it is `None`.
async fn run_here(
    config: SdkConfig,
    deployed: Option<&Deployed>,
    payload: &Value,
) -> Result<Value, Error> {
    let (source_of, configuration) = match deployed {
        Some(function) => (format!("of the function {function}"), function.configuration().await?),
        None => ("in the environment".to_owned(), Configuration::of_process()),
    };
    let variable = |name: &str| configuration.environment.get(name).cloned();
    let function_arn = configuration.function_arn.as_deref();
    let settings = Box::pin(settings::load(variable, function_arn, &config)).await;
    let settings = settings.map_err(|source| Error::Settings { source_of, source })?;
    // No alias is invoked here: IAM checks the credentials of the terminal instead.
    let settings = Settings { admin_alias: None, ..settings };
    let function = Function::new(settings, config);
    let timeout = configuration.timeout.unwrap_or(TIMEOUT);
    let reply = Box::pin(function.reply(None, payload, Deadline::after(timeout))).await;
    reply.into_body().map(|body| json!(body)).map_err(Error::FailedHere)
}

struct Configuration {
    environment: BTreeMap<String, String>,
    /// The timeout of the function. `None` without a deployed function.
    timeout: Option<Duration>,
    /// The ARN of the function. `None` without a deployed function.
    function_arn: Option<String>,
}

impl Configuration {
    fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment = std::env::vars_os().filter_map(text).collect();
        Self { environment, timeout: None, function_arn: None }
    }
}

/// A function by name or ARN, with an optional version or alias.
struct Deployed {
    client: Client,
    name: String,
    qualifier: Option<String>,
}

/// The payload that Lambda returns instead of a response if the function failed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FunctionFailure {
    error_type: String,
    error_message: String,
}

impl Default for FunctionFailure {
    fn default() -> Self {
        let error_message = "the cause is in its log".to_owned();
        Self { error_type: "an error".to_owned(), error_message }
    }
}

impl Deployed {
    fn new(config: &SdkConfig, name: &str, qualifier: Option<&str>) -> Self {
        // The connection has no traffic while the function runs, so no shorter timeout may end it.
        let timeouts = config.timeout_config().map_or_else(TimeoutConfig::builder, |timeouts| {
            timeouts.to_builder().operation_attempt_timeout(LONGEST_RUN)
        });
        let config = aws_sdk_lambda::config::Builder::from(config)
            .timeout_config(timeouts.build())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        let name = name.to_owned();
        let qualifier = qualifier.map(str::to_owned);
        Self { client: Client::from_conf(config), name, qualifier }
    }

    async fn invoke(&self, command: &FunctionRequest) -> Result<Value, Error> {
        let mut client = self.client.clone();
        if command.can_write() {
            let config = client.config().to_builder().retry_classifier(RetryIfThrottled);
            client = Client::from_conf(config.build());
        }
        let invoke = client.invoke().function_name(&self.name);
        let invoke = invoke.set_qualifier(self.qualifier.clone());
        let sent = invoke.payload(Blob::new(command.payload().to_string())).send().await;
        let answer = sent.map_err(|error| {
            if command.can_write() && may_have_run(&error) {
                let problem = answer_of(&error);
                return Error::NoResponse { name: self.name.clone(), problem };
            }
            self.refused("invoke", &error)
        })?;
        let payload = answer.payload().map(Blob::as_ref).unwrap_or_default();
        if answer.function_error().is_some() {
            let failure: FunctionFailure = serde_json::from_slice(payload).unwrap_or_default();
            let FunctionFailure { error_type: kind, error_message: message } = failure;
            return Err(Error::Failed { name: self.name.clone(), kind, message });
        }
        serde_json::from_slice(payload).map_err(|error| Error::NotJson(self.name.clone(), error))
    }

    async fn configuration(&self) -> Result<Configuration, Error> {
        let read = self.client.get_function_configuration().function_name(&self.name);
        let read = read.set_qualifier(self.qualifier.clone()).send().await;
        let answer = read.map_err(|error| self.refused("read the settings of", &error))?;
        let environment = answer.environment();
        if let Some(error) = environment.and_then(|environment| environment.error()) {
            let name = self.name.clone();
            let problem = error.message().unwrap_or("no reason given");
            return Err(Error::NoSettings { name, problem: problem.to_owned() });
        }
        let variables = environment.and_then(|environment| environment.variables());
        let timeout = answer.timeout().and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Configuration {
            environment: variables.cloned().unwrap_or_default().into_iter().collect(),
            timeout: timeout.map(Duration::from_secs),
            function_arn: answer.function_arn().map(str::to_owned),
        })
    }

    fn refused<E>(&self, action: &'static str, error: &SdkError<E>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let hint = match error.as_service_error().and_then(ProvideErrorMetadata::code) {
            Some("ResourceNotFoundException") => "; check --region and --profile",
            Some("AccessDeniedException") => {
                "; this needs lambda:InvokeFunction, or with --local lambda:GetFunctionConfiguration"
            }
            Some("TooManyRequestsException") => "; the function did not run: try again later",
            _ => "",
        };
        Error::Refused { action, name: self.name.clone(), problem: answer_of(error), hint }
    }
}

impl fmt::Display for Deployed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.qualifier.iter().try_for_each(|qualifier| write!(f, ":{qualifier}"))
    }
}

/// Lets the SDK send a request again only if Lambda throttled it (429), since then the function did not run. After a
/// timeout, a lost connection or an error of Lambda, a second request could start a second run beside the first.
#[derive(Debug)]
struct RetryIfThrottled;

impl ClassifyRetry for RetryIfThrottled {
    fn name(&self) -> &'static str {
        "RetryIfThrottled"
    }

    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        match context.response().map(|response| response.status().as_u16()) {
            Some(429) => RetryAction::throttling_error(),
            _ => RetryAction::RetryForbidden,
        }
    }
}

/// Whether the function may have run although the request failed.
fn may_have_run<E>(error: &SdkError<E>) -> bool {
    match error {
        SdkError::TimeoutError(_) | SdkError::ResponseError(_) => true,
        SdkError::DispatchFailure(failure) => failure.is_io() || failure.is_timeout(),
        _ => error.raw_response().is_some_and(|response| response.status().is_server_error()),
    }
}

/// Returns a hint if the function has another release than the plugin. The plugin can read answers of other releases,
/// but its tables may lack new fields.
fn hint(answer: &Value) -> Option<String> {
    let function_release = answer["release"].as_str().filter(|release| *release != RELEASE)?;
    Some(format!(
        "note: the function's release is {function_release}, and this plugin's is {RELEASE}: some lines may be missing here; install the plugin of the function's release"
    ))
}

/// Moves the cursor to the start of the line, and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// Waits for the work, and shows its label and the elapsed time meanwhile.
async fn show_during<T>(label: &str, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let label = escape(label, Output::Terminal);
    let start = Instant::now();
    let mut every = interval(Duration::from_secs(1));
    let _line = TerminalLine;
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = every.tick() => {
                write_terminal(&format!("{CLEAR}{label} … {} s", start.elapsed().as_secs()));
            }
        }
    }
}

/// The progress line of the work. It is cleared when the work ends or is dropped by a timeout.
struct TerminalLine;

impl Drop for TerminalLine {
    fn drop(&mut self) {
        write_terminal(CLEAR);
    }
}

/// Writes to the terminal. An error is ignored, since the command must not fail for it.
fn write_terminal(text: &str) {
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::operation::invoke::InvokeError;

    use super::*;
    use cloud_map_sync::event::{self, Payload};

    #[test]
    fn the_function_reads_each_command_as_intended() {
        let scope = |cluster: Option<&str>, namespace: Option<&str>, service: Option<&str>| {
            let [cluster, namespace, service] =
                [cluster, namespace, service].map(|name| name.map(str::to_owned));
            RequestedScope { cluster, namespace, service, region: None }
        };
        let rows = [
            ("plan", scope(None, None, None), "plan every cluster"),
            ("sync", scope(Some("blue"), None, None), "sync blue"),
            ("plan", scope(Some("blue"), Some("shop"), None), "plan blue/shop"),
            ("sync", scope(Some("blue"), Some("shop"), Some("web")), "sync blue/shop/web"),
        ];
        for (action, scope, meant) in rows {
            let command = read(&FunctionRequest::new(action, scope));
            assert_eq!(format!("{} {}", command.action, command.scope), meant);
        }
        let blue = scope(Some("blue"), None, None);
        let owner = Some("team-a".to_owned());
        let adopt = read(&FunctionRequest { owner, ..FunctionRequest::new("adopt", blue.clone()) });
        assert_eq!((adopt.owner.as_deref(), adopt.is_confirmed), (Some("team-a"), false));
        let registry = Some("111122223333/eu-central-1".to_owned());
        let purge = FunctionRequest {
            registry,
            clusterset: true,
            confirm: true,
            ..FunctionRequest::new("purge", blue.clone())
        };
        let purge = read(&purge);
        assert!(purge.registry.is_some() && purge.only_clusterset);
        assert_eq!((purge.scope.to_string().as_str(), purge.is_confirmed), ("blue", true));
        assert_eq!(read(&FunctionRequest::new("confirm", blue.clone())).scope.to_string(), "blue");
        let created = |created| {
            read(&FunctionRequest { created, ..FunctionRequest::new("status", blue.clone()) })
        };
        assert_eq!([created(false).only_unused, created(true).only_unused], [false, true]);
        let region = Some("eu-west-1".to_owned());
        let blue = RequestedScope { region: region.clone(), ..blue };
        let region_of = |action| read(&FunctionRequest::new(action, blue.clone())).region;
        for action in ["adopt", "confirm", "purge", "sync"] {
            assert_eq!(region_of(action), region, "{action}");
        }
        for action in ["plan", "status", "doctor"] {
            assert_eq!(region_of(action), None, "{action}");
        }
    }

    fn read(command: &FunctionRequest) -> event::Command {
        match event::read(&command.payload()) {
            Ok(Payload::Direct(read)) => read,
            other => panic!("{command}: {other:?}"),
        }
    }

    #[test]
    fn function_may_have_run_unless_the_request_was_never_sent() {
        let timeout = SdkError::<InvokeError>::timeout_error("no response in time");
        let not_sent = SdkError::<InvokeError>::construction_failure("no such Region");
        assert_eq!([may_have_run(&timeout), may_have_run(&not_sent)], [true, false]);
    }

    #[test]
    fn another_release_is_named_beside_that_of_the_plugin() {
        assert_eq!(hint(&json!({"release": RELEASE})), None);
        let hint = hint(&json!({"release": "9.9.9"})).expect("a hint");
        assert!(hint.contains("is 9.9.9, ") && hint.contains(RELEASE), "{hint}");
    }
}
