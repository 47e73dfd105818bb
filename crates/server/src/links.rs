//! The links in the order in which they are asked, and what answers when none of them claims a request.

use std::sync::Arc;

use binnacle_request::{Link, Request, Response};

use crate::answer::{page_not_found, raw_json};

/// The parts of the server, first come first served. The index at `/` is theirs together.
#[derive(Clone)]
pub struct Links {
    links: Arc<[Arc<dyn Link>]>,
}

impl Links {
    pub fn new(links: Vec<Arc<dyn Link>>) -> Self {
        Self { links: links.into() }
    }

    /// Lets the first link answer that claims the request.
    pub(crate) async fn dispatch(&self, request: Request) -> Response {
        if let Some(link) = self.links.iter().find(|link| link.claims(&request.info)) {
            return link.handle(request).await;
        }
        match request.info.path.as_str() {
            "" | "/" | "/index.html" => self.index(),
            _ => page_not_found(),
        }
    }

    fn index(&self) -> Response {
        let mut paths: Vec<String> = self.links.iter().flat_map(|link| link.paths()).collect();
        paths.sort_unstable();
        paths.dedup();
        raw_json(&serde_json::json!({ "paths": paths }))
    }
}
