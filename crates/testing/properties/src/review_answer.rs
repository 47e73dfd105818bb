//! Reviews from admission webhooks.

use binnacle_admission_webhooks::read_response;
use binnacle_kinds::BuiltInKinds;
use binnacle_schema::{Limits, Value, json};

/// The input is a webhook's review: it is accepted, or refused with a message of limited length, and clients can decode
/// the Status of a refusal.
pub fn review_answer(data: &[u8]) {
    for mutating in [true, false] {
        for told in read_response(&BuiltInKinds, data, mutating) {
            match told {
                Ok(status) => {
                    let limits = Limits { max_bytes: usize::MAX, max_memory: usize::MAX, ..Limits::default() };
                    let status = json::parse(status.to_json().as_bytes(), &limits);
                    assert!(status.is_ok_and(|status| matches!(status, Value::Object(_))), "a refusal is a Status");
                }
                Err(why) => assert!(!why.is_empty(), "what is no answer is told why"),
            }
        }
    }
}
