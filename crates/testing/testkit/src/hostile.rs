//! A plain HTTP server like one in a pod, whose answers have no end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flate2::{Compression, FlushCompress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running server, until dropped.
pub struct Hostile {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Hostile {
    /// The paths of the answers.
    pub const PATHS: [&'static str; 4] = ["digits", "spaces", "informational", "page"];

    /// Starts it on a free port. `/digits` and `/spaces` have no end in the size of a chunk, `/informational` is no
    /// final answer, and `/page` is a compressed page that unpacks to a thousand times its size.
    pub async fn start(ip: IpAddr) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let zeros: Arc<[u8]> = zeros().into();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, zeros.clone()));
            }
        });
        Self { address, task }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a compressed megabyte of zeros, which may be repeated.
fn zeros() -> Vec<u8> {
    let mut compress = flate2::Compress::new(Compression::best(), false);
    let mut packed = Vec::with_capacity(64 << 10);
    compress.compress_vec(&vec![0; 1 << 20], &mut packed, FlushCompress::Full).unwrap();
    packed
}

async fn answer(mut stream: TcpStream, zeros: Arc<[u8]>) {
    let mut request = vec![0; 8 << 10];
    let Ok(read) = stream.read(&mut request).await else { return };
    let request = String::from_utf8_lossy(&request[..read]).into_owned();
    let target = request.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().trim_start_matches('/').to_owned();
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (begin, pattern): (Vec<u8>, &[u8]) = match path.as_str() {
        "digits" => (chunked.into(), b"0"),
        "spaces" => (format!("{chunked}1").into(), b" "),
        "informational" => (Vec::new(), b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        _ => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n";
            let begin = [head.as_bytes(), &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]].concat();
            (begin, &zeros)
        }
    };
    let endless = pattern.repeat(1 + (64 << 10) / pattern.len());
    let mut next = begin;
    while stream.write_all(&next).await.is_ok() {
        next.clone_from(&endless);
    }
}
