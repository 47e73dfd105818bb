//! The width of a request in seats: one, or more for lists, depending on the memory that they read.

use std::sync::Arc;

use binnacle_request::{Query, RequestInfo};

/// The number and size of the stored objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListSize {
    pub objects: u64,
    /// The total size of the objects.
    pub bytes: u64,
}

/// Returns the size of a request's resource; `None` if this server does not serve it.
pub type ListSizes = Arc<dyn Fn(&RequestInfo) -> Option<ListSize> + Send + Sync>;

/// Returns the number of watches of a request's resource; `None` if the resource is not served, or the number is not
/// available without waiting.
pub type WatcherCounts = Arc<dyn Fn(&RequestInfo) -> Option<usize> + Send + Sync>;

const BYTES_PER_SEAT: u64 = 100_000;
/// The maximum memory of a list, since lists are streamed from shared memory.
const MAX_BYTES: u64 = 1_000_000;
/// The maximum fraction of a level's seats that a request may take, which leaves seats for others.
const MAX_LEVEL_FRACTION: f64 = 0.15;
const MAX_SEATS: usize = 100;

/// Returns the seats of a request in a level with `level_seats`.
pub fn seats(info: &RequestInfo, query: &Query, sizes: &ListSizes, level_seats: u32, hand_size: usize) -> usize {
    let max = max_seats(level_seats, hand_size);
    match info.verb.as_str() {
        "list" => {}
        // A watch with initial events starts with a list.
        "watch" if has_initial_list(query) => {}
        _ => return 1,
    }
    let Some(size) = sizes(info) else { return 1 };
    if !info.is_resource_request || size.objects == 0 {
        return 1;
    }
    let limit = query.get("limit").and_then(|text| text.parse::<u64>().ok()).filter(|limit| *limit > 0);
    let objects = if info.name.is_empty() { size.objects.min(limit.unwrap_or(u64::MAX)) } else { 1 };
    let bytes = (size.bytes / size.objects).saturating_mul(objects).min(MAX_BYTES);
    usize::try_from(bytes.div_ceil(BYTES_PER_SEAT)).unwrap_or(max).clamp(1, max)
}

fn has_initial_list(query: &Query) -> bool {
    query.flag("sendInitialEvents") || matches!(query.get("resourceVersion").unwrap_or_default(), "" | "0")
}

fn max_seats(level_seats: u32, hand_size: usize) -> usize {
    let part = (f64::from(level_seats) * MAX_LEVEL_FRACTION).ceil() as usize;
    part.min(level_seats as usize / hand_size.max(1)).clamp(1, MAX_SEATS)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn estimates_seats_of_requests() {
        let sizes: ListSizes =
            Arc::new(|info| (info.resource == "pods").then_some(ListSize { objects: 1000, bytes: 5_000_000 }));
        for (method, uri, want) in [
            (Method::GET, "/api/v1/pods", 10),
            (Method::GET, "/api/v1/pods?limit=20", 1),
            (Method::GET, "/api/v1/pods?limit=50", 3),
            (Method::GET, "/api/v1/pods?fieldSelector=metadata.name%3Dx", 1),
            (Method::GET, "/api/v1/pods?watch=1", 10),
            (Method::GET, "/api/v1/pods?watch=1&resourceVersion=7", 1),
            (Method::GET, "/api/v1/pods?watch=1&resourceVersion=7&sendInitialEvents=true", 10),
            (Method::GET, "/api/v1/namespaces/n/pods/p", 1),
            (Method::POST, "/api/v1/namespaces/n/pods", 1),
            (Method::GET, "/api/v1/nodes", 1),
            (Method::GET, "/version", 1),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let query = Query::parse(query);
            let info = RequestInfo::parse(&method, path, &query, uri).unwrap();
            assert_eq!(seats(&info, &query, &sizes, 600, 8), want, "{uri}");
        }
        assert_eq!((max_seats(600, 8), max_seats(20, 8), max_seats(1, 8), max_seats(0, 0)), (75, 2, 1, 1));
    }
}
