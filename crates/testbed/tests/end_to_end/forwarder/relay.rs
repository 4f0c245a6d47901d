//! The network between the forwarder and the API server, which a test can cut. TLS goes through it
//! untouched.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A running relay; it ends with the tokio runtime.
pub struct Relay {
    address: SocketAddr,
    whole: watch::Sender<bool>,
}

impl Relay {
    /// Starts a relay to `https://host:port`.
    pub async fn start(endpoint: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the bound address");
        let upstream = endpoint.trim_start_matches("https://").to_owned();
        let (whole, is_whole) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(carry(connection, upstream.clone(), is_whole.clone()));
            }
        });
        Self { address, whole }
    }

    /// Where the forwarder finds the API server.
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Ends every connection, and each new one at once.
    pub fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn carry(mut near: TcpStream, upstream: String, mut is_whole: watch::Receiver<bool>) {
    if !*is_whole.borrow() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(&upstream).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = is_whole.wait_for(|whole| !whole) => {}
    }
}
