//! The test that man page and completions in `packaging/manual` follow from the tables of flags.

use binnacle_cli::manual::Paragraph::{Example, Item, Text};
use binnacle_cli::manual::Section;
use clap::{Arg, ArgAction, Command, ValueHint};

use super::table::{Flag, ValueKind};
use super::{GROUPS, help};

const SECTIONS: [Section; 5] = [
    (
        "FILES",
        &[
            Item(
                "/var/lib/binnacle",
                "The data directory of root, if --data-dir is not set. It contains the files below.",
            ),
            Item(
                "~/.local/share/binnacle",
                "The data directory of other users ($XDG_DATA_HOME/binnacle if that variable is set).",
            ),
            Item(
                "store/",
                "The embedded store: all objects and their history. Only one process can use it at a time; binnacle(8) administers it.",
            ),
            Item(
                "store/admin.sock",
                "The socket through which binnacle(8) reads the store of a running server, for the owner only.",
            ),
            Item("pki/", "The server's own certificate authorities, certificates and keys, unless flags set others."),
            Item("admin.kubeconfig", "The kubeconfig of the administrator, readable by the owner only."),
        ],
    ),
    (
        "SIGNALS",
        &[
            Item(
                "SIGTERM, SIGINT, SIGHUP, SIGQUIT",
                "Graceful termination: watches end, requests in flight are completed. A further signal after more than a second \
                 ends the process at once. SIGHUP is ignored under nohup(1).",
            ),
            Item(
                "SIGKILL",
                "No acknowledged write is lost. The temporary directory of an ephemeral server is removed by the next \
                 ephemeral start of the same user.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            Item("0", "The server was stopped by a signal, or --help, --version or --check-config succeeded."),
            Item(
                "1",
                "The start failed, or a second signal ended the process. The last line on standard error has the reason.",
            ),
            Item("74", "The disk of the embedded store failed."),
            Item("101", "The program has panicked, which is a bug."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            Text("A complete server for this machine, and a client:"),
            Example("kube-apiserver &"),
            Example("kubectl --kubeconfig ~/.local/share/binnacle/admin.kubeconfig get namespaces"),
            Text("A server in memory only, on a free port, which it prints:"),
            Example("kube-apiserver --ephemeral --secure-port=0"),
            Text("All errors of a configuration, without starting the server:"),
            Example("kube-apiserver --check-config --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt"),
        ],
    ),
    ("SEE ALSO", &[Text("binnacle(8), systemctl(1), kubectl(1)")]),
];

/// Returns the description of the program for clap.
fn command() -> Command {
    let (about, _) = help::ABOUT.split_once("\n\nUsage").unwrap();
    let about = format!(
        "{about}\n\nA boolean flag without a value is true; --flag=false turns it off. If a flag is repeated, its last value \
         counts, unless its description says otherwise."
    );
    let flags = GROUPS.iter().flat_map(|group| group.flags.iter().map(|flag| arg(group.title, flag)));
    Command::new("kube-apiserver")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Binnacle, a Kubernetes API server with an embedded, durable store")
        .long_about(about)
        .override_usage("kube-apiserver [flags]")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(flags)
}

fn arg(group: &str, flag: &Flag) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).help(flag.help).help_heading(format!("{group} flags"));
    let arg = match flag.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    let arg = match flag.kind {
        ValueKind::Bool => arg.action(ArgAction::SetTrue),
        ValueKind::Value(name) => arg.value_name(name).value_hint(hint(flag.name)),
        ValueKind::Optional(name) => arg.value_name(name).num_args(0..=1).require_equals(true),
    };
    match flag.default {
        "" | "0" => arg,
        _ if flag.kind == ValueKind::Bool => arg,
        default => arg.default_value(default),
    }
}

/// Returns the kind of path that shells complete for the value.
fn hint(flag: &str) -> ValueHint {
    const FILES: [&str; 10] = [
        "admission-control-config-file",
        "audit-log-path",
        "authentication-config",
        "authorization-config",
        "debug-socket-path",
        "encryption-provider-config",
        "kubelet-certificate-authority",
        "kubelet-client-certificate",
        "kubelet-client-key",
        "service-account-signing-endpoint",
    ];
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| flag.ends_with(suffix));
    if ends(&["-dir"]) {
        ValueHint::DirPath
    } else if FILES.contains(&flag) || ends(&["-file", "-cafile", "-certfile", "-keyfile"]) {
        ValueHint::FilePath
    } else {
        ValueHint::Other
    }
}

#[test]
fn manual_matches_flags() {
    command().debug_assert();
    binnacle_cli::manual::compare(&command(), &SECTIONS);
}
