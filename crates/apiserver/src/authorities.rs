//! The files with the authorities of clients and proxies: a change takes effect at once, and extension API servers, which
//! trust the same authorities, are told of it.

use std::path::PathBuf;

use binnacle_request::Shutdown;
use tokio::task::JoinSet;

use crate::authentication::Bundle;
use crate::reload;

/// Follows the file of a bundle until the server ends. `tell` gets what is trusted after a change.
pub(crate) fn follow(
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
    (path, bundle): (PathBuf, &Bundle),
    tell: impl Fn(String) + Send + Sync + 'static,
) {
    let authorities = bundle.authorities.clone();
    reload::follow(tasks, path, shutdown, move |pem| {
        authorities.replace(pem)?;
        tell(String::from_utf8_lossy(pem).into_owned());
        Ok::<_, binnacle_authn::AuthoritiesError>(())
    });
}
