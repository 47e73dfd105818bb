//! Where objects are kept.

use std::path::PathBuf;

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Storage",
    flags: &[
        Flag::new(
            "data-dir",
            Kind::Value("string"),
            "",
            "Directory of the objects, of the server's own certificates and keys and of admin.kubeconfig. It is created when it \
             does not exist. If not set: /var/lib/binnacle for root, otherwise binnacle in $XDG_DATA_HOME or ~/.local/share.",
        ),
        Flag::new(
            "ephemeral",
            Kind::Bool,
            "",
            "Keep all objects in memory and forget them at the end. Certificates are kept only if --data-dir is set.",
        ),
    ],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Storage {
    /// As it was given; none means the default place, or none at all when everything is ephemeral.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) ephemeral: bool,
}

impl Storage {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        Ok(Self { data_dir: given.text("data-dir").map(PathBuf::from), ephemeral: given.flag("ephemeral")? })
    }
}
