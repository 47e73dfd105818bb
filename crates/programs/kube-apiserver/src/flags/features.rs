//! Flags for debugging, tracing and profiling.

use std::path::PathBuf;

use binnacle_apiserver::settings::Debugging;

use super::FromFlags;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Features",
    flags: &[
        Flag::new(
            "debug-socket-path",
            ValueKind::Value("string"),
            "",
            "Path of a Unix domain socket that serves what --profiling does, without authentication and \
             authorization: the permissions of the file control access.",
        ),
        Flag::new(
            "enable-live-page",
            ValueKind::Bool,
            "",
            "Serve a web page at /debug/live with live figures of the server: requests, clients, watchers, priority \
             levels, store, caches, webhooks. Users need permission to get /debug/live*.",
        ),
        Flag::new(
            "profiling",
            ValueKind::Bool,
            "true",
            "Serve profiles at /debug/pprof/, and /debug/flags/v, which sets the log verbosity while the server runs.",
        ),
    ],
};

pub(super) const TRACES: Group = Group {
    title: "Traces",
    flags: &[Flag::new(
        "tracing-config-file",
        ValueKind::Value("string"),
        "",
        "File with a TracingConfiguration: the endpoint of the OpenTelemetry collector to which spans of requests are \
         exported, and the sampling rate.",
    )],
};

pub(super) const EGRESS: Group = Group {
    title: "Egress selector",
    flags: &[Flag::new(
        "egress-selector-config-file",
        ValueKind::Value("string"),
        "",
        "File with an EgressSelectorConfiguration: the proxies for connections to the control plane, to etcd and to \
         the cluster.",
    )],
};

impl FromFlags for Debugging {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        Ok(Self {
            profiling: flags.flag("profiling")?,
            live_page: flags.flag("enable-live-page")?,
            socket: flags.text("debug-socket-path").map(PathBuf::from),
            egress_config: flags.text("egress-selector-config-file").map(PathBuf::from),
            tracing_config: flags.text("tracing-config-file").map(PathBuf::from),
        })
    }
}
