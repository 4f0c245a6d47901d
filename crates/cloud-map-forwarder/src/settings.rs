//! The forwarder's settings: environment variables, parsed once into a typed value. All mistakes are reported together,
//! as in the function. The SDK reads `AWS_*`; `RUST_LOG` is the log level.

use cloud_map_sync::event::ClusterName;
use cloud_map_sync::model::Documented;
use cloud_map_sync::settings::{
    ANNOTATION_PREFIX, Mistakes, MultiCluster, Reader, annotation_prefix, parse_multi_cluster,
};

/// The settings of a forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwarderSettings {
    /// `QUEUE_URL`: the function's queue.
    pub queue: QueueUrl,
    /// `CLUSTER`: the cluster's name in the messages.
    pub cluster: String,
    /// `ANNOTATION_PREFIX`: the prefix of the annotations on Services, `/` included.
    pub annotation_prefix: String,
    /// `MULTI_CLUSTER`: whether exported Services are followed.
    pub multi_cluster: MultiCluster,
    /// `PROBE_PORT`: the port for `/livez`, `/readyz` and `/metrics`.
    pub probe_port: u16,
}

/// A queue's URL, with its endpoint and Region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUrl {
    /// The whole URL, which identifies the queue in requests.
    pub url: String,
    /// The scheme, host and port of the URL. Requests go there, so that VPC endpoints and all partitions work.
    pub endpoint: String,
    /// The Region that requests are signed for.
    pub region: String,
}

/// Every setting, in the order of the documentation.
pub const DOCUMENTED: [Documented; 5] = [
    Documented {
        name: "QUEUE_URL",
        meaning: "the function's queue, output `QueueUrl` of its stack; the Region is that of the URL, \
                  or `AWS_REGION` if the URL has none",
        default: "required",
        example: "https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync",
    },
    Documented {
        name: "CLUSTER",
        meaning: "the cluster's name or ARN, as in the function's setting `CLUSTERS`",
        default: "required",
        example: "blue",
    },
    Documented {
        name: "ANNOTATION_PREFIX",
        meaning: "the prefix of the annotations on Services, as in the function's setting",
        default: "`cloudmap.controller/`",
        example: "discovery.example.com/",
    },
    Documented {
        name: "MULTI_CLUSTER",
        meaning: "as in the function's setting; with `on` or `export`, Services with a ServiceExport are followed, too",
        default: "`off`",
        example: "on",
    },
    Documented {
        name: "PROBE_PORT",
        meaning: "the port on which `/livez`, `/readyz` and `/metrics` are answered; with `0` any free one, which the log names",
        default: "`8080`",
        example: "9090",
    },
];

/// The default of `PROBE_PORT`.
const PROBE_PORT: u16 = 8080;

impl ForwarderSettings {
    /// Reads the settings through `variable`, which returns the value of an environment variable.
    ///
    /// # Errors
    /// Returns all mistakes together.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Mistakes> {
        let region = variable("AWS_REGION");
        let mut reader = Reader::new(variable, &DOCUMENTED);
        let settings = Self {
            queue: reader.read_optional("QUEUE_URL", |text| queue(text, region.as_deref())),
            cluster: reader.read_optional("CLUSTER", cluster),
            annotation_prefix: reader.read_or(
                "ANNOTATION_PREFIX",
                ANNOTATION_PREFIX.to_owned(),
                annotation_prefix,
            ),
            multi_cluster: reader.read("MULTI_CLUSTER", parse_multi_cluster),
            probe_port: reader.read_or("PROBE_PORT", PROBE_PORT, port),
        };
        reader.finish(settings)
    }
}

fn cluster(text: Option<&str>) -> Result<String, String> {
    let text = text
        .ok_or("it is not set, and the function needs it to identify the cluster of a message")?;
    let known = ClusterName::parse(text).map_err(|problem| problem.to_string())?;
    Ok(known.to_string())
}

/// Parses a port on which any user may listen on every node, or 0 for any free port.
fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| matches!(port, 0 | 1024..));
    port.ok_or_else(|| format!("{text:?} is not a port from 1024 to 65535, or 0 for any free one"))
}

fn queue(text: Option<&str>, region: Option<&str>) -> Result<QueueUrl, String> {
    let text = text.ok_or("it is not set, and the messages need a queue")?;
    let problem = || format!("{text:?} is not the URL of an SQS queue");
    let uri: http::Uri = text.parse().map_err(|_| problem())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(problem)?;
    let host = authority.host();
    let name = queue_name(uri.path()).filter(|_| uri.query().is_none()).ok_or_else(problem)?;
    // Every request contains a session token, so it must be encrypted.
    if !(scheme == "https" || scheme == "http" && is_loopback(host)) {
        return Err(format!("{text:?} does not begin with https://"));
    }
    // Only the suffix `.fifo` contains a dot.
    if name.contains('.') {
        return Err(format!(
            "{text:?} is a FIFO queue, and the function's queue is a standard queue"
        ));
    }
    let region = region_of(host)
        .or(region)
        .ok_or_else(|| format!("{text:?} contains no Region, and AWS_REGION is not set"))?;
    let endpoint = format!("{scheme}://{authority}");
    Ok(QueueUrl { url: text.to_owned(), endpoint, region: region.to_owned() })
}

/// Returns the name in a path such as `/111122223333/cloud-map-sync`, which has an account and a name.
fn queue_name(path: &str) -> Option<&str> {
    let (account, name) = path.strip_prefix('/')?.split_once('/')?;
    let account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    (account && !name.is_empty() && !name.contains('/')).then_some(name)
}

fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// Returns the Region in a host such as `sqs.REGION.amazonaws.com`, `vpce-ID.sqs.REGION.vpce.amazonaws.com`, or
/// `REGION.queue.amazonaws.com`.
fn region_of(host: &str) -> Option<&str> {
    let labels: Vec<&str> = host.split('.').collect();
    let at = |wanted: &str| labels.iter().position(|label| *label == wanted);
    match (at("sqs").or_else(|| at("sqs-fips")), at("queue")) {
        (Some(service), _) => labels.get(service + 1).copied().filter(|_| labels.len() > 3),
        (None, Some(queue)) => queue.checked_sub(1).map(|before| labels[before]),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ForwarderSettings, Mistakes> {
        ForwarderSettings::read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn region(url: &str) -> Result<String, String> {
        queue(Some(url), None).map(|queue| queue.region)
    }

    #[test]
    fn every_documented_example_is_accepted() {
        let settings = read(&DOCUMENTED.map(|setting| (setting.name, setting.example)));
        let settings = settings.expect("valid");
        assert_eq!(settings.queue.region, "eu-central-1");
        assert_eq!(settings.queue.endpoint, "https://sqs.eu-central-1.amazonaws.com");
        assert_eq!(settings.cluster, "blue");
        assert_eq!(settings.annotation_prefix, "discovery.example.com/");
        assert_eq!(settings.multi_cluster, MultiCluster::On);
        assert_eq!(settings.probe_port, 9090);
    }

    #[test]
    fn all_mistakes_are_reported_together_with_examples() {
        let mistakes = read(&[("QUEUE_URL", "cloud-map-sync"), ("ANNOTATION_PREFIX", "Upper/")]);
        let text = mistakes.expect_err("all are wrong").to_string().replace("; ", "\n");
        insta::assert_snapshot!(text, @r#"
        3 mistakes in the settings
        QUEUE_URL: "cloud-map-sync" is not the URL of an SQS queue (example: QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync)
        CLUSTER: it is not set, and the function needs it to identify the cluster of a message (example: CLUSTER=blue)
        ANNOTATION_PREFIX: "Upper/" is not a lower-case DNS name with a '/' at its end (example: ANNOTATION_PREFIX=discovery.example.com/)
        "#);
    }

    #[test]
    fn a_port_is_one_that_any_user_may_listen_on() {
        assert_eq!(PROBE_PORT, 8080);
        assert_eq!(port("1024"), Ok(1024));
        assert_eq!(port("0"), Ok(0));
        for wrong in ["", "1", "80", "1023", "65536", "-1", "http", " 8080"] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_queues_region_is_read_from_its_url() {
        let rows = [
            ("https://sqs.us-gov-west-1.amazonaws.com/111122223333/q", "us-gov-west-1"),
            ("https://sqs.cn-north-1.amazonaws.com.cn/111122223333/q", "cn-north-1"),
            ("https://vpce-0a1.sqs.eu-west-1.vpce.amazonaws.com/111122223333/q", "eu-west-1"),
            ("https://us-east-2.queue.amazonaws.com/111122223333/q", "us-east-2"),
            ("https://sqs-fips.us-east-1.amazonaws.com/111122223333/q", "us-east-1"),
        ];
        for (url, expected) in rows {
            assert_eq!(region(url).as_deref(), Ok(expected), "{url}");
        }
        let local = queue(Some("http://127.0.0.1:4566/111122223333/q"), Some("eu-west-3"));
        let local = local.expect("a queue on this machine");
        assert_eq!(local.endpoint.as_str(), "http://127.0.0.1:4566");
        assert_eq!(local.region.as_str(), "eu-west-3");
    }

    #[test]
    fn other_urls_than_a_standard_queue_over_tls_are_rejected() {
        let rows = [
            "https://sqs.eu-west-1.amazonaws.com/",
            "https://sqs.eu-west-1.amazonaws.com/111122223333",
            "https://sqs.eu-west-1.amazonaws.com/account/q",
            "https://sqs.eu-west-1.amazonaws.com/111122223333/q/more",
            "https://sqs.eu-west-1.amazonaws.com/111122223333/q?Action=SendMessage",
            "http://sqs.eu-west-1.amazonaws.com/111122223333/q",
            "ftp://sqs.eu-west-1.amazonaws.com/111122223333/q",
            "https://sqs.eu-west-1.amazonaws.com/111122223333/q.fifo",
            "https://queue.amazonaws.com/111122223333/q",
            "https://sqs.internal/111122223333/q",
            "/111122223333/q",
        ];
        for url in rows {
            assert!(region(url).is_err(), "{url}");
        }
    }
}
