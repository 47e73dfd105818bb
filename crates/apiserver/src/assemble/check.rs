//! Validation of the files in settings, without a server.

use std::sync::Arc;

use binnacle_admission::PluginOptions;
use binnacle_audit::Policy;
use binnacle_egress::{DialMetrics, Egress};
use prometheus::Registry;

use super::{Named, StartFailure, manifests, not_registered};
use crate::settings::Settings;

/// Reads all files as a start does. Opens no connections, and leaves nothing behind.
pub(crate) fn check_files(settings: &Settings) -> Result<(), StartFailure> {
    // These metrics are never shown.
    let metrics = Registry::new();
    let egress = match settings.debugging.egress_config.as_deref() {
        Some(path) => Egress::load(path, &DialMetrics::register(&metrics).map_err(not_registered)?)?,
        None => Egress::default(),
    };
    Named::load(settings, &egress)?;
    let features = Arc::new(settings.features());
    let mut plugins = PluginOptions { features: features.clone(), ..settings.admission.options.clone() };
    let asked = |plugin: &str| settings.admission.enables(plugin);
    binnacle_admission::configure(settings.admission.config_file.as_deref(), &asked, &mut plugins)?;
    manifests::check(&plugins.manifests, &features)?;
    if let Some(path) = &settings.auditing.policy_file {
        Policy::load(path).map_err(binnacle_audit::OptionsError::from)?;
    }
    if let Some(path) = &settings.storage.encryption_file {
        binnacle_encryption::check(path, settings.storage.encryption_reload)?;
    }
    Ok(())
}
