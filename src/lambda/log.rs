//! The log: JSON lines with the keys of Powertools for AWS Lambda, or plain text. Level and format are those of
//! Lambda's logging controls (`AWS_LAMBDA_LOG_LEVEL`, `AWS_LAMBDA_LOG_FORMAT`).

use json_subscriber::JsonLayer;
use serde_json::json;
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter, time::SystemTime};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The log as the environment configures it, written to `output`. `variable` reads an environment variable.
pub fn subscriber<W>(variable: impl Fn(&str) -> Option<String>, output: W) -> impl Subscriber
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = variable("AWS_LAMBDA_LOG_LEVEL").or_else(|| variable("RUST_LOG"));
    let level = level.and_then(|text| text.parse().ok()).unwrap_or(LevelFilter::INFO);
    // At TRACE the signer logs the session token of each presigned URL.
    let filter = Targets::new().with_default(level).with_target("aws_sigv4", LevelFilter::INFO);
    let json = variable("AWS_LAMBDA_LOG_FORMAT").is_some_and(|it| it.eq_ignore_ascii_case("json"));
    let lines = if json {
        json_lines(variable, output).boxed()
    } else {
        fmt::layer().with_target(false).without_time().with_writer(output).boxed()
    };
    Registry::default().with(lines).with(filter)
}

fn json_lines<S, W>(variable: impl Fn(&str) -> Option<String>, output: W) -> JsonLayer<S, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    let mut lines = JsonLayer::new(output);
    lines.with_level("level");
    lines.with_timer("timestamp", SystemTime);
    lines.with_flattened_event();
    lines.with_top_level_flattened_span_list();
    lines.add_static_field("service", json!("cloud-map-sync"));
    for (key, name) in [
        ("function_name", "AWS_LAMBDA_FUNCTION_NAME"),
        ("function_memory_size", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
    ] {
        if let Some(value) = variable(name) {
            lines.add_static_field(key, json!(value));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing::{debug, info, info_span};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_lines(variables: &'static [(&str, &str)]) -> String {
        let written = Written::default();
        let output = written.clone();
        let variable = move |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let subscriber = subscriber(variable, move || output.clone());
        tracing::subscriber::with_default(subscriber, || {
            let span = info_span!("invocation", function_request_id = "r-1", cold_start = true);
            let _entered = span.enter();
            info!(cluster = "blue", "done");
            debug!("detail");
        });
        let bytes = written.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn json_lines_have_the_keys_of_powertools_on_top() {
        let text = log_lines(&[
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ("AWS_LAMBDA_FUNCTION_NAME", "sync"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ]);
        let line: Value = serde_json::from_str(text.trim()).expect("one line of JSON");
        let expected = [
            ("level", "INFO"),
            ("message", "done"),
            ("service", "cloud-map-sync"),
            ("function_name", "sync"),
            ("function_memory_size", "256"),
            ("function_request_id", "r-1"),
            ("cluster", "blue"),
        ];
        for (key, value) in expected {
            assert_eq!(line[key], value, "{key} in {line}");
        }
        assert_eq!(line["cold_start"], true);
        assert!(line["timestamp"].is_string(), "{line}");
    }

    #[test]
    fn level_and_format_are_lambdas() {
        assert!(log_lines(&[("AWS_LAMBDA_LOG_LEVEL", "WARN"), ("RUST_LOG", "debug")]).is_empty());
        let text = log_lines(&[("RUST_LOG", "debug")]);
        assert_eq!(text.lines().count(), 2);
        assert!(serde_json::from_str::<Value>(text.lines().next().expect("a line")).is_err());
    }
}
