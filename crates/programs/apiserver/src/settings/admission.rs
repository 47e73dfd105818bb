//! The admission plugins that are enabled, and their options.

use std::path::PathBuf;

use binnacle_admission::{ORDER, PluginOptions, is_default};

#[derive(Clone, Debug)]
pub struct Admission {
    pub options: PluginOptions,
    /// The file with the configuration of plugins.
    pub config_file: Option<PathBuf>,
    /// The names of the enabled plugins.
    pub enabled: Vec<&'static str>,
}

impl Admission {
    /// Returns true if a plugin is enabled.
    pub fn enables(&self, plugin: &str) -> bool {
        self.enabled.contains(&plugin)
    }
}

impl Default for Admission {
    fn default() -> Self {
        let enabled = ORDER.iter().copied().filter(|name| is_default(name)).collect();
        Self { options: PluginOptions::default(), config_file: None, enabled }
    }
}
