//! Validation of the files in settings, without a server.

use std::sync::Arc;

use binnacle_audit::Policy;
use binnacle_metrics::Registry;

use super::config_files::ConfigFiles;
use super::inputs::{load_egress, load_plugin_options};
use super::{StartFailure, manifests};
use crate::authentication::{AuthenticationError, check_shared_authority};
use crate::authority_bundle::Bundle;
use crate::data_dir::default_path;
use crate::settings::Settings;

/// Reads all files as a start does. Opens no connections, and leaves nothing behind.
pub(crate) fn check_files(settings: &Settings) -> Result<(), StartFailure> {
    // These metrics are never shown.
    let metrics = Registry::new();
    let files = ConfigFiles::load(settings, &load_egress(settings, &metrics)?)?;
    check_own_authority(settings, &files)?;
    let features = Arc::new(settings.features());
    let plugins = load_plugin_options(settings, &features)?;
    manifests::check(&plugins.manifests, &features)?;
    if let Some(path) = &settings.auditing.policy_file {
        Policy::load(path).map_err(binnacle_audit::OptionsError::from)?;
    }
    if let Some(shadow) = &settings.debugging.shadow {
        shadow.check().map_err(StartFailure::Shadow)?;
    }
    if let Some(path) = &settings.storage.encryption_file {
        binnacle_encryption::check(path, settings.storage.encryption_reload)?;
    }
    Ok(())
}

/// Checks that proxies do not have the authority that the server made for clients, if it has made one already.
fn check_own_authority(settings: &Settings, files: &ConfigFiles) -> Result<(), StartFailure> {
    let default = || if settings.storage.ephemeral { None } else { default_path() };
    let directory = settings.storage.data_dir.clone().or_else(default);
    let bundle = directory.map(|directory| directory.join("pki/ca-bundle.crt")).filter(|path| path.exists());
    let (None, Some(path), Some(proxies)) = (&files.authentication.clients, bundle, &files.authentication.proxies)
    else {
        return Ok(());
    };
    let own = Bundle::load("client-ca-bundle", &path).map_err(AuthenticationError::from)?;
    check_shared_authority(&settings.authentication, &own, proxies).map_err(AuthenticationError::from)?;
    Ok(())
}
