//! Compression of large responses for clients that accept gzip (kube-apiserver's feature gate APIResponseCompression).

use std::collections::VecDeque;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use binnacle_request::{Body, BoxError, Compressible, Pieces, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;

/// The size above which responses are compressed.
const COMPRESSION_THRESHOLD: usize = 128 * 1024;
/// The fastest level; higher levels hardly compress better (kubernetes issue 112296).
const LEVEL: u32 = 1;

/// Returns true if one of the encodings is exactly gzip. As in kube-apiserver, quality values are ignored here.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let first = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    first.split(',').any(|token| token.trim() == "gzip")
}

/// Returns the response for a client that accepts gzip, and the encoder for its body if the body is to be compressed. A
/// body that was read to determine its size remains complete.
pub(crate) async fn compress_if_large(response: Response) -> (Response, Option<Gzip>) {
    let encoded = response.headers().contains_key(CONTENT_ENCODING);
    if encoded || response.extensions().get::<Compressible>().is_none() {
        return (response, None);
    }
    let (mut parts, body) = response.into_parts();
    let (body, large) = match body.whole() {
        Some(whole) => (body, whole.len() > COMPRESSION_THRESHOLD),
        None => peek(body).await,
    };
    if !large {
        return (Response::from_parts(parts, body), None);
    }
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    parts.headers.remove(CONTENT_LENGTH);
    (Response::from_parts(parts, body), Some(Gzip::new()))
}

/// Reads the beginning of a body. Returns the complete body, and true if it is large.
async fn peek(mut body: Body) -> (Body, bool) {
    let mut frames = VecDeque::new();
    let mut size = 0;
    while size <= COMPRESSION_THRESHOLD {
        let Some(frame) = body.frame().await else { break };
        size += frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Pieces::len);
        frames.push_back(frame);
    }
    (Body::new(PeekedBody { frames, rest: body }), size > COMPRESSION_THRESHOLD)
}

/// A body whose beginning was read ahead.
struct PeekedBody {
    frames: VecDeque<Result<Frame<Pieces>, BoxError>>,
    rest: Body,
}

impl HttpBody for PeekedBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.is_end_stream()
    }
}

/// Compresses complete bytes.
pub(crate) fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Compresses a body as it is sent.
pub(crate) struct Gzip {
    /// `None` once the end has been written.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    fn new() -> Self {
        Self { encoder: Some(GzEncoder::new(Vec::new(), Compression::new(LEVEL))) }
    }

    /// Compresses pieces. Returns the bytes to send, if any are available.
    pub(crate) fn pieces(&mut self, data: &Pieces) -> Result<Option<Bytes>, BoxError> {
        let Some(encoder) = &mut self.encoder else { return Ok(None) };
        data.iter().try_for_each(|piece| encoder.write_all(piece))?;
        let ready = std::mem::take(encoder.get_mut());
        Ok((!ready.is_empty()).then(|| ready.into()))
    }

    /// Finishes the compression. Returns the last bytes; empty if it was already finished.
    pub(crate) fn finish(&mut self) -> Result<Option<Bytes>, BoxError> {
        match self.encoder.take() {
            Some(encoder) => Ok(Some(encoder.finish()?.into())),
            None => Ok(None),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.encoder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn accepts_only_exact_gzip() {
        for (header, want) in [
            ("gzip", true),
            ("identity", false),
            ("deflate, gzip", true),
            ("br,gzip ,x", true),
            ("gzip;q=1.0", false),
            ("x-gzip", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(header))]);
            assert_eq!(accepts_gzip(&headers), want, "{header}");
        }
    }

    #[tokio::test]
    async fn compresses_only_large_responses() {
        let text: Vec<u8> = (0..300_000).map(|n: usize| b"kubernetes"[n / 7 * n % 10]).collect();
        for (length, marked, want) in [
            (300_000, true, true),
            (COMPRESSION_THRESHOLD + 1, true, true),
            (COMPRESSION_THRESHOLD, true, false),
            (300_000, false, false),
        ] {
            for pieces in [1, 7] {
                let chunks: Vec<_> = text[..length]
                    .chunks(length.div_ceil(pieces))
                    .map(|c| Ok::<_, BoxError>(Bytes::copy_from_slice(c)))
                    .collect();
                let body = match pieces {
                    1 => Body::full(text[..length].to_vec()),
                    _ => Body::stream(futures::stream::iter(chunks)),
                };
                let mut response = Response::new(body);
                if marked {
                    response.extensions_mut().insert(Compressible);
                }
                let (response, gzip) = compress_if_large(response).await;
                assert_eq!(gzip.is_some(), want, "{length} {pieces}");
                assert_eq!(response.headers().contains_key(CONTENT_ENCODING), want);
                let plain = response.into_body().read(usize::MAX).await.unwrap();
                assert!(plain == text[..length]);
                let Some(mut gzip) = gzip else { continue };
                let mut sent = Vec::new();
                for piece in plain.chunks(10_000) {
                    let pieces = Pieces::from(Bytes::copy_from_slice(piece));
                    sent.extend(gzip.pieces(&pieces).unwrap().into_iter().flatten());
                }
                sent.extend(gzip.finish().unwrap().into_iter().flatten());
                assert!(gzip.finish().unwrap().is_none() && sent.len() < length / 2);
                let mut back = Vec::new();
                flate2::read::GzDecoder::new(&*sent).read_to_end(&mut back).unwrap();
                assert!(back == plain);
            }
        }
    }
}
