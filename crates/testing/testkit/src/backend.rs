//! A plain HTTP server like one in a pod, which returns the requests that it received.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running server, until dropped.
pub struct Backend {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Backend {
    /// Starts it on a free port. `/moved` redirects to `/here`, `/page` is a page with a link to `/here`, an upgrade
    /// gets an echo of each line reversed, and any other request is returned as JSON, with `name`.
    pub async fn start(ip: IpAddr, name: &str) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let name: Arc<str> = name.into();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let name = name.clone();
                let service = service_fn(move |request| answer(name.clone(), request));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection.with_upgrades());
            }
        });
        Self { address, task }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(name: Arc<str>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = Response::builder();
    let none = Full::default();
    if request.headers().contains_key(header::UPGRADE) {
        let protocol = request.headers()[header::UPGRADE].clone();
        tokio::spawn(echo(request));
        let answer = answer.status(101).header(header::CONNECTION, "Upgrade").header(header::UPGRADE, protocol);
        return Ok(answer.body(none).unwrap());
    }
    Ok(match request.uri().path() {
        "/moved" => answer.status(302).header(header::LOCATION, "/here?from=moved").body(none).unwrap(),
        "/page" => {
            let page = "<html><body><a href=\"/here\">here</a></body></html>";
            answer.header(header::CONTENT_TYPE, "text/html").body(page.into()).unwrap()
        }
        _ => {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let headers: serde_json::Map<_, _> = parts
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
                .collect();
            let told = json!({
                "name": &*name, "method": parts.method.as_str(), "target": parts.uri.to_string(), "headers": headers,
                "body": String::from_utf8_lossy(&body)
            });
            answer.header(header::CONTENT_TYPE, "application/json").body(told.to_string().into()).unwrap()
        }
    })
}

/// Returns each line reversed.
async fn echo(request: Request<Incoming>) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
    let (read, mut write) = tokio::io::split(TokioIo::new(upgraded));
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let back: String = line.chars().rev().chain(['\n']).collect();
        if write.write_all(back.as_bytes()).await.is_err() {
            break;
        }
    }
}
