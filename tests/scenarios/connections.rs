//! Connections that get no answer: an address of a name that drops packets, and a peer that goes away while Lambda has
//! frozen the process. Tokio's clock is paused, so the timeouts cost no time.

use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_credential_types::Credentials;
use aws_smithy_async::time::{SharedTimeSource, TimeSource};
use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, SharedDnsResolver};
use cloud_map_sync::clients::sdk_config;
use cloud_map_sync::connections::{LONGEST_PAUSE, aws_client};
use cloud_map_sync::kubernetes::transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

/// Every name has these addresses, in this order.
#[derive(Debug)]
struct Names(Vec<IpAddr>);

impl Names {
    fn of(addresses: &[&str]) -> SharedDnsResolver {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address"));
        SharedDnsResolver::new(Self(addresses.collect()))
    }
}

impl ResolveDns for Names {
    fn resolve_dns<'a>(&'a self, _name: &'a str) -> DnsFuture<'a> {
        DnsFuture::ready(Ok(self.0.clone()))
    }
}

/// The wall clock, which only a test advances.
#[derive(Clone, Debug)]
struct WallClock(Arc<Mutex<SystemTime>>);

impl WallClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(SystemTime::now())))
    }

    fn advance(&self, time: Duration) {
        *self.0.lock().expect("no poisoned lock") += time;
    }
}

impl TimeSource for WallClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().expect("no poisoned lock")
    }
}

const LIVE: &str = "127.0.0.1";
const DEAD: &str = "127.0.0.2";

/// A server at an address of its own, which gives so many answers on each connection and then reads on in silence.
struct Server {
    port: u16,
}

impl Server {
    async fn start(answers_per_connection: usize) -> Self {
        let listener = TcpListener::bind((LIVE, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, answers_per_connection));
            }
        });
        Self { port }
    }

    /// Drops the packets of new connections to the other address, as long as the result lives: the queue of its
    /// listener is full.
    fn drop_packets_of_other_address(&self) -> (TcpListener, [TcpStream; 2]) {
        let socket = TcpSocket::new_v4().expect("a socket");
        let address = format!("{DEAD}:{}", self.port);
        socket.bind(address.parse().expect("an address")).expect("another address of loopback");
        let listener = socket.listen(1).expect("a listener");
        let connect = || TcpStream::connect(&address).expect("room in the queue");
        (listener, [connect(), connect()])
    }
}

async fn serve(mut connection: tokio::net::TcpStream, answers: usize) {
    let body = "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account>\
                </GetCallerIdentityResult></GetCallerIdentityResponse>";
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut given = 0;
    let mut received = vec![0; 16 * 1024];
    // Each request is small enough to arrive at once.
    while connection.read(&mut received).await.is_ok_and(|length| length > 0) {
        if given < answers {
            connection.write_all(answer.as_bytes()).await.expect("the client reads");
            given += 1;
        }
    }
}

/// A client of AWS, which reaches the server by a name with these addresses.
async fn aws(server: &Server, addresses: &[&str], clock: WallClock) -> aws_sdk_sts::Client {
    let config = sdk_config()
        .http_client(aws_client(Names::of(addresses)))
        .credentials_provider(Credentials::new("AKIDEXAMPLE", "secret", None, None, "test"))
        .region(Region::new("eu-central-1"))
        .endpoint_url(format!("http://aws.test:{}", server.port))
        .time_source(clock)
        .load();
    aws_sdk_sts::Client::new(&config.await)
}

/// A client of an API server, which it reaches by a name with these addresses.
fn kubernetes(server: &Server, addresses: &[&str], clock: WallClock) -> kube::Client {
    let url = format!("http://kubernetes.test:{}", server.port);
    let mut config = kube::Config::new(url.parse().expect("a URL"));
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(30));
    let clock = SharedTimeSource::new(clock);
    let builder = transport::builder(config, Names::of(addresses), LONGEST_PAUSE, clock);
    builder.expect("a valid configuration").build()
}

async fn call_aws(aws: &aws_sdk_sts::Client) {
    let answer = aws.get_caller_identity().send().await.expect("an answer");
    assert_eq!(answer.account(), Some("111122223333"));
}

async fn call_kubernetes(kubernetes: &kube::Client) {
    let request = http::Request::get("/version").body(Vec::new()).expect("a request");
    let answer = kubernetes.request_text(request).await.expect("an answer");
    assert!(answer.contains("111122223333"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn if_an_address_drops_packets_aws_is_reached_by_another_one() {
    let server = Server::start(usize::MAX).await;
    let _full = server.drop_packets_of_other_address();
    let aws = aws(&server, &[DEAD, LIVE], WallClock::new()).await;
    call_aws(&aws).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_dropped_packets_is_tried_last_by_later_connections() {
    let server = Server::start(usize::MAX).await;
    let _full = server.drop_packets_of_other_address();
    let clock = WallClock::new();
    let aws = aws(&server, &[DEAD, LIVE], clock.clone()).await;
    call_aws(&aws).await;
    clock.advance(LONGEST_PAUSE * 2);
    let before = tokio::time::Instant::now();
    call_aws(&aws).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn if_an_address_drops_packets_the_api_server_is_reached_by_another_one() {
    let server = Server::start(usize::MAX).await;
    let _full = server.drop_packets_of_other_address();
    call_kubernetes(&kubernetes(&server, &[DEAD, LIVE], WallClock::new())).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_freeze_aws_is_called_on_a_new_connection() {
    let server = Server::start(1).await;
    let clock = WallClock::new();
    let aws = aws(&server, &[LIVE], clock.clone()).await;
    call_aws(&aws).await;
    clock.advance(LONGEST_PAUSE * 2);
    let before = tokio::time::Instant::now();
    call_aws(&aws).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn after_a_freeze_an_api_server_is_called_on_a_new_connection() {
    let server = Server::start(1).await;
    let clock = WallClock::new();
    let kubernetes = kubernetes(&server, &[LIVE], clock.clone());
    call_kubernetes(&kubernetes).await;
    clock.advance(LONGEST_PAUSE * 2);
    let before = tokio::time::Instant::now();
    call_kubernetes(&kubernetes).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn within_an_invocation_a_connection_is_reused() {
    let server = Server::start(2).await;
    let clock = WallClock::new();
    let kubernetes = kubernetes(&server, &[LIVE], clock.clone());
    call_kubernetes(&kubernetes).await;
    clock.advance(LONGEST_PAUSE);
    call_kubernetes(&kubernetes).await;
    // The third request on one connection gets no answer.
    let request = http::Request::get("/version").body(Vec::new()).expect("a request");
    kubernetes.request_text(request).await.expect_err("the same connection");
}
