//! A KMS plugin for tests: the three calls of its API over gRPC on a unix socket. It "encrypts" by turning bits around,
//! which is enough to see that what it was given and what comes back belong together.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// A running plugin. It ends with the value.
pub struct KmsPlugin {
    socket: PathBuf,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    key_id: Mutex<String>,
    healthz: Mutex<String>,
    encrypted: AtomicUsize,
    decrypted: AtomicUsize,
}

impl KmsPlugin {
    /// Listens on a socket of that path.
    ///
    /// # Panics
    /// When the socket cannot be made.
    #[must_use]
    pub fn start(socket: &Path) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(State {
            key_id: Mutex::new("key-1".to_owned()),
            healthz: Mutex::new("ok".to_owned()),
            encrypted: AtomicUsize::new(0),
            decrypted: AtomicUsize::new(0),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self { socket: socket.to_owned(), state, task }
    }

    /// As a configuration file names it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// From now on this is the current key.
    pub fn rotate(&self, key_id: &str) {
        *self.state.key_id.lock() = key_id.to_owned();
    }

    /// What it says of its health, `ok` at first.
    pub fn health(&self, text: &str) {
        *self.state.healthz.lock() = text.to_owned();
    }

    /// How often it was asked to encrypt and to decrypt.
    #[must_use]
    pub fn asked(&self) -> (usize, usize) {
        (self.state.encrypted.load(Ordering::SeqCst), self.state.decrypted.load(Ordering::SeqCst))
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: UnixListener, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&state), request));
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Body = StreamBody<futures::stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    // A message is one byte of flags and four of length, then itself.
    let fields = fields(body.get(5..).unwrap_or_default());
    let field = |tag: u64| fields.iter().find(|(t, _)| *t == tag).map_or(&[][..], |(_, value)| value);
    let key_id = state.key_id.lock().clone();
    let (status, message) = match path.rsplit('/').next() {
        Some("Status") => {
            let healthz = state.healthz.lock().clone();
            ("0", message(&[(1, b"v2"), (2, healthz.as_bytes()), (3, key_id.as_bytes())]))
        }
        Some("Encrypt") => {
            state.encrypted.fetch_add(1, Ordering::SeqCst);
            let sealed = [key_id.as_bytes(), b"|", &*turned(field(1))].concat();
            let note = message(&[(1, b"version.kms.example.com"), (2, b"1")]);
            ("0", message(&[(1, &sealed), (2, key_id.as_bytes()), (3, &note)]))
        }
        Some("Decrypt") => {
            state.decrypted.fetch_add(1, Ordering::SeqCst);
            let ours = [field(3), b"|"].concat();
            match field(1).strip_prefix(&*ours) {
                Some(sealed) if field(4) == message(&[(1, b"version.kms.example.com"), (2, b"1")]) => {
                    ("0", message(&[(1, &turned(sealed))]))
                }
                _ => ("3", Vec::new()),
            }
        }
        _ => ("12", Vec::new()),
    };
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    let frames = [Ok(Frame::data(framed.freeze())), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(StreamBody::new(futures::stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// The length-delimited fields of a protobuf message; there are no others here.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while bytes.has_remaining() {
        let tag = varint(&mut bytes) >> 3;
        let length = usize::try_from(varint(&mut bytes)).unwrap_or(usize::MAX).min(bytes.len());
        fields.push((tag, bytes[..length].to_vec()));
        bytes.advance(length);
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        if !bytes.has_remaining() {
            break;
        }
        let byte = bytes.get_u8();
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in fields {
        out.push(tag << 3 | 2);
        let mut length = value.len();
        while length >= 0x80 {
            out.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(value);
    }
    out
}
