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
            "Path of a unix socket on which what --profiling is about is served to who may open it, without authorization.",
        ),
        Flag::new(
            "enable-live-page",
            ValueKind::Bool,
            "",
            "Serve a page for browsers at /debug/live that shows what the server is doing: requests, clients, watchers, queues, \
             store, caches, webhooks. Who may get /debug/live* may see it.",
        ),
        Flag::new(
            "profiling",
            ValueKind::Bool,
            "true",
            "Serve profiles at /debug/pprof/, and /debug/flags/v, which changes the verbosity of the log while the server runs.",
        ),
    ],
};

pub(super) const TRACES: Group = Group {
    title: "Traces",
    flags: &[Flag::new(
        "tracing-config-file",
        ValueKind::Value("string"),
        "",
        "File with a TracingConfiguration: where the collector of OpenTelemetry is that spans of requests are sent to, and how \
         many requests are sampled.",
    )],
};

pub(super) const EGRESS: Group = Group {
    title: "Egress selector",
    flags: &[Flag::new(
        "egress-selector-config-file",
        ValueKind::Value("string"),
        "",
        "File with an EgressSelectorConfiguration: the proxies that connections to the control plane, to etcd and to the \
         cluster leave by.",
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
