//! A handler whose requests are sampled.

use std::sync::Arc;

use binnacle_request::{BoxFuture, Handler, Request, RequestInfo, Response};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, WARNING};
use parking_lot::Mutex;

use super::capture::{Capture, Part, tee};
use super::{Sample, Shadow, WATCHED_BYTES};
use crate::subject::{Kind, Subject};

pub(super) struct ShadowHandler {
    pub(super) inner: Arc<dyn Handler>,
    pub(super) shadow: Arc<Shadow>,
}

impl Handler for ShadowHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        self.inner.matches(info)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        match self.shadow.sample(&request) {
            None => self.inner.handle(request),
            Some(subject) => Box::pin(self.handle_sampled(request, subject)),
        }
    }

    fn paths(&self) -> Vec<String> {
        self.inner.paths()
    }
}

impl ShadowHandler {
    async fn handle_sampled(&self, mut request: Request, subject: Subject) -> Response {
        let sent: Arc<Mutex<Option<Capture>>> = Arc::default();
        let slot = sent.clone();
        let body = std::mem::take(&mut request.body);
        request.body = tee(body, Part::All, self.shadow.budget.clone(), move |capture| *slot.lock() = Some(capture));
        let response = self.inner.handle(request).await;
        let shadow = self.shadow.clone();
        let (parts, body) = response.into_parts();
        let (status, headers) = (parts.status.as_u16(), compared_headers(&parts.headers));
        let part = match subject.kind {
            Kind::Watch if status == 200 => Part::Beginning(WATCHED_BYTES),
            _ => Part::All,
        };
        let body = tee(body, part, self.shadow.budget.clone(), move |received| {
            if let Some(sent) = sent.lock().take() {
                shadow.submit(Sample { subject, sent, status, headers, received });
            }
        });
        Response::from_parts(parts, body)
    }
}

/// Returns the headers that a comparison reads.
fn compared_headers(headers: &HeaderMap) -> HeaderMap {
    let mut copy = HeaderMap::new();
    for name in [CONTENT_TYPE, WARNING] {
        for value in headers.get_all(&name) {
            copy.append(&name, value.clone());
        }
    }
    copy
}
