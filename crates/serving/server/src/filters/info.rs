//! Parsing of method, path and query.

use std::sync::Arc;

use binnacle_meta::go_quote;
use binnacle_request::{BasePath, Query, Record, RequestInfo, decode_path};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, StatusCode};

use crate::response::Rejection;

pub(crate) fn parse(parts: &Parts, query: &Query, record: &Record) -> Result<Arc<RequestInfo>, Rejection> {
    let Some(path) = decode_path(parts.uri.path()) else {
        return Err(Rejection::Text(StatusCode::BAD_REQUEST, "400 Bad Request".to_owned()));
    };
    match RequestInfo::parse(&parts.method, &path, query, record.uri()) {
        Ok(mut info) => {
            if let Some(BasePath(base)) = parts.extensions.get() {
                info.base_path = base.clone();
            }
            let info = Arc::new(info);
            record.note(|facts| {
                facts.metric_verb = metric_verb(parts, query, &info);
                facts.dry_run = dry_run(query);
                facts.info = Some(info.clone());
            });
            Ok(info)
        }
        Err(error) => {
            let uri = go_quote(record.uri());
            let text = format!("Internal Server Error: {uri}: failed to create RequestInfo: {error}");
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            Err(Rejection::Text(StatusCode::INTERNAL_SERVER_ERROR, text))
        }
    }
}

/// Returns the verb label for metrics: the method, or an action that the method would not show.
fn metric_verb(parts: &Parts, query: &Query, info: &RequestInfo) -> &'static str {
    let connects = matches!(info.subresource.as_str(), "log" | "exec" | "portforward" | "attach" | "proxy");
    if info.is_resource_request && connects {
        return "CONNECT";
    }
    let collection = info.is_resource_request && info.name.is_empty();
    match parts.method {
        Method::GET if query.flag("watch") || info.verb == "watch" => "WATCH",
        Method::GET | Method::HEAD if collection => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => {
            let applies = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/apply-patch+yaml");
            if applies { "APPLY" } else { "PATCH" }
        }
        _ => "other",
    }
}

fn dry_run(query: &Query) -> &'static str {
    if !query.contains("dryRun") {
        return "";
    }
    if query.get_all("dryRun").all(|value| value == "All") { "All" } else { "invalid" }
}

#[cfg(test)]
mod tests {
    use binnacle_request::Body;
    use http::Request;

    use super::*;

    #[test]
    fn returns_verb_labels_of_metrics() {
        for (method, uri, content, want) in [
            ("GET", "/api/v1/pods", "", "LIST"),
            ("GET", "/api/v1/namespaces/n/pods/p", "", "GET"),
            ("HEAD", "/api/v1/namespaces/n/pods/p", "", "GET"),
            ("GET", "/api/v1/pods?watch=1", "", "WATCH"),
            ("GET", "/api/v1/watch/pods", "", "WATCH"),
            ("GET", "/healthz", "", "GET"),
            ("GET", "/api/v1/namespaces/n/pods/p/log", "", "CONNECT"),
            ("PATCH", "/api/v1/nodes/n", "application/apply-patch+yaml", "APPLY"),
            ("PATCH", "/api/v1/nodes/n", "application/merge-patch+json", "PATCH"),
            ("DELETE", "/api/v1/nodes", "", "DELETE"),
            ("FLY", "/api/v1/nodes", "", "other"),
        ] {
            let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, content);
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let query = Query::parse(parts.uri.query().unwrap_or_default());
            let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query, uri).unwrap();
            assert_eq!(metric_verb(&parts, &query, &info), want, "{method} {uri}");
        }
    }

    #[test]
    fn returns_dry_run_labels() {
        for (query, want) in [
            ("", ""),
            ("dryRun=All", "All"),
            ("dryRun=All&dryRun=All", "All"),
            ("dryRun=", "invalid"),
            ("dryRun=Some", "invalid"),
        ] {
            assert_eq!(dry_run(&Query::parse(query)), want, "{query}");
        }
    }

    #[test]
    fn rejects_invalid_paths() {
        for (uri, want) in [
            ("/%zz", (400, "400 Bad Request")),
            (
                "/api/v1/watch?a=<b>",
                (
                    500,
                    "Internal Server Error: \"/api/v1/watch?a=&lt;b&gt;\": failed to create RequestInfo: unable to determine \
                     kind and namespace from url, /api/v1/watch?a=&lt;b&gt;",
                ),
            ),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = path.parse().unwrap_or_default();
            let (parts, _) = request.into_parts();
            let record = Record::open(Method::GET, uri.into(), None, None);
            match parse(&parts, &Query::parse(query), &record) {
                Err(Rejection::Text(code, text)) => assert_eq!((code.as_u16(), text.as_str()), want),
                other => panic!("{other:?}"),
            }
        }
    }
}
