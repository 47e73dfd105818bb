//! Reports of the webhooks, their URLs and the states of their breakers, as values and as a table.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::{Text, go_quote};

use crate::breaker::Report;
use crate::hook::Hook;
use crate::webhooks::Webhooks;

const HEAD: &str = "Type, Configuration, Webhook, Backend, State, Failures, SecondsLeft, Reason\n";

/// The state of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookReport {
    /// `admit` or `validating`, as in metrics.
    pub kind: &'static str,
    pub configuration: Text,
    pub name: Text,
    pub url: String,
    /// The state of the circuit breaker: `closed` (calls are allowed), `open` (no calls are allowed) or `half-open` (a
    /// trial call is running); `unusable` if the client configuration of the webhook is invalid.
    pub state: &'static str,
    /// The number of consecutive slow failures.
    pub in_vain: u32,
    /// The seconds until an open breaker allows a trial call, rounded up.
    pub seconds_left: u64,
    /// The reason for a state other than `closed`.
    pub why: String,
}

impl Webhooks {
    /// Returns the state of each webhook, in the order of calls.
    pub fn report(sources: &[Arc<Self>], now: Instant) -> Vec<WebhookReport> {
        let of = |source: &Arc<Self>| {
            let kind = source.kind().of_metrics().as_str();
            source.all().into_iter().map(move |hook| report(kind, &hook, now))
        };
        sources.iter().flat_map(of).collect()
    }

    /// Returns a line for each webhook, in the order of calls.
    pub fn table(sources: &[Arc<Self>], now: Instant) -> String {
        let mut table = HEAD.to_owned();
        for webhook in Self::report(sources, now) {
            let WebhookReport { kind, configuration, name, url, state, in_vain, seconds_left, why } = webhook;
            let why = if why.is_empty() { why } else { go_quote(&why) };
            // Writing to a string cannot fail.
            let _ =
                writeln!(table, "{kind}, {configuration}, {name}, {url}, {state}, {in_vain}, {seconds_left}, {why}");
        }
        table
    }
}

fn report(kind: &'static str, hook: &Hook, now: Instant) -> WebhookReport {
    let (url, state, in_vain, left, why) = match &hook.backend {
        Err(why) => (String::new(), "unusable", 0, 0, why.clone()),
        Ok(backend) => {
            let url = backend.client.target().url.to_string();
            match backend.breaker.report(now) {
                Report::Closed { failures } => (url, "closed", failures, 0, String::new()),
                // Rounded up, so that a trial call is allowed once this time has passed.
                Report::Open { left, why } => (url, "open", 0, left.as_millis().div_ceil(1000), why),
                Report::HalfOpen { why } => (url, "half-open", 0, 0, why),
            }
        }
    };
    let (configuration, name) = (hook.configuration.clone(), hook.name.clone());
    let seconds_left = u64::try_from(left).unwrap_or(u64::MAX);
    WebhookReport { kind, configuration, name, url, state, in_vain, seconds_left, why }
}
