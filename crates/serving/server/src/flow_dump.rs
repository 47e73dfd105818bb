//! `/debug/api_priority_and_fairness/`: the waiting requests and their queues.

use std::sync::Arc;

use binnacle_flowcontrol::FlowControl;
use binnacle_request::{BoxFuture, Handler, Request, RequestInfo, Response};

use crate::response::{page_not_found, plain_text};

const PREFIX: &str = "/debug/api_priority_and_fairness/";

/// Serves the tables, which are not in the index of paths.
pub struct FlowDumpHandler(pub Arc<FlowControl>);

impl FlowDumpHandler {
    fn table(&self, path: &str) -> Option<String> {
        match path.strip_prefix(PREFIX)? {
            "dump_priority_levels" => Some(self.0.dump_priority_levels()),
            "dump_queues" => Some(self.0.dump_queues()),
            "dump_requests" => Some(self.0.dump_requests()),
            _ => None,
        }
    }
}

impl Handler for FlowDumpHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path.starts_with(PREFIX)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move { self.table(&request.info.path).map_or_else(page_not_found, plain_text) })
    }
}
