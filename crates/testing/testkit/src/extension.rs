//! A server of an APIService, whose replies a test determines byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::hook::identity;

/// The reply to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Sends these bytes; the connection stays open.
    Answer(Vec<u8>),
    /// Sends these bytes, and closes the connection.
    Last(Vec<u8>),
    /// Sends these bytes, again and again.
    Endless(Vec<u8>),
    /// Sends nothing, and keeps the connection open.
    Silence,
}

impl Reply {
    /// 200 with a JSON document.
    #[must_use]
    pub fn json(body: &serde_json::Value) -> Self {
        Self::of(200, "application/json", &body.to_string())
    }

    /// A response with a body.
    #[must_use]
    pub fn of(code: u16, media_type: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {code} Code\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n");
        Self::Answer(format!("{head}{body}").into_bytes())
    }
}

/// An HTTP/1.1 server on a free port of this machine, until dropped. It reads no bodies. Its certificate is for
/// `localhost`.
pub struct Extension {
    pub address: SocketAddr,
    /// The authority that signed its certificate, as PEM.
    pub authority: String,
    seen: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Extension {
    /// Replies to the head of each request as `reply` determines.
    pub async fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let (authority, config) = identity(&["http/1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(config);
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (reply, noted) = (Arc::new(reply), seen.clone());
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, reply, noted) = (acceptor.clone(), reply.clone(), noted.clone());
                connections.spawn(async move {
                    let Ok(mut stream) = acceptor.accept(tcp).await else { return };
                    let mut read = Vec::new();
                    loop {
                        let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") else {
                            match stream.read_buf(&mut read).await {
                                Ok(0) | Err(_) => return,
                                Ok(_) => continue,
                            }
                        };
                        let head = String::from_utf8_lossy(&read[..end]).into_owned();
                        read.drain(..end + 4);
                        noted.lock().push(head.clone());
                        let (bytes, goes_on) = match reply(&head) {
                            Reply::Answer(bytes) => (bytes, true),
                            Reply::Last(bytes) => (bytes, false),
                            Reply::Silence => (Vec::new(), true),
                            Reply::Endless(bytes) => {
                                while stream.write_all(&bytes).await.is_ok() {}
                                return;
                            }
                        };
                        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                            return;
                        }
                        if !goes_on {
                            let _ = stream.shutdown().await;
                            return;
                        }
                    }
                });
            }
        });
        Self { address, authority, seen, accepting }
    }

    /// Returns the heads of all requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
