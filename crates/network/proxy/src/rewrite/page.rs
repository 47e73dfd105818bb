//! Rewrites the body of a page as a stream: decompresses it, rewrites links, and compresses it again.
//!
//! Compressed data may expand by a factor of a thousand, so a separate task rewrites each page: step by step, in turns
//! with other work, and no faster than the client reads.

use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use binnacle_request::{Body, BoxError, Response};
use binnacle_work::{WorkBudget, current, large, pace, spawn_relay};
use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzDecoder, GzEncoder};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::OwnedLinkRewriter;
use super::html::Rewriter;

/// The maximum number of bytes rewritten in one step. Decoders decompress as many at once.
const STEP: usize = 32 << 10;
/// The maximum factor by which compressed data expands.
const GROWTH: usize = 1032;
/// The cost per byte: decompressing, rewriting and compressing takes 40 ns, and rewriting alone a quarter of that.
const STEPS_PER_PACKED_BYTE: u64 = 4;
const STEPS_PER_BYTE: u64 = 1;
/// The number of steps after which the task waits for a turn: one millisecond.
const STEPS_WITHOUT_TURN: u64 = 100_000;

/// Rewrites the links of a response. A response with an unknown encoding is unchanged.
pub(crate) fn rewrite_page(response: Response, links: OwnedLinkRewriter) -> Response {
    let encoding = response.headers().get(CONTENT_ENCODING).map_or("", |value| value.to_str().unwrap_or("?"));
    let codec: Option<Box<dyn Codec>> = match encoding {
        "" => None,
        "gzip" => Some(Box::new((GzDecoder::new(Vec::new()), GzEncoder::new(Vec::new(), Compression::default())))),
        "deflate" => {
            Some(Box::new((DeflateDecoder::new(Vec::new()), DeflateEncoder::new(Vec::new(), Compression::default()))))
        }
        encoding => {
            tracing::info!(
                encoding,
                "Proxy encountered unknown encoding for text/html, can't understand this so not fixing links"
            );
            return response;
        }
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let budget = current().map_or_else(|| WorkBudget::background("proxied pages"), |budget| budget.streaming());
    let page = Page { codec, rewriter: Rewriter::new(links), steps_since_turn: 0 };
    Response::from_parts(parts, Body::new(RewrittenBody::start(page, body, budget)))
}

struct Page {
    /// `None` if the page is not compressed.
    codec: Option<Box<dyn Codec>>,
    rewriter: Rewriter,
    /// The steps since the last turn.
    steps_since_turn: u64,
}

impl Page {
    /// Rewrites the body and sends its chunks, with `None` as the last one. Returns early if the receiver is dropped.
    async fn rewrite(mut self, mut body: Body, pieces: &PieceSender) -> Result<(), BoxError> {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let mut waiting = data.into_bytes();
            while !waiting.is_empty() {
                self.wait(waiting.len()).await;
                let output = self.step(&mut waiting)?;
                if !output.is_empty() && pieces.send(Ok(Some(output.into()))).await.is_err() {
                    return Ok(());
                }
            }
        }
        let output = self.finish()?;
        if !output.is_empty() {
            let _ = pieces.send(Ok(Some(output.into()))).await;
        }
        let _ = pieces.send(Ok(None)).await;
        Ok(())
    }

    /// Waits for a turn if the next step is long, or if many steps have been taken.
    async fn wait(&mut self, waiting: usize) {
        let steps = match &self.codec {
            Some(_) => waiting.saturating_mul(GROWTH).min(STEP) as u64 * STEPS_PER_PACKED_BYTE,
            None => waiting.min(STEP) as u64 * STEPS_PER_BYTE,
        };
        self.steps_since_turn += steps;
        if self.steps_since_turn >= STEPS_WITHOUT_TURN {
            self.steps_since_turn = 0;
            // A turn lasts for one poll.
            tokio::task::yield_now().await;
            large(usize::MAX).await;
        }
        pace(steps);
    }

    fn step(&mut self, waiting: &mut Bytes) -> io::Result<Vec<u8>> {
        let mut output = Vec::new();
        let Some(codec) = &mut self.codec else {
            let piece = waiting.split_to(waiting.len().min(STEP));
            output.reserve(piece.len());
            self.rewriter.feed(&piece, &mut output);
            return Ok(output);
        };
        let unpacked = codec.unpack(waiting)?;
        self.rewriter.feed(&unpacked, &mut output);
        codec.pack(&output)
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        let mut output = Vec::new();
        let Some(codec) = &mut self.codec else {
            self.rewriter.finish(&mut output);
            return Ok(output);
        };
        let unpacked = codec.end_unpacking()?;
        self.rewriter.feed(&unpacked, &mut output);
        self.rewriter.finish(&mut output);
        codec.end_packing(&output)
    }
}

/// A decoder and an encoder of the same encoding.
trait Codec: Send {
    /// Decompresses part of the input, to about [`STEP`] bytes.
    fn unpack(&mut self, packed: &mut Bytes) -> io::Result<Vec<u8>>;
    /// Returns the remaining output at the end of the input.
    fn end_unpacking(&mut self) -> io::Result<Vec<u8>>;
    /// Compresses bytes and returns the output that is ready.
    fn pack(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>>;
    fn end_packing(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>>;
}

/// The common interface of the decoders and encoders of flate2.
trait Filter: Write + Send {
    fn take(&mut self) -> Vec<u8>;
    fn end(&mut self) -> io::Result<()>;
}

macro_rules! filters {
    ($($name:ident),*) => {$(
        impl Filter for $name<Vec<u8>> {
            fn take(&mut self) -> Vec<u8> {
                std::mem::take(self.get_mut())
            }

            fn end(&mut self) -> io::Result<()> {
                self.try_finish()
            }
        }
    )*};
}

filters!(GzDecoder, GzEncoder, DeflateDecoder, DeflateEncoder);

impl<D: Filter, E: Filter> Codec for (D, E) {
    fn unpack(&mut self, packed: &mut Bytes) -> io::Result<Vec<u8>> {
        // One call decompresses no more than the decoder's buffer holds.
        let taken = self.0.write(packed)?;
        if taken == 0 {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "failed to write whole buffer"));
        }
        packed.advance(taken);
        self.0.flush()?;
        Ok(self.0.take())
    }

    fn end_unpacking(&mut self) -> io::Result<Vec<u8>> {
        self.0.end()?;
        Ok(self.0.take())
    }

    fn pack(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.1.write_all(bytes)?;
        Ok(self.1.take())
    }

    fn end_packing(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.1.write_all(bytes)?;
        self.1.end()?;
        Ok(self.1.take())
    }
}

/// The chunks of a rewritten page, or the error that ends it. The last chunk is `None`.
type PieceSender = mpsc::Sender<Result<Option<Bytes>, BoxError>>;

/// The body of a page that a task rewrites. Dropping it aborts the task.
struct RewrittenBody {
    pieces: mpsc::Receiver<Result<Option<Bytes>, BoxError>>,
    is_done: bool,
    task: AbortHandle,
}

impl RewrittenBody {
    fn start(page: Page, body: Body, budget: WorkBudget) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        let task = spawn_relay("proxied page", async move {
            let rewriting = pin!(page.rewrite(body, &sender));
            if let Err(error) = budget.run(rewriting).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        Self { pieces, is_done: false, task: task.abort_handle() }
    }
}

impl Drop for RewrittenBody {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HttpBody for RewrittenBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        let piece = match ready!(self.pieces.poll_recv(cx)) {
            Some(Ok(Some(piece))) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some(Err(error)),
            // Only a panic ends the task without a last chunk.
            None => Some(Err("the page could not be rewritten".into())),
        };
        self.is_done = true;
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.is_done
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use binnacle_work::WorkLimits;
    use flate2::read::{DeflateDecoder as ReadDeflate, GzDecoder as ReadGzip};
    use futures::StreamExt;
    use http::HeaderValue;

    use super::*;
    use crate::rewrite::LinkRewriter;

    const PAGE: &str = "<html><a href=\"/x\">x</a>";
    const WANT: &str = "<html><a href=\"/p/x\">x</a>";

    async fn through(encoding: &'static str, packed: Vec<u8>) -> Vec<u8> {
        let pieces: Vec<Result<Bytes, BoxError>> = packed.chunks(3).map(|piece| Ok(piece.to_vec().into())).collect();
        let mut response = Response::new(Body::stream(futures::stream::iter(pieces)));
        if !encoding.is_empty() {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(packed.len()));
        let links = LinkRewriter { prefix: "/p", source: "h:1", requested: "", target: "" }.owned();
        rewrite_page(response, links).into_body().read(10_000).await.unwrap().to_vec()
    }

    #[tokio::test]
    async fn rewrites_gzip_and_deflate_and_skips_unknown_encodings() {
        assert_eq!(through("", PAGE.into()).await, WANT.as_bytes());
        assert_eq!(through("br", PAGE.into()).await, PAGE.as_bytes());

        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(PAGE.as_bytes()).unwrap();
        let mut text = String::new();
        ReadGzip::new(through("gzip", packer.finish().unwrap()).await.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, WANT);

        let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
        packer.write_all(PAGE.as_bytes()).unwrap();
        let mut text = String::new();
        let packed = through("deflate", packer.finish().unwrap()).await;
        ReadDeflate::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, WANT);
    }

    /// Returns a compressed body, and the number of its chunks that were read.
    fn packed(bytes: &[u8]) -> (Body, Arc<AtomicUsize>) {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(bytes).unwrap();
        let packed = Bytes::from(packer.finish().unwrap());
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        let pieces: Vec<Bytes> = packed.chunks(16 << 10).map(Bytes::copy_from_slice).collect();
        let stream = futures::stream::iter(pieces).map(move |piece| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok::<_, BoxError>(piece)
        });
        (Body::stream(stream), taken)
    }

    fn page(body: Body, encoding: &'static str) -> Response {
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        rewrite_page(response, LinkRewriter { prefix: "/p", source: "h:1", requested: "", target: "" }.owned())
    }

    /// 4 MB from 4 KB: every step is charged, the task waits for turns, and other tasks run meanwhile.
    #[tokio::test]
    async fn unpacks_decompression_bombs_in_turns() {
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        let (body, _) = packed(&vec![0; 4 << 20]);
        let response = budget.enter(|| page(body, "gzip"));
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        let sent = response.into_body().read(1 << 20).await.unwrap();
        other.abort();
        let mut unpacked = Vec::new();
        ReadGzip::new(&sent[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked.len(), 4 << 20);
        assert!(unpacked.iter().all(|byte| *byte == 0));
        let steps = (4 << 20) / STEP;
        assert!(polls.load(Ordering::SeqCst) >= steps, "{polls:?} of {steps}");
        // The stream has a budget without limits, so that long pages are sent completely.
        assert_eq!(budget.check(), Ok(()));
    }

    #[tokio::test]
    async fn does_not_unpack_unread_pages() {
        let mut random = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        })
        .take(4 << 20)
        .collect();
        let (body, taken) = packed(&noise);
        let response = page(body, "gzip");
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert!(taken.load(Ordering::SeqCst) <= 16, "{taken:?}");
        drop(response);
    }

    #[tokio::test]
    async fn ends_broken_pages_with_an_error() {
        let whole = {
            let mut packer = GzEncoder::new(Vec::new(), Compression::default());
            packer.write_all(PAGE.as_bytes()).unwrap();
            packer.finish().unwrap()
        };
        let mut trailing = whole.clone();
        trailing.extend_from_slice(b"more");
        let mut damaged = whole;
        damaged[12] ^= 0xff;
        for (packed, want) in [
            (trailing, "failed to write whole buffer"),
            (damaged, "corrupt gzip stream does not have a matching checksum"),
        ] {
            let error = page(Body::from(packed), "gzip").into_body().read(10_000).await.unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }
}
