//! Profiles and flags for debugging the process: on paths of the server, and on a separate socket.

use std::sync::Arc;

use binnacle_request::{Handler, Shutdown};
use binnacle_server::{DebugFlagsHandler, DebugSocket, PprofHandler};
use tokio::task::JoinSet;

use crate::settings::Settings;

/// Adds the links that the settings enable, and listens on the socket in the settings. If the socket fails, the server
/// runs without it, as kube-apiserver does.
pub(super) fn serve(
    config: &Settings,
    links: &mut Vec<Arc<dyn Handler>>,
    watch_tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) {
    let profiles = PprofHandler::new(config.host.heap_profile.clone());
    let flags = DebugFlagsHandler(config.host.debug_flags.clone());
    if let Some(path) = &config.debugging.socket {
        match DebugSocket::bind(path, profiles.clone(), flags.clone()) {
            Ok(socket) => drop(watch_tasks.spawn(socket.serve(shutdown.clone()))),
            Err(error) => {
                tracing::error!(err = %error, path = %path.display(), "Could not start debugging socket");
            }
        }
    }
    if config.debugging.profiling {
        links.push(Arc::new(profiles));
        if !config.host.debug_flags.is_empty() {
            links.push(Arc::new(flags));
        }
    }
}
