//! Where objects are kept.

use std::path::PathBuf;
use std::time::Duration;

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
        Flag::new(
            "etcd-compaction-interval",
            Kind::Value("duration"),
            "5m0s",
            "How often the history of all objects is cut off: at the revision that was current one interval ago. 0 keeps all \
             history.",
        ),
    ],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Storage {
    /// As it was given; none means the default place, or none at all when everything is ephemeral.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) ephemeral: bool,
    /// None for never.
    pub(crate) compaction_interval: Option<Duration>,
}

impl Storage {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        Ok(Self {
            data_dir: given.text("data-dir").map(PathBuf::from),
            ephemeral: given.flag("ephemeral")?,
            // As in the reference, a time that has passed is no interval either.
            compaction_interval: Some(given.duration("etcd-compaction-interval")?)
                .filter(|interval| !interval.is_zero()),
        })
    }
}
