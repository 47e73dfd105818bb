//! Exposition of metric families: Prometheus text or protobuf, optionally compressed, negotiated like by
//! client_golang's handler, which kube-apiserver uses.

use binnacle_meta::accept_clauses;
use binnacle_metrics::MetricFamilies;
use binnacle_request::Response;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::compress;
use crate::process::start_time;
use crate::response::error_text;

/// The start of the process in seconds of the Unix epoch, by which collectors detect reset counters.
const START_TIME: HeaderName = HeaderName::from_static("process-start-time-unix");
/// Escaping schemes that a client may request for names with non-ASCII characters; no family has such a name.
const ESCAPING: [&str; 4] = ["allow-utf-8", "underscores", "dots", "values"];

/// Returns the families in the format that the request's headers select.
pub(crate) async fn exposition(gathered: MetricFamilies, headers: &HeaderMap) -> Response {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (format, escaping) = negotiate(header(ACCEPT));
    let gzip = wants_gzip(headers);
    // With thousands of custom resources, the output has several megabytes.
    let encoded = tokio::task::spawn_blocking(move || {
        let bytes = match format {
            Format::Text => binnacle_metrics::text(&gathered.families).into_bytes(),
            Format::Delimited => binnacle_metrics::delimited(&gathered),
        };
        if gzip { compress::compress(&bytes) } else { Ok(bytes) }
    });
    let bytes = match encoded.await {
        Ok(Ok(bytes)) => bytes,
        // Neither can happen: writing to memory does not fail, and no code in it panics.
        Ok(Err(error)) => return failure(&error),
        Err(error) => return failure(&error),
    };
    let mut response = Response::new(bytes.into());
    let headers = response.headers_mut();
    let kind = match format {
        Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        Format::Delimited => {
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
        }
    };
    if let Ok(kind) = HeaderValue::try_from(format!("{kind}; escaping={escaping}")) {
        headers.insert(CONTENT_TYPE, kind);
    }
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(seconds) = start_time() {
        #[expect(clippy::cast_possible_truncation, reason = "it is some seconds since 1970")]
        headers.insert(START_TIME, HeaderValue::from(seconds as i64));
    }
    response
}

/// Returns the response to a request that reset the series of all families.
pub(crate) fn reset() -> Response {
    let mut response = Response::new(Bytes::from_static(b"metrics reset\n").into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn failure(error: &dyn std::fmt::Display) -> Response {
    let text = format!("An error has occurred while serving metrics:\n\n{error}");
    error_text(StatusCode::INTERNAL_SERVER_ERROR, text)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Delimited,
}

/// Returns the format for an Accept header, and the name of the escaping scheme. The first clause with a known format
/// is selected.
fn negotiate(accept: &str) -> (Format, &'static str) {
    let mut escaping = "underscores";
    for clause in accept_clauses(accept) {
        let requested = clause.parameter("escaping").unwrap_or_default();
        escaping = ESCAPING.into_iter().find(|known| *known == requested).unwrap_or(escaping);
        let has = |name, value| clause.parameter(name) == Some(value);
        match (clause.main, clause.sub) {
            ("application", "vnd.google.protobuf")
                if has("proto", "io.prometheus.client.MetricFamily") && has("encoding", "delimited") =>
            {
                return (Format::Delimited, escaping);
            }
            ("text", "plain") if matches!(clause.parameter("version"), None | Some("0.0.4")) => break,
            _ => {}
        }
    }
    (Format::Text, escaping)
}

/// Returns true if gzip has the highest quality; on a tie, `identity` or `*` wins.
fn wants_gzip(headers: &HeaderMap) -> bool {
    let mut best = (-1.0, false);
    let accepted: Vec<(&str, f32)> =
        headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).flat_map(codings).collect();
    for offered in ["identity", "gzip"] {
        for &(coding, quality) in &accepted {
            if quality > best.0 && (coding == "*" || coding == offered) {
                best = (quality, offered == "gzip");
            }
        }
    }
    best.1 && best.0 > 0.0
}

/// Returns the codings of a header with their qualities, up to the first malformed one.
fn codings(header: &str) -> impl Iterator<Item = (&str, f32)> {
    header.split(',').map_while(|part| {
        let (coding, quality) = match part.split_once(';') {
            None => (part.trim(), 1.0),
            Some((coding, rest)) => (coding.trim(), rest.trim().strip_prefix("q=")?.trim().parse().ok()?),
        };
        (!coding.is_empty() && (0.0..=1.0).contains(&quality)).then_some((coding, quality))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiates_format_and_escaping() {
        const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=";
        for (accept, want) in [
            (String::new(), (Format::Text, "underscores")),
            ("*/*".to_owned(), (Format::Text, "underscores")),
            ("text/plain;version=0.0.4;escaping=allow-utf-8".to_owned(), (Format::Text, "allow-utf-8")),
            ("text/plain;escaping=other".to_owned(), (Format::Text, "underscores")),
            (format!("{PROTOBUF}delimited"), (Format::Delimited, "underscores")),
            (format!("{PROTOBUF}delimited;q=0.3,text/plain;version=0.0.4;q=0.5"), (Format::Text, "underscores")),
            (format!("text/plain;version=1.0.0,{PROTOBUF}delimited;q=0.5"), (Format::Delimited, "underscores")),
            (format!("application/openmetrics-text;escaping=dots,{PROTOBUF}delimited"), (Format::Delimited, "dots")),
            (format!("{PROTOBUF}compact-text"), (Format::Text, "underscores")),
            ("application/vnd.google.protobuf".to_owned(), (Format::Text, "underscores")),
        ] {
            assert_eq!(negotiate(&accept), want, "{accept}");
        }
    }

    #[test]
    fn negotiates_gzip() {
        for (header, want) in [
            ("", false),
            ("gzip", true),
            ("zstd, gzip", true),
            ("gzip, identity", false),
            ("gzip, identity;q=0.5", true),
            ("*", false),
            ("*;q=0.5, gzip", true),
            ("gzip;q=0", false),
            ("gzip;q=x, gzip", false),
            ("identity;q=0, gzip;q=0.1", true),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(header))]);
            assert_eq!(wants_gzip(&headers), want, "{header}");
        }
    }
}
