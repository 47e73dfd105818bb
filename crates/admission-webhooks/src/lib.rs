//! Admission webhooks: the calls for a request, their contents, and the meaning of the answers.
//!
//! [`Webhooks`] holds one kind of configurations, compiled once for each change; [`Mutating`] and [`Validating`] are
//! the plugins. A call (`call`) takes no more than the request's remaining time, and a backend that does not answer
//! is left alone for a while (`breaker`).

mod answer;
mod audit;
mod backends;
mod breaker;
mod call;
mod forms;
mod hook;
mod managed_fields;
mod matching;
mod metrics;
mod mutating;
mod patching;
mod refusal;
mod review;
mod table;
mod validating;
mod webhooks;

use binnacle_scheme::Kinds;

pub use backends::Backends;
pub use matching::Surroundings;
pub use metrics::Metrics;
pub use mutating::Mutating;
pub use validating::Validating;
pub use webhooks::{WebhookKind, Webhooks};

/// Reads the bytes of a webhook's answer to each version of a review: the refusal that they would be, or the reason why
/// they are no answer. For callers that try any bytes.
pub fn read_answer(kinds: &dyn Kinds, body: &[u8], mutating: bool) -> [Result<binnacle_meta::Status, String>; 2] {
    [review::ReviewVersion::V1, review::ReviewVersion::V1Beta1].map(|version| {
        match answer::Answer::read(kinds, body, version, "", mutating) {
            Ok(answer) => Ok(refusal::refusal("w", answer.status.as_ref())),
            Err(answer::BadAnswer::Unreadable(why) | answer::BadAnswer::Invalid(why)) => Err(why),
        }
    })
}
