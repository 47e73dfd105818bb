//! Continue tokens of paginated lists: the revision of the first page and the start key of the next page, in
//! kube-apiserver's format, so that both servers accept each other's tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use binnacle_meta::{Base64, Status};
use binnacle_schema::Value;

const VERSION: &str = "meta.k8s.io/v1";
/// Longer tokens are invalid, since the lengths of names and therefore of keys are limited.
const MAX_LENGTH: usize = 8 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// Negative for the newest revision, which is used after the revision of the first page was compacted.
    pub revision: i64,
    /// The key without the prefix of the list.
    pub start: String,
}

impl ContinueToken {
    pub fn encode(&self) -> String {
        let start = serde_json::Value::from(self.start.as_str());
        URL_SAFE_NO_PAD.encode(format!("{{\"v\":\"{VERSION}\",\"rv\":{},\"start\":{start}}}", self.revision))
    }

    pub fn decode(token: &str) -> Result<Self, Status> {
        let fail =
            |why: String| Err(Status::bad_request(format!("invalid continue token: continue key is not valid: {why}")));
        let data = match (token.len() <= MAX_LENGTH).then(|| Base64::UrlUnpadded.decode(token)) {
            Some(Ok(data)) => data,
            Some(Err(at)) => return fail(format!("illegal base64 data at input byte {at}")),
            None => return fail("token too long".to_owned()),
        };
        let value = match binnacle_schema::json::parse(&data, &binnacle_schema::Limits::default()) {
            Ok(value) => value,
            Err(error) => return fail(error.to_string()),
        };
        let json_type = match &value {
            Value::List(_) => Some("array"),
            Value::Str(_) => Some("string"),
            Value::Bool(_) => Some("bool"),
            Value::Int(_) | Value::Float(_) => Some("number"),
            _ => None,
        };
        if let Some(json_type) = json_type {
            return fail(format!("json: cannot unmarshal {json_type} into Go value of type storage.continueToken"));
        }
        let version = value.str_at(&["v"]);
        if version != VERSION {
            return fail(format!("server does not recognize this encoded version {version}"));
        }
        let revision = value.int_at(&["rv"]).unwrap_or(0);
        if revision == 0 {
            return fail(format!("incorrect encoded start resourceVersion (version {VERSION})"));
        }
        let start = value.str_at(&["start"]);
        if start.is_empty() {
            return fail(format!("encoded start key empty (version {VERSION})"));
        }
        // kube-apiserver's cache adds a slash in front.
        let relative = start.strip_prefix('/').unwrap_or(start);
        // A key outside of its prefix would read other resources.
        if clean(start) != relative {
            return fail(start.to_owned());
        }
        Ok(Self { revision, start: relative.to_owned() })
    }
}

/// Removes `.`, `..` and empty segments, like Go's `path.Clean` of `/path` without its first slash.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_own_and_cache_tokens() {
        let token = ContinueToken { revision: 42, start: "default/web\u{0}".to_owned() };
        let cache_token = ContinueToken { start: format!("/{}", token.start), ..token.clone() };
        for encoded in [token.encode(), cache_token.encode()] {
            assert_eq!(ContinueToken::decode(&encoded), Ok(token.clone()));
        }
    }

    #[test]
    fn rejects_malformed_tokens() {
        for (token, want) in [
            (
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0",
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            ("!", "illegal base64 data at input byte 0"),
            ("x", "illegal base64 data at input byte 0"),
            ("eyJ2x", "illegal base64 data at input byte 4"),
            ("W10", "json: cannot unmarshal array into Go value of type storage.continueToken"),
            ("eyJ2IjoieCJ9", "server does not recognize this encoded version x"),
            (
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJ4In0",
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
        ] {
            let status = ContinueToken::decode(token).expect_err("is broken");
            assert!(status.message().ends_with(want), "{}", status.message());
        }
        let escape = ContinueToken { revision: 1, start: "../secrets/x".to_owned() }.encode();
        assert!(ContinueToken::decode(&escape).is_err());
    }
}
