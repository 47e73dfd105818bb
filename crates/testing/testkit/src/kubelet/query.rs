//! The query parameters of requests, and the time limit of sessions.

use std::time::Duration;

/// The time for which a session waits for the client to disconnect at the end.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// A decoded query string.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(text: &str) -> Self {
        let decode = |text: &str| {
            let mut out = Vec::new();
            let mut bytes = text.bytes();
            while let Some(byte) = bytes.next() {
                out.push(match byte {
                    b'+' => b' ',
                    b'%' => {
                        let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                        u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                    }
                    other => other,
                });
            }
            String::from_utf8(out).unwrap()
        };
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (decode(name), decode(value))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}
