//! Which admission plugins are asked, and what some of them are told.

use std::path::PathBuf;

use binnacle_admission::{ORDER, Options, is_default};

#[derive(Clone, Debug)]
pub struct Admission {
    pub options: Options,
    /// What plugins are told beside that.
    pub config_file: Option<PathBuf>,
    /// The names of the plugins that are asked.
    pub enabled: Vec<&'static str>,
}

impl Admission {
    /// Whether a plugin is asked.
    pub fn enables(&self, plugin: &str) -> bool {
        self.enabled.contains(&plugin)
    }
}

impl Default for Admission {
    fn default() -> Self {
        let enabled = ORDER.iter().copied().filter(|name| is_default(name)).collect();
        Self { options: Options::default(), config_file: None, enabled }
    }
}
