//! Flags for debugging, tracing and profiling.

use std::path::PathBuf;

use binnacle_apiserver::settings::{Debugging, ShadowOptions};

use super::FromFlags;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Features",
    flags: &[
        Flag::new(
            "compare-dir",
            ValueKind::Value("string"),
            "",
            "Directory for the differences that --compare-with finds, as recorded cases without secrets: at most 3 files \
             for each cause and 1000 files in total. If not set, differences are counted and logged only.",
        ),
        Flag::new(
            "compare-dry-run",
            ValueKind::Bool,
            "",
            "Compare writes with dryRun=All as well. The other server then runs its admission webhooks for them.",
        ),
        Flag::new(
            "compare-kubeconfig",
            ValueKind::Value("string"),
            "",
            "Kubeconfig file with the credentials for the server of --compare-with and its certificate authority; its URL \
             is not used. Repeated requests impersonate their users, so the user in the file needs the permission to \
             impersonate them. Credentials of clients are never sent to the other server.",
        ),
        Flag::new(
            "compare-rate",
            ValueKind::Value("float"),
            "0.01",
            "Fraction of the requests that --compare-with repeats, above 0 and at most 1.",
        ),
        Flag::new(
            "compare-with",
            ValueKind::Value("string"),
            "",
            "URL of another API server of the same etcd, such as the kube-apiserver beside a server with --read-only. A \
             sample of the reads and access reviews is repeated there at the same resourceVersion, after the client has its \
             answer; the answers are compared, and differences are counted in binnacle_compare_total and logged once for \
             each cause. Needs --compare-kubeconfig.",
        ),
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
            shadow: read_shadow(flags)?,
        })
    }
}

/// Flags that need `--compare-with`.
const OF_SHADOW: [&str; 4] = ["compare-dir", "compare-dry-run", "compare-kubeconfig", "compare-rate"];

fn read_shadow(flags: &FlagSet) -> Result<Option<ShadowOptions>, FlagError> {
    let Some(url) = flags.text("compare-with") else {
        return match OF_SHADOW.into_iter().find(|name| flags.is_given(name)) {
            Some(name) => Err(FlagError::new(format!("--{name} requires --compare-with"))),
            None => Ok(None),
        };
    };
    if !url.starts_with("https://") {
        return Err(FlagError::new("--compare-with must be a URL that begins with https://"));
    }
    let kubeconfig = flags.text("compare-kubeconfig");
    let kubeconfig = kubeconfig.ok_or_else(|| FlagError::new("--compare-with requires --compare-kubeconfig"))?;
    let rate = f64::from(flags.float("compare-rate")?);
    if !(rate > 0.0 && rate <= 1.0) {
        return Err(FlagError::new("--compare-rate must be above 0 and at most 1"));
    }
    Ok(Some(ShadowOptions {
        url: url.to_owned(),
        kubeconfig: PathBuf::from(kubeconfig),
        rate,
        directory: flags.text("compare-dir").map(PathBuf::from),
        dry_run: flags.flag("compare-dry-run")?,
    }))
}
