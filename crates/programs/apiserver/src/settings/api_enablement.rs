//! The built-in APIs that are served.

use binnacle_resources::Enabled;

#[derive(Clone, Debug, Default)]
pub struct ApiEnablement {
    pub enabled: Enabled,
}
