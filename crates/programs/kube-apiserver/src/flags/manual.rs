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
            Item("/var/lib/binnacle", "The data directory of root, if --data-dir is not set. It holds what follows."),
            Item("~/.local/share/binnacle", "The same for other users ($XDG_DATA_HOME/binnacle if that is set)."),
            Item("store/", "All objects and their history. One process at a time uses it; binnacle(8) looks into it."),
            Item("store/admin.sock", "While the server runs: where binnacle(8) reads, for the owner only."),
            Item("pki/", "The server's own authorities, certificates and keys, where flags name no others."),
            Item("admin.kubeconfig", "For kubectl: the administrator's certificate, readable by the owner only."),
        ],
    ),
    (
        "SIGNALS",
        &[
            Item(
                "SIGTERM, SIGINT, SIGHUP, SIGQUIT",
                "Stop: watches end, requests are finished. Another one more than a second later ends the process at once. \
                 SIGHUP is ignored under nohup(1).",
            ),
            Item(
                "SIGKILL",
                "Nothing that was acknowledged is lost. The temporary directory of an ephemeral server is removed by the \
                 next ephemeral start of the same user.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            Item("0", "Stopped by a signal; or --help, --version or --check-config is answered and nothing is wrong."),
            Item("1", "The start failed, or a stop was cut short: the last line on standard error says why."),
            Item("74", "The disk of the embedded store failed."),
            Item("101", "The program found a mistake of its own."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            Text("A complete server for this machine, and a client:"),
            Example("kube-apiserver &"),
            Example("kubectl --kubeconfig ~/.local/share/binnacle/admin.kubeconfig get namespaces"),
            Text("One that keeps nothing, on a free port, which it prints:"),
            Example("kube-apiserver --ephemeral --secure-port=0"),
            Text("Errors of a configuration, without a start:"),
            Example("kube-apiserver --check-config --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt"),
        ],
    ),
    ("SEE ALSO", &[Text("binnacle(8), systemctl(1), kubectl(1)")]),
];

/// Returns the program as clap would describe it.
fn command() -> Command {
    let (about, _) = help::ABOUT.split_once("\n\nUsage").unwrap();
    let about = format!(
        "{about}\n\nA flag without a value is true; --flag=false takes that back. Of a flag that is given twice the last \
         value counts, unless its description says otherwise."
    );
    let flags = GROUPS.iter().flat_map(|group| group.flags.iter().map(|flag| arg(group.title, flag)));
    Command::new("kube-apiserver")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Kubernetes API server with a durable store of its own")
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

/// Returns the paths that shells offer for the value.
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
