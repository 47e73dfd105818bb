//! Which of the built-in APIs are served.

use binnacle_resources::Enabled;

#[derive(Clone, Debug, Default)]
pub struct ApiEnablement {
    pub enabled: Enabled,
}
