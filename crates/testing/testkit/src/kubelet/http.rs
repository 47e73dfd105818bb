//! The kubelet's HTTP server: logs, and upgrades to sessions.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame as BodyFrame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::query::Query;
use super::{Misbehavior, Shared, command, forward};

type Body = BoxBody<Bytes, std::io::Error>;

pub(super) async fn serve(listener: std::net::TcpListener, config: Arc<ServerConfig>, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    let acceptor = TlsAcceptor::from(config);
    loop {
        let Ok((tcp, _)) = listener.accept().await else { continue };
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(tcp).await else { return };
            let service = service_fn(move |request| answer(request, shared.clone()));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = connection.with_upgrades().await;
        });
    }
}

/// Answers a request. An error closes the connection without a response.
async fn answer(mut request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, std::io::Error> {
    shared.saw(format!("{} {}", request.method(), request.uri()));
    let path = request.uri().path().to_owned();
    let query = Query::of(request.uri().query().unwrap_or_default());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let trouble = parts.get(2).and_then(|pod| shared.trouble_with(pod));
    match &trouble {
        Some(Misbehavior::Refuses(code, text)) => return Ok(text_answer(*code, text)),
        Some(Misbehavior::Redirects(location)) => {
            let mut response = text_answer(302, "");
            response.headers_mut().insert("location", location.parse().unwrap());
            return Ok(response);
        }
        Some(Misbehavior::HangsUp) => return Err(std::io::Error::other("on purpose")),
        Some(Misbehavior::Hangs) => std::future::pending().await,
        Some(Misbehavior::Lies) => {
            let pieces = stream::iter([Ok(BodyFrame::data(Bytes::from_static(b"half")))]);
            let broken = stream::once(async {
                // If the body failed at once, the response would not even begin.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(std::io::Error::other("on purpose"))
            });
            let mut response = Response::new(BodyExt::boxed(StreamBody::new(pieces.chain(broken))));
            response.headers_mut().insert("content-length", "1000".parse().unwrap());
            return Ok(response);
        }
        Some(Misbehavior::BreaksOff) | None => {}
    }
    if parts[0] == "containerLogs" {
        return Ok(logs(&query, &shared));
    }
    if request.headers().get("upgrade").is_none_or(|upgrade| upgrade != "SPDY/3.1") {
        return Ok(text_answer(400, "unable to upgrade: missing upgrade headers in request"));
    }
    let offered: Vec<&str> =
        request.headers().get_all("x-stream-protocol-version").iter().map(|value| value.to_str().unwrap()).collect();
    let spoken = if parts[0] == "portForward" { "portforward.k8s.io" } else { "v4.channel.k8s.io" };
    if !offered.contains(&spoken) {
        return Ok(text_answer(403, "unable to upgrade: unable to negotiate protocol"));
    }
    let kind = parts[0].to_owned();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(connection) = upgrade.await else { return };
        let connection = TokioIo::new(connection);
        match kind.as_str() {
            "portForward" => forward::serve(connection).await,
            kind => command::serve(connection, kind, &query, trouble.is_some(), &shared).await,
        }
    });
    let mut response = text_answer(101, "");
    for (name, value) in [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", spoken)] {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    Ok(response)
}

/// Returns the log so far, and with `follow` later lines.
fn logs(query: &Query, shared: &Shared) -> Response<Body> {
    let lines = shared.log.subscribe();
    let tail = query.get("tailLines").and_then(|lines| lines.parse().ok()).unwrap_or(usize::MAX);
    let begin = lines.borrow().len().saturating_sub(tail);
    let follows = query.get("follow").is_some();
    let pieces = stream::unfold((lines, begin, true), move |(mut lines, at, first)| async move {
        if !first && (!follows || lines.wait_for(|lines| lines.len() > at).await.is_err()) {
            return None;
        }
        let (text, end) = {
            let lines = lines.borrow_and_update();
            (lines[at..].iter().map(|line| format!("{line}\n")).collect::<String>(), lines.len())
        };
        Some((Ok(BodyFrame::data(Bytes::from(text))), (lines, end, false)))
    });
    Response::new(BodyExt::boxed(StreamBody::new(pieces)))
}

fn text_answer(code: u16, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(text.to_owned())).map_err(|error: Infallible| match error {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
