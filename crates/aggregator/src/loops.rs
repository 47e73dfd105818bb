//! Servers that hand requests on to each other: one that comes back to a server which has handed it on goes no further.

use http::HeaderMap;
use http::header::{HeaderValue, VIA};
use uuid::Uuid;

/// This server among those that a request went through, by a name that is made at each start.
pub(crate) struct Hop(HeaderValue);

impl Hop {
    pub(crate) fn new() -> Self {
        let name = format!("1.1 binnacle-{}", Uuid::new_v4().simple());
        // The header of who never went through is never compared.
        Self(HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("1.1 binnacle")))
    }

    /// Notes that a request goes through; false when it has done so before.
    pub(crate) fn note(&self, headers: &mut HeaderMap) -> bool {
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
    fn a_request_goes_through_once() {
        let (one, other) = (Hop::new(), Hop::new());
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.1 elsewhere"));
        assert!(one.note(&mut headers) && other.note(&mut headers));
        assert!(!one.note(&mut headers) && !other.note(&mut headers));
        // Others write all into one header.
        let all: Vec<&str> = headers.get_all(VIA).iter().map(|value| value.to_str().unwrap()).collect();
        let all = HeaderValue::try_from(all.join(", ")).unwrap();
        let mut headers = HeaderMap::from_iter([(VIA, all)]);
        assert!(!one.note(&mut headers) && Hop::new().note(&mut headers));
    }
}
