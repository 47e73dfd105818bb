//! The log of a container, streamed from its kubelet.

use binnacle_client::{SendError, Target};
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Pod, PodSpec};
use binnacle_meta::{GroupResource, Status};
use binnacle_proxy::{self as proxy, OnBodyError};
use binnacle_registry::object;
use binnacle_request::{Body, BoxFuture, Request, Response};
use binnacle_streams::{as_messages, is_websocket};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};

use super::log_options::LogOptions;
use super::{Nodes, StreamMetrics, container};
use crate::connect::until_shutdown;

/// The maximum number of bytes of a kubelet's error that are returned.
const MAX_ERROR_BYTES: usize = 50_000;

pub(crate) struct Log {
    nodes: Nodes,
    metrics: StreamMetrics,
}

impl Log {
    pub(crate) fn new(nodes: Nodes, metrics: StreamMetrics) -> Self {
        Self { nodes, metrics }
    }

    async fn stream_log(&self, request: Request) -> HandlerResult {
        let info = request.info.clone();
        let options = LogOptions::of(
            &request.query,
            &info.name,
            self.nodes.resources.features().enabled("PodLogsQuerySplitStreams"),
        )?;
        let skips_verification = options.insecure_skip_tls_verify_backend;
        self.metrics
            .logs_usage
            .with_label_values(&[if skips_verification { "skip_tls_allowed" } else { "enforce_tls" }])
            .inc();

        let pod = self.nodes.pod(&info).await?;
        let container = container::choose(&options.container, &pod)?;
        let node = FieldRef::<Pod>::root(&pod).at(Pod::SPEC).at(PodSpec::NODE_NAME).str();
        if node.is_empty() {
            // A pod without a node does not run and has no log.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        }
        let kubelet = self.nodes.kubelet(&info, node).await?;
        let target = if skips_verification { &kubelet.unverified } else { &kubelet.target };
        let path = format!("/containerLogs/{}/{}/{container}", info.namespace, object::name(&pod));
        let log = self.request_log(target, &format!("{path}{}", options.query()), &info.name).await?;
        let body = proxy::until_shutdown(log, &request.connection, &request.shutdown, OnBodyError::End);
        if is_websocket(&request.headers) {
            return as_messages(request, body);
        }
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(response)
    }

    async fn request_log(&self, target: &Target, path_and_query: &str, pod: &str) -> Result<Body, Status> {
        let failed = |why: &str| Status::unknown(500, why);
        let get = |why: &str| failed(&format!("Get {}: {why}", binnacle_meta::go_quote(&target.url(path_and_query))));
        let mut log_request = http::Request::new(Body::empty());
        *log_request.uri_mut() = path_and_query.parse().map_err(|_| Status::bad_request("invalid path"))?;
        log_request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("kube-apiserver"));
        let response = binnacle_client::send(target, log_request).await.map_err(|error| {
            if let SendError::Dial(dial) = &error
                && dial.unverified
            {
                self.metrics.logs_tls_failures.with_label_values::<&str>(&[]).inc();
            }
            get(&error.to_string())
        })?;
        let code = response.status();
        if code.is_redirection()
            && let Some(location) = response.headers().get(LOCATION).and_then(|location| location.to_str().ok())
        {
            return Err(failed(&format!("Get {}: redirects forbidden", binnacle_meta::go_quote(location))));
        }
        let body = Body::new(response.into_body());
        if (200..=206).contains(&code.as_u16()) {
            return Ok(body);
        }
        Err(failure_status(code.as_u16(), &read_prefix(body).await?, pod))
    }
}

impl SubresourceHandler for Log {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(async move {
            let shutdown = call.request.shutdown.clone();
            until_shutdown(&shutdown, self.stream_log(call.request)).await
        })
    }

    fn negotiates(&self) -> bool {
        false
    }
}

/// Returns the first bytes of a body, as text.
async fn read_prefix(mut body: Body) -> Result<String, Status> {
    use http_body_util::BodyExt;
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ERROR_BYTES
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame.map_err(Status::internal)?.into_data() {
            data.iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
    }
    bytes.truncate(MAX_ERROR_BYTES);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the status for an error of the kubelet.
fn failure_status(code: u16, text: &str, pod: &str) -> Status {
    match code {
        500 => Status::internal(text),
        400 => Status::bad_request(text),
        code => Status::of_server(code, "", &GroupResource::new("", "pods/log"), pod, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_kubelet_failures_to_statuses() {
        for (code, text, want) in [
            (400, "no such container", "400 no such container"),
            (500, "broken", "500 Internal error occurred: broken"),
            (404, "gone", "404 the server could not find the requested resource ( pods/log p)"),
            (
                502,
                "bad",
                "502 an error on the server (\"bad\") has prevented the request from succeeding ( pods/log p)",
            ),
            (
                304,
                "",
                "500 the server responded with the status code 304 but did not return more information ( pods/log p)",
            ),
            (403, "Forbidden (user=x)", "403 Forbidden (user=x) ( pods/log p)"),
        ] {
            let status = failure_status(code, text, "p");
            assert_eq!(format!("{} {}", status.code(), status.message()), want);
        }
    }
}
