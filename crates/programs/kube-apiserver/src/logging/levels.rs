//! The verbosity of the log, as in klog: for all files or for those that match a pattern.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use binnacle_server::SLOW_REQUESTS;
use parking_lot::RwLock;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::flags::Module;

/// Kubernetes' levels are numbers: up to 2 for normal operation, 3 and 4 show each request, 6 and above are for
/// debugging the server itself. Libraries are one level quieter.
pub(crate) struct Levels {
    verbosity: AtomicU32,
    /// Files with their own verbosity; the first match counts.
    modules: RwLock<Vec<Module>>,
}

impl Levels {
    pub(crate) fn new(verbosity: u32, modules: &[Module]) -> Self {
        Self { verbosity: AtomicU32::new(verbosity), modules: RwLock::new(modules.to_vec()) }
    }

    /// Sets the verbosity from here on. Files with their own keep it.
    pub(crate) fn set(&self, verbosity: u32) {
        self.verbosity.store(verbosity, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Replaces the files with their own verbosity.
    pub(crate) fn set_modules(&self, modules: Vec<Module>) {
        *self.modules.write() = modules;
        tracing::callsite::rebuild_interest_cache();
    }

    /// Returns the filter for the log layer.
    pub(crate) fn filter(self: Arc<Self>) -> LevelsFilter {
        LevelsFilter(self)
    }

    fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let own = is_own(metadata.target());
        let global = self.verbosity.load(Ordering::Relaxed);
        let modules = self.modules.read();
        let verbosity = match metadata.file().filter(|_| own && !modules.is_empty()) {
            Some(file) => modules.iter().find(|module| matches(&module.pattern, file)).map_or(global, |m| m.verbosity),
            None => global,
        };
        *metadata.level() <= max_level(verbosity, own) && (verbosity >= 2 || metadata.target() != SLOW_REQUESTS)
    }

    fn highest(&self) -> u32 {
        let modules = self.modules.read().iter().map(|module| module.verbosity).max().unwrap_or(0);
        self.verbosity.load(Ordering::Relaxed).max(modules)
    }
}

fn is_own(target: &str) -> bool {
    ["binnacle", "kube_apiserver", "http"].iter().any(|own| target.starts_with(own))
}

fn max_level(verbosity: u32, own: bool) -> Level {
    match (verbosity, own) {
        (0..=2, false) => Level::WARN,
        (0..=2, true) | (3..=5, false) => Level::INFO,
        (3..=5, true) | (_, false) => Level::DEBUG,
        (_, true) => Level::TRACE,
    }
}

/// Returns klog's verbosity of an event.
pub(super) fn verbosity_of(level: &Level) -> u32 {
    match *level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => 3,
        Level::TRACE => 6,
    }
}

/// Returns true if a file matches: patterns with a slash match its whole path, others its name, both without the
/// suffix.
fn matches(pattern: &str, file: &str) -> bool {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    match pattern.contains('/') {
        true => glob(pattern.as_bytes(), path.as_bytes()),
        false => glob(pattern.as_bytes(), path.rsplit('/').next().unwrap_or(path).as_bytes()),
    }
}

/// Matches `*` with any bytes except slashes, and `?` with any one of them.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(from) {
            Some(b'*') => {
                star = Some((from + 1, at));
                from += 1;
            }
            Some(byte) if *byte == text[at] || (*byte == b'?' && text[at] != b'/') => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((after_star, star_at)) if text[star_at] != b'/' => {
                    star = Some((after_star, star_at + 1));
                    (from, at) = (after_star, star_at + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[from..].iter().all(|byte| *byte == b'*')
}

/// [`Levels`] as a filter of `tracing`. The result for a call site is cached until the levels change.
pub(crate) struct LevelsFilter(Arc<Levels>);

impl<S: Subscriber> Layer<S> for LevelsFilter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.allows(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.allows(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(max_level(self.0.highest(), true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_vmodule_patterns() {
        for (pattern, file, want) in [
            ("chain", "crates/server/src/chain.rs", true),
            ("chai", "crates/server/src/chain.rs", false),
            ("ch*", "crates/server/src/chain.rs", true),
            ("c?ai?", "crates/server/src/chain.rs", true),
            ("*", "crates/server/src/chain.rs", true),
            ("*n*", "crates/server/src/chain.rs", true),
            ("*x*", "crates/server/src/chain.rs", false),
            ("src/chain", "crates/server/src/chain.rs", false),
            ("crates/*/src/chain", "crates/server/src/chain.rs", true),
            ("crates/*/chain", "crates/server/src/chain.rs", false),
            ("", "chain.rs", false),
        ] {
            assert_eq!(matches(pattern, file), want, "{pattern} {file}");
        }
    }

    #[test]
    fn maps_verbosity_to_levels() {
        for (verbosity, own, want) in [
            (0, true, Level::INFO),
            (0, false, Level::WARN),
            (3, true, Level::DEBUG),
            (3, false, Level::INFO),
            (6, true, Level::TRACE),
            (100, false, Level::DEBUG),
        ] {
            assert_eq!(max_level(verbosity, own), want, "{verbosity} {own}");
        }
    }
}
