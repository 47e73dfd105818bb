//! Accepts the responses that Go's client accepts, even those that violate the standard.

use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, Response};
use hyper::client::conn::http1::Builder;
use hyper::ext::ReasonPhrase;

use crate::error::SendError;
use crate::limits::{MAX_HEAD_BYTES, MAX_HEADERS};

/// Returns the settings of HTTP/1.1 connections: responses are bounded, headers may continue on a second line, and
/// invalid headers are ignored.
pub(crate) fn connections() -> Builder {
    let mut builder = Builder::new();
    builder
        .title_case_headers(true)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    builder
}

/// Returns the response with the standard reason phrase for its status.
///
/// # Errors
/// Fails for body encodings other than chunked, because the end of the body is unknown.
pub(crate) fn accepted<B>(mut answer: Response<B>) -> Result<Response<B>, SendError> {
    check_encoding(answer.headers())
        .map_err(|why| SendError::Broken(format!("net/http: HTTP/1.x transport connection broken: {why}")))?;
    let status = answer.status();
    answer.extensions_mut().remove::<ReasonPhrase>();
    if status.canonical_reason().is_none()
        && let Ok(phrase) = ReasonPhrase::try_from(format!("status code {}", status.as_u16()))
    {
        answer.extensions_mut().insert(phrase);
    }
    Ok(answer)
}

/// Checks that the body has no encoding other than chunked.
fn check_encoding(headers: &HeaderMap) -> Result<(), String> {
    let quoted = |value: &http::HeaderValue| binnacle_meta::go_quote(&String::from_utf8_lossy(value.as_bytes()));
    let mut told = headers.get_all(TRANSFER_ENCODING).iter();
    match (told.next(), told.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(one), None) => Err(format!("unsupported transfer encoding: {}", quoted(one))),
        (Some(_), Some(_)) => {
            let all: Vec<String> = headers.get_all(TRANSFER_ENCODING).iter().map(quoted).collect();
            Err(format!("too many transfer encodings: [{}]", all.join(" ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn accepts_transfer_encodings_like_go() {
        for (told, want) in [
            (&[][..], Ok(())),
            (&["chunked"], Ok(())),
            (&["Chunked"], Ok(())),
            (&["gzip"], Err("unsupported transfer encoding: \"gzip\"")),
            (&["gzip, chunked"], Err("unsupported transfer encoding: \"gzip, chunked\"")),
            (&["gzip", "chunked"], Err("too many transfer encodings: [\"gzip\" \"chunked\"]")),
        ] {
            let pairs = told.iter().map(|value| (TRANSFER_ENCODING, HeaderValue::from_static(value)));
            assert_eq!(
                check_encoding(&pairs.fold(HeaderMap::new(), |mut headers, (name, value)| {
                    headers.append(name, value);
                    headers
                })),
                want.map_err(str::to_owned),
                "{told:?}"
            );
        }
    }

    #[test]
    fn formats_status_lines_like_go() {
        for (status, want) in [(200, None), (418, None), (600, Some("status code 600"))] {
            let mut answer = Response::builder().status(status).body(()).expect("a status");
            answer.extensions_mut().insert(ReasonPhrase::from_static(b"Odd"));
            let answer = accepted(answer).expect("no encoding");
            let phrase = answer.extensions().get::<ReasonPhrase>().map(|phrase| phrase.as_bytes());
            assert_eq!(phrase, want.map(str::as_bytes), "{status}");
        }
    }
}
