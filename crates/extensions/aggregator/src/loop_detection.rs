//! Detection of forwarding loops: a server refuses a request that it has already forwarded.

use http::HeaderMap;
use http::header::{HeaderValue, VIA};
use uuid::Uuid;

/// This server's entry in the `Via` header, with a new name for each start of the server.
pub(crate) struct Hop(HeaderValue);

impl Hop {
    pub(crate) fn new() -> Self {
        let name = format!("1.1 binnacle-{}", Uuid::new_v4().simple());
        // The name is always valid in a header.
        Self(HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("1.1 binnacle")))
    }

    /// Adds this server to the `Via` header; returns false if it is already there.
    pub(crate) fn record(&self, headers: &mut HeaderMap) -> bool {
        let is_this = |value: &HeaderValue| {
            value.as_bytes().split(|byte| *byte == b',').any(|hop| hop.trim_ascii() == self.0.as_bytes())
        };
        if headers.get_all(VIA).iter().any(is_this) {
            return false;
        }
        headers.append(VIA, self.0.clone());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_forwarding_loops() {
        let (one, other) = (Hop::new(), Hop::new());
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.1 elsewhere"));
        assert!(one.record(&mut headers) && other.record(&mut headers));
        assert!(!one.record(&mut headers) && !other.record(&mut headers));
        // Other servers may join all entries in one header.
        let all: Vec<&str> = headers.get_all(VIA).iter().map(|value| value.to_str().unwrap()).collect();
        let all = HeaderValue::try_from(all.join(", ")).unwrap();
        let mut headers = HeaderMap::from_iter([(VIA, all)]);
        assert!(!one.record(&mut headers) && Hop::new().record(&mut headers));
    }
}
