//! The built-in APIs that are served.

use binnacle_resources::RuntimeConfig;

#[derive(Clone, Debug, Default)]
pub struct ApiEnablement {
    pub enabled: RuntimeConfig,
}
