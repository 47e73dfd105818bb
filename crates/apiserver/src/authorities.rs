//! The files with the authorities of clients and proxies: a change takes effect at once, and is published for extension
//! API servers, which trust the same authorities.

use std::path::PathBuf;

use binnacle_controlplane::{Config, RequestHeader, publish_authentication};
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use tokio::task::JoinSet;

use crate::authentication::Bundle;
use crate::reload;

/// Follows the file of a bundle until the server ends. `told` returns the settings to publish after a change.
pub(crate) fn follow(
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
    (path, bundle): (PathBuf, &Bundle),
    resources: &Catalog,
    told: impl Fn(String) -> Config + Send + Sync + 'static,
) {
    let (authorities, resources) = (bundle.authorities.clone(), resources.clone());
    reload::follow(tasks, path, shutdown, move |pem| {
        authorities.replace(pem)?;
        let (config, resources) = (told(String::from_utf8_lossy(pem).into_owned()), resources.clone());
        tokio::spawn(async move {
            if let Err(status) = publish_authentication(&resources, &config).await {
                tracing::error!("cannot tell of changed authorities: {}", status.message());
            }
        });
        Ok::<_, binnacle_authn::AuthoritiesError>(())
    });
}

/// Returns the settings to publish for the authorities of clients.
pub(crate) fn of_clients(pem: String) -> Config {
    Config { client_ca: Some(pem), ..Config::default() }
}

/// Returns a function from the authorities of proxies to the settings to publish.
pub(crate) fn of_proxies(header: RequestHeader) -> impl Fn(String) -> Config + Send + Sync + 'static {
    move |pem| Config { request_header: Some(RequestHeader { client_ca: pem, ..header.clone() }), ..Config::default() }
}
