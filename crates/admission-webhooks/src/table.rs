//! The webhooks as a table, with their URLs and the states of their breakers.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::go_quote;

use crate::breaker::Report;
use crate::hook::Hook;
use crate::webhooks::Webhooks;

const HEAD: &str = "Type, Configuration, Webhook, Backend, State, CallsInVain, SecondsLeft, Reason\n";

impl Webhooks {
    /// Returns a line for each webhook, in the order of the calls.
    pub fn table(sources: &[Arc<Self>], now: Instant) -> String {
        let mut table = HEAD.to_owned();
        for source in sources {
            let of = source.kind().of_metrics().as_str();
            source.all().iter().for_each(|hook| write_line(of, hook, now, &mut table));
        }
        table
    }
}

fn write_line(of: &str, hook: &Hook, now: Instant, table: &mut String) {
    let (url, state, in_vain, left, why) = match &hook.backend {
        Err(why) => (String::new(), "unusable", 0, 0, why.clone()),
        Ok(backend) => {
            let url = backend.client.target().url.to_string();
            match backend.breaker.report(now) {
                Report::Open { in_vain } => (url, "called", in_vain, 0, String::new()),
                // Rounded up, so that after this time the backend is tried again.
                Report::Shut { left, why } => (url, "shut", 0, left.as_millis().div_ceil(1000), why),
                Report::Trying { why } => (url, "tried", 0, 0, why),
            }
        }
    };
    let why = if why.is_empty() { why } else { go_quote(&why) };
    // Writing to a string does not fail.
    let _ = writeln!(table, "{of}, {}, {}, {url}, {state}, {in_vain}, {left}, {why}", hook.configuration, hook.name);
}
