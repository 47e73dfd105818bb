//! Admission webhooks: their calls for a request and the handling of their responses.
//!
//! [`Webhooks`] has the configurations of a type, which are compiled when they change. [`Mutating`] and [`Validating`]
//! are the plugins. A call (`call`) takes no longer than the request's remaining time, and after repeated slow failures
//! a backend is not called for a while (`breaker`).

mod audit;
mod backends;
mod breaker;
mod call;
#[cfg(test)]
mod dispatch_tests;
mod encodings;
mod hook;
mod managed_fields;
mod matching;
mod metrics;
mod mutating;
mod patch;
mod refusal;
mod response;
mod review;
mod table;
#[cfg(test)]
mod testing;
mod type_meta;
mod validating;
mod webhooks;

use binnacle_scheme::Kinds;

pub use backends::Backends;
pub use matching::PluginDependencies;
pub use metrics::Metrics;
pub use mutating::Mutating;
pub use table::WebhookReport;
pub use validating::Validating;
pub use webhooks::{WebhookKind, Webhooks};

/// Decodes a webhook's response for each review version, and returns the status of its denial, or the error of an
/// invalid response. For fuzzing.
pub fn read_response(kinds: &dyn Kinds, body: &[u8], mutating: bool) -> [Result<binnacle_meta::Status, String>; 2] {
    [review::ReviewVersion::V1, review::ReviewVersion::V1Beta1].map(|version| {
        match response::WebhookResponse::read(kinds, body, version, "", mutating) {
            Ok(answer) => Ok(refusal::refusal("w", answer.status.as_ref())),
            Err(response::ResponseError::Unreadable(why) | response::ResponseError::Invalid(why)) => Err(why),
        }
    })
}
