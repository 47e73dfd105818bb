//! Shared parts of the tests of strategies.

use std::sync::LazyLock;

use crate::{Features, StrategyContext};

/// The default features of the release.
pub(crate) static FEATURES: LazyLock<Features> = LazyLock::new(Features::default);

/// Returns a request at time zero, with the default features.
pub(crate) fn ctx(namespace: &'static str) -> StrategyContext<'static> {
    StrategyContext { now: 0, namespace, api_version: "", dry_run: false, features: &FEATURES }
}
