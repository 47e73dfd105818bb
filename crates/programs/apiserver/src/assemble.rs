//! Assembles the whole server in phases: [`Inputs`], [`Security`], [`Apis`], [`Background`], [`listen`]. Each consumes
//! the last one.

mod address;
mod apis;
mod background;
mod built_in;
mod check;
mod client_access;
mod config_files;
mod debugging;
mod failure;
mod handlers;
mod health;
mod inputs;
mod listen;
mod manifests;
mod own_certificates;
mod peers;
mod policies;
mod read_only;
mod security;
mod storage_version_gate;
mod validation_metrics;
mod webhooks;

use binnacle_server::{Build, KUBERNETES_VERSION};

use self::apis::Apis;
use self::background::Background;
pub(crate) use self::check::check_files;
pub(crate) use self::failure::{StartFailure, not_registered};
use self::inputs::Inputs;
use self::listen::listen;
use self::security::Security;
use crate::assembled_server::AssembledServer;
use crate::server::ServerInfo;
use crate::settings::Settings;

/// Returns the facts of this build, with the version that is reported in place of its own.
#[must_use]
pub fn build(reported: Option<&str>) -> Build {
    Build {
        git_version: reported.map_or(KUBERNETES_VERSION.into(), |reported| reported.to_owned().into()),
        git_commit: env!("BINNACLE_COMMIT"),
        git_tree_state: env!("BINNACLE_TREE_STATE"),
        date: option_env!("BINNACLE_BUILD_DATE"),
    }
}

/// Assembles the server. Steps that can fail and leave nothing behind come first.
pub(crate) async fn assemble(config: Settings) -> Result<(AssembledServer, ServerInfo), StartFailure> {
    let inputs = Inputs::load(config).await?;
    let security = Security::prepare(inputs)?;
    let apis = Apis::build(security)?;
    let background = Background::start(apis)?;
    Ok(listen(background))
}
