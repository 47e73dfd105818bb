//! Validation of the files in settings, without a server.

use std::sync::Arc;

use binnacle_audit::Policy;
use binnacle_metrics::Registry;

use super::{Named, StartFailure, load_egress, load_plugin_options, manifests};
use crate::settings::Settings;

/// Reads all files as a start does. Opens no connections, and leaves nothing behind.
pub(crate) fn check_files(settings: &Settings) -> Result<(), StartFailure> {
    // These metrics are never shown.
    let metrics = Registry::new();
    Named::load(settings, &load_egress(settings, &metrics)?)?;
    let features = Arc::new(settings.features());
    let plugins = load_plugin_options(settings, &features)?;
    manifests::check(&plugins.manifests, &features)?;
    if let Some(path) = &settings.auditing.policy_file {
        Policy::load(path).map_err(binnacle_audit::OptionsError::from)?;
    }
    if let Some(path) = &settings.storage.encryption_file {
        binnacle_encryption::check(path, settings.storage.encryption_reload)?;
    }
    Ok(())
}
