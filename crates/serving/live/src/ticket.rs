//! Protection of the socket against cross-site requests. Browsers add a client certificate to every request, also to
//! those of pages of other sites, and the same-origin policy does not cover WebSockets. So a page must prove that this
//! server has served it: by its origin, or by a ticket, which only pages of this server can read. The ticket is for
//! proxies such as `kubectl proxy`, behind which the origin does not match the name of this server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_crypto::hmac;
use binnacle_crypto::rand::SystemRandom;

/// The prefix of the subprotocol that carries a ticket. A ticket in the URL would be logged.
pub(crate) const PREFIX: &str = "ticket.";
const LIFETIME: Duration = Duration::from_secs(30);

/// Issues and verifies tickets.
pub(crate) struct Tickets(hmac::Key);

impl Tickets {
    /// Returns `None` if the system provides no random numbers.
    pub(crate) fn new() -> Option<Self> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok().map(Self)
    }

    /// Returns a ticket for a user, which is valid for half a minute.
    pub(crate) fn issue(&self, user: &str, now: SystemTime) -> String {
        let until = seconds(now) + LIFETIME.as_secs();
        let tag = hmac::sign(&self.0, text(until, user).as_bytes());
        format!("{PREFIX}{until}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
    }

    /// Returns true if the ticket was issued to this user and has not expired.
    pub(crate) fn is_valid(&self, ticket: &str, user: &str, now: SystemTime) -> bool {
        let Some((until, tag)) = ticket.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')) else {
            return false;
        };
        let (Ok(until), Ok(tag)) = (until.parse::<u64>(), BASE64_URL_SAFE_NO_PAD.decode(tag)) else { return false };
        hmac::verify(&self.0, text(until, user).as_bytes(), &tag).is_ok() && seconds(now) <= until
    }
}

fn text(until: u64, user: &str) -> String {
    format!("{until} {user}")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns true if a page with this origin was served under the host of the request. Pages that were loaded without TLS
/// are not trusted.
pub(crate) fn is_own_origin(origin: &str, host: &str) -> bool {
    let plain = |authority: &str| authority.strip_suffix(":443").unwrap_or(authority).to_ascii_lowercase();
    let authority = origin.strip_prefix("https://").filter(|authority| !authority.is_empty());
    authority.is_some_and(|authority| plain(authority) == plain(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_own_unexpired_tickets() {
        let tickets = Tickets::new().unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let ticket = tickets.issue("alice", now);
        let later = |seconds| now + Duration::from_secs(seconds);
        let (head, tag) = ticket.rsplit_once('.').unwrap();
        let longer = format!("{PREFIX}{}.{tag}", seconds(now) + 9999);
        for (ticket, user, at, want) in [
            (ticket.as_str(), "alice", now, true),
            (&ticket, "alice", later(30), true),
            (&ticket, "alice", later(31), false),
            (&ticket, "bob", now, false),
            (&longer, "alice", now, false),
            (head, "alice", now, false),
            ("ticket.", "alice", now, false),
            ("ticket.1.", "alice", UNIX_EPOCH, false),
            ("", "alice", now, false),
        ] {
            assert_eq!(tickets.is_valid(ticket, user, at), want, "{ticket} {user}");
        }
        assert!(!Tickets::new().unwrap().is_valid(&ticket, "alice", now));
    }

    #[test]
    fn recognizes_own_origins() {
        for (origin, host, want) in [
            ("https://api.example.com:6443", "api.example.com:6443", true),
            ("https://API.example.com", "api.example.com:443", true),
            ("https://[::1]:6443", "[::1]:6443", true),
            ("http://api.example.com:6443", "api.example.com:6443", false),
            ("https://evil.example.com:6443", "api.example.com:6443", false),
            ("https://api.example.com.evil.com", "api.example.com", false),
            ("https://api.example.com:6444", "api.example.com:6443", false),
            ("http://127.0.0.1:8001", "api.example.com:6443", false),
            ("null", "null", false),
            ("https://", "", false),
            ("", "", false),
        ] {
            assert_eq!(is_own_origin(origin, host), want, "{origin} {host}");
        }
    }
}
