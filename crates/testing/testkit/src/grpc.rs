//! A gRPC server for tests on a unix socket, for unary calls.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// A message, or a gRPC code with its message.
pub(crate) type Answer = Result<Vec<u8>, (u8, String)>;

type Handler = dyn Fn(&str, &[u8]) -> Answer + Send + Sync;

/// A running server, until dropped.
pub(crate) struct GrpcServer(JoinHandle<()>);

impl GrpcServer {
    /// Listens on a socket at this path. The handler gets the last part of the method's name.
    pub(crate) fn start(socket: &Path, handler: impl Fn(&str, &[u8]) -> Answer + Send + Sync + 'static) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        Self(tokio::spawn(serve(listener, Arc::new(handler))))
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: UnixListener, handler: Arc<Handler>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let handler = Arc::clone(&handler);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&handler), request));
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Body = StreamBody<futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn answer(handler: Arc<Handler>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let method = path.rsplit('/').next().unwrap_or_default();
    let mut trailers = HeaderMap::new();
    let mut frames = Vec::new();
    // One byte of flags, four of length, then the message.
    match handler(method, body.get(5..).unwrap_or_default()) {
        Ok(message) => {
            let mut framed = BytesMut::new();
            framed.put_u8(0);
            framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
            framed.extend_from_slice(&message);
            frames.push(Ok(Frame::data(framed.freeze())));
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
        }
        Err((code, words)) => {
            trailers.insert("grpc-status", HeaderValue::from(u16::from(code)));
            trailers.insert("grpc-message", HeaderValue::from_str(&words).unwrap());
        }
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let mut response = Response::new(StreamBody::new(futures::stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// Parses the length-delimited fields of a protobuf message without others.
pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
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

/// Makes a message of length-delimited fields.
pub(crate) fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in fields {
        out.push(tag << 3 | 2);
        put_varint(&mut out, value.len() as u64);
        out.extend_from_slice(value);
    }
    out
}

/// Makes a field with a number.
pub(crate) fn number(tag: u8, value: u64) -> Vec<u8> {
    let mut out = vec![tag << 3];
    put_varint(&mut out, value);
    out
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
