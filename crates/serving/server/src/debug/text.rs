//! A page of plain text about the server itself, generated per request.

use binnacle_request::{BoxFuture, Handler, Request, RequestInfo, Response};

use crate::response::plain_text;

/// Serves one page, which is not in the index of paths.
pub struct DebugTextHandler {
    path: &'static str,
    text: Box<dyn Fn() -> String + Send + Sync>,
}

impl DebugTextHandler {
    pub fn new(path: &'static str, text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { path, text: Box::new(text) }
    }
}

impl Handler for DebugTextHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path == self.path
    }

    fn handle(&self, _: Request) -> BoxFuture<'_, Response> {
        Box::pin(async { plain_text((self.text)()) })
    }
}
