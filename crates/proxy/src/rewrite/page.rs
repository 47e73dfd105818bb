//! Rewriting of a page's body as a stream: decompressed, rewritten, compressed again.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use binnacle_request::{Body, BoxError, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzDecoder, GzEncoder};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body::{Body as HttpBody, Frame};

use super::OwnedLinks;
use super::html::Rewriter;

/// A compressed piece of this size grows a thousandfold at most.
const PACKED_STEP: usize = 1024;

/// Rewrites the links of a response; unchanged if its encoding is unknown.
pub(crate) fn rewrite_page(response: Response, links: OwnedLinks) -> Response {
    let encoding = response.headers().get(CONTENT_ENCODING).map_or("", |value| value.to_str().unwrap_or("?"));
    let codec = match encoding {
        "" => Codec::Plain,
        "gzip" => Codec::Gzip(GzDecoder::new(Vec::new()), GzEncoder::new(Vec::new(), Compression::default())),
        "deflate" => {
            Codec::Deflate(DeflateDecoder::new(Vec::new()), DeflateEncoder::new(Vec::new(), Compression::default()))
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
    let page = Page { body, codec, rewriter: Rewriter::new(links), waiting: Bytes::new(), done: false };
    Response::from_parts(parts, Body::new(page))
}

struct Page {
    body: Body,
    codec: Codec,
    rewriter: Rewriter,
    /// Bytes of the body that are not decompressed yet.
    waiting: Bytes,
    done: bool,
}

enum Codec {
    Plain,
    Gzip(GzDecoder<Vec<u8>>, GzEncoder<Vec<u8>>),
    Deflate(DeflateDecoder<Vec<u8>>, DeflateEncoder<Vec<u8>>),
}

impl Page {
    fn step(&mut self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        match &mut self.codec {
            Codec::Plain => {
                let piece = std::mem::take(&mut self.waiting);
                out.reserve(piece.len());
                self.rewriter.feed(&piece, &mut out);
            }
            Codec::Gzip(decoder, encoder) => {
                let piece = self.waiting.split_to(self.waiting.len().min(PACKED_STEP));
                decoder.write_all(&piece)?;
                decoder.flush()?;
                self.rewriter.feed(&std::mem::take(decoder.get_mut()), &mut out);
                encoder.write_all(&out)?;
                out = std::mem::take(encoder.get_mut());
            }
            Codec::Deflate(decoder, encoder) => {
                let piece = self.waiting.split_to(self.waiting.len().min(PACKED_STEP));
                decoder.write_all(&piece)?;
                decoder.flush()?;
                self.rewriter.feed(&std::mem::take(decoder.get_mut()), &mut out);
                encoder.write_all(&out)?;
                out = std::mem::take(encoder.get_mut());
            }
        }
        Ok(out)
    }

    fn last(&mut self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        match &mut self.codec {
            Codec::Plain => self.rewriter.finish(&mut out),
            Codec::Gzip(decoder, encoder) => {
                decoder.try_finish()?;
                self.rewriter.feed(&std::mem::take(decoder.get_mut()), &mut out);
                self.rewriter.finish(&mut out);
                encoder.write_all(&out)?;
                encoder.try_finish()?;
                out = std::mem::take(encoder.get_mut());
            }
            Codec::Deflate(decoder, encoder) => {
                decoder.try_finish()?;
                self.rewriter.feed(&std::mem::take(decoder.get_mut()), &mut out);
                self.rewriter.finish(&mut out);
                encoder.write_all(&out)?;
                encoder.try_finish()?;
                out = std::mem::take(encoder.get_mut());
            }
        }
        Ok(out)
    }
}

impl HttpBody for Page {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        while !this.done {
            let out = if this.waiting.is_empty() {
                match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                    None => {
                        this.done = true;
                        this.last()
                    }
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            this.waiting = data.into_bytes();
                        }
                        continue;
                    }
                    Some(Err(error)) => {
                        this.done = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            } else {
                this.step()
            };
            match out {
                Ok(out) if out.is_empty() => {}
                Ok(out) => return Poll::Ready(Some(Ok(Frame::data(out.into())))),
                Err(error) => {
                    this.done = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::{DeflateDecoder as ReadDeflate, GzDecoder as ReadGzip};
    use http::HeaderValue;

    use super::*;
    use crate::rewrite::Links;

    const PAGE: &str = "<html><a href=\"/x\">x</a>";
    const WANT: &str = "<html><a href=\"/p/x\">x</a>";

    async fn through(encoding: &'static str, packed: Vec<u8>) -> Vec<u8> {
        let pieces: Vec<Result<Bytes, BoxError>> = packed.chunks(3).map(|piece| Ok(piece.to_vec().into())).collect();
        let mut response = Response::new(Body::stream(futures::stream::iter(pieces)));
        if !encoding.is_empty() {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(packed.len()));
        let links = Links { prefix: "/p", source: "h:1", requested: "", target: "" }.owned();
        rewrite_page(response, links).into_body().read(10_000).await.unwrap().to_vec()
    }

    #[tokio::test]
    async fn encodings() {
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
}
