//! The HTTP server of one task or pod, on its own address: it answers each request with that address, and calls of gRPC
//! beside. It ends as a program ends: gracefully, at once, or with its node.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, Response};
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// The port of every task and pod.
pub const PORT: u16 = 8080;

/// A running server.
pub struct Server {
    address: Ipv4Addr,
    ends: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on the address of a task or pod.
    pub async fn start(address: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((address, PORT)).await;
        let listener = listener.unwrap_or_else(|error| panic!("{address}: {error}"));
        let ends = Arc::new(Notify::new());
        let task = tokio::spawn(serve(listener, address, ends.clone()));
        Self { address, ends, task }
    }

    /// Ends as after SIGTERM: no new connection, and the open ones end after the request that is under way.
    pub async fn stop(self) {
        self.ends.notify_one();
        let _ = self.task.await;
    }

    /// Ends as after SIGKILL: all connections break.
    pub fn kill(self) {
        self.task.abort();
    }

    /// Its node is gone: no packet reaches it any more.
    pub fn lose(self) {
        crate::network::lose(self.address);
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, address: Ipv4Addr, ends: Arc<Notify>) {
    let graceful = GracefulShutdown::new();
    // Aborting the server drops this set, which closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ends.notified() => break,
        };
        let Ok((stream, _)) = accepted else { continue };
        let builder = Builder::new(TokioExecutor::new());
        let service = service_fn(move |request: Request<hyper::body::Incoming>| async move {
            Ok::<_, std::convert::Infallible>(answer(&request, address))
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        connections.spawn(graceful.watch(connection));
    }
    drop(listener);
    graceful.shutdown().await;
}

fn answer(request: &Request<hyper::body::Incoming>, address: Ipv4Addr) -> Response<Body> {
    let is_grpc =
        request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/grpc");
    let text = address.to_string();
    if !is_grpc {
        return Response::new(Body::from(text));
    }
    // <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>: a flag, the length, the message; the status
    // comes behind.
    let length = u32::try_from(text.len()).expect("an address is short");
    let mut message = vec![0];
    message.extend(length.to_be_bytes());
    message.extend(text.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().expect("a header"));
    let frames: [Result<_, std::convert::Infallible>; 2] =
        [Ok(Frame::data(Bytes::from(message))), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(Body::new(StreamBody::new(stream::iter(frames))));
    let kind = "application/grpc".parse().expect("a header");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
