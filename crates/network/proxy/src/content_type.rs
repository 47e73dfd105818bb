//! Detects the content type of responses without one from their first bytes, like Go's HTTP server.

use std::pin::Pin;
use std::task::{Context, Poll};

use binnacle_client::{PooledAnswer, PooledBody};
use binnacle_request::BoxError;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

/// The number of bytes that are inspected.
const SNIFF_LEN: usize = 512;

/// A body whose first frame was already read.
pub(crate) struct PeekedBody {
    first: Option<Result<Frame<Bytes>, BoxError>>,
    rest: PooledBody,
}

/// Adds a content type to a response that has a body but no content type.
pub(crate) async fn with_content_type(answer: PooledAnswer) -> Response<PeekedBody> {
    let headers = answer.headers();
    let is_declared = [CONTENT_TYPE, CONTENT_ENCODING, TRANSFER_ENCODING].iter().any(|name| headers.contains_key(name));
    let has_none = matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if is_declared || has_none || answer.body().is_end_stream() {
        return answer.map(|rest| PeekedBody { first: None, rest });
    }
    let (mut parts, mut rest) = answer.into_parts();
    let first = rest.frame().await;
    if let Some(Ok(frame)) = &first
        && let Some(data) = frame.data_ref().filter(|data| !data.is_empty())
    {
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(detect(data)));
    }
    Response::from_parts(parts, PeekedBody { first, rest })
}

impl HttpBody for PeekedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let taken = match &self.first {
            Some(Ok(frame)) => frame.data_ref().map_or(0, |data| data.len() as u64),
            _ => 0,
        };
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + taken);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + taken);
        }
        hint
    }
}

/// Tags that identify HTML, ignoring case, if a space or `>` follows.
const HTML: [&str; 17] = [
    "<!DOCTYPE HTML",
    "<HTML",
    "<HEAD",
    "<SCRIPT",
    "<IFRAME",
    "<H1",
    "<DIV",
    "<FONT",
    "<TABLE",
    "<A",
    "<STYLE",
    "<TITLE",
    "<B",
    "<BODY",
    "<BR",
    "<P",
    "<!--",
];

/// The first bytes of other content types; `.` matches any byte.
const SIGNATURES: [(&[u8], &str); 27] = [
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\xFE\xFF..", "text/plain; charset=utf-16be"),
    (b"\xFF\xFE..", "text/plain; charset=utf-16le"),
    (b"\xEF\xBB\xBF.", "text/plain; charset=utf-8"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00\x00\x02\x00", "image/x-icon"),
    (b"BM", "image/bmp"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"RIFF....WEBPVP", "image/webp"),
    (b"\x89PNG\x0D\x0A\x1A\x0A", "image/png"),
    (b"\xFF\xD8\xFF", "image/jpeg"),
    (b"FORM....AIFF", "audio/aiff"),
    (b"ID3", "audio/mpeg"),
    (b"OggS\x00", "application/ogg"),
    (b"MThd\x00\x00\x00\x06", "audio/midi"),
    (b"RIFF....AVI ", "video/avi"),
    (b"RIFF....WAVE", "audio/wave"),
    (b"\x1A\x45\xDF\xA3", "video/webm"),
    (b"\x00\x01\x00\x00", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\x1F\x8B\x08", "application/x-gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1A\x07", "application/x-rar-compressed"),
];

/// Detects the content type of data from its first bytes.
pub(crate) fn detect(data: &[u8]) -> &'static str {
    let data = &data[..data.len().min(SNIFF_LEN)];
    let text = data.trim_ascii_start();
    let is_tag = |tag: &&str| {
        let Some((begin, rest)) = text.split_at_checked(tag.len()) else { return false };
        begin.eq_ignore_ascii_case(tag.as_bytes()) && matches!(rest.first(), Some(b' ' | b'>'))
    };
    if HTML.iter().any(is_tag) {
        return "text/html; charset=utf-8";
    }
    if text.starts_with(b"<?xml") {
        return "text/xml; charset=utf-8";
    }
    let begins = |pattern: &[u8]| {
        let bytes = data.get(..pattern.len()).unwrap_or_default();
        bytes.len() == pattern.len() && pattern.iter().zip(bytes).all(|(want, byte)| *want == b'.' || want == byte)
    };
    if let Some((_, kind)) = SIGNATURES.iter().find(|(pattern, _)| begins(pattern)) {
        return kind;
    }
    let is_binary = |byte: &u8| matches!(byte, 0..=8 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F);
    match text.iter().any(is_binary) {
        true => "application/octet-stream",
        false => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_content_types_like_go() {
        for (data, want) in [
            (&b"<html><body>"[..], "text/html; charset=utf-8"),
            (b" \n<!doctype HTML>", "text/html; charset=utf-8"),
            (b"<htmlx>", "text/plain; charset=utf-8"),
            (b"<!-- a", "text/html; charset=utf-8"),
            (b"<?xml version", "text/xml; charset=utf-8"),
            (b"{\"a\":1}", "text/plain; charset=utf-8"),
            (b"\x89PNG\r\n\x1a\nxx", "image/png"),
            (b"RIFF1234WEBPVP8", "image/webp"),
            (b"\x1f\x8b\x08\x00", "application/x-gzip"),
            (b"\x00\x01\x02", "application/octet-stream"),
            (b"k8s\x00\n\x02", "application/octet-stream"),
            (b"", "text/plain; charset=utf-8"),
            ("\u{e4}\u{f6}".as_bytes(), "text/plain; charset=utf-8"),
        ] {
            assert_eq!(detect(data), want, "{data:?}");
        }
    }
}
