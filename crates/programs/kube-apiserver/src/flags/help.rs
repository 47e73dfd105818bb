//! `--help`, in the layout of kube-apiserver: a heading per group, the descriptions of a group in one column.

use super::table::{Flag, Group, ValueKind};

pub(super) const ABOUT: &str = "\
Binnacle: a Kubernetes API server with an embedded, durable store. It validates and
stores the objects of a cluster (pods, services, deployments and all others) and serves
them to kubectl, controllers and nodes. Without any flags it starts a complete server
for this host only.

Usage:
  kube-apiserver [flags]
";

pub(super) fn render(groups: &[Group]) -> String {
    let mut out = ABOUT.to_owned();
    for group in groups {
        out.push_str(&format!("\n{} flags:\n\n", group.title));
        let left: Vec<String> = group.flags.iter().map(usage).collect();
        let width = left.iter().map(String::len).max().unwrap_or_default();
        for (flag, left) in group.flags.iter().zip(&left) {
            out.push_str(&format!("{left:width$}   {}{}\n", flag.help, default(flag)));
        }
    }
    out
}

fn usage(flag: &Flag) -> String {
    let short = flag.short.map_or("    ".to_owned(), |short| format!("-{short}, "));
    let value = match flag.kind {
        ValueKind::Bool => String::new(),
        ValueKind::Value(name) => format!(" {name}"),
        ValueKind::Optional(name) => format!(" {name}[=true]"),
    };
    format!("  {short}--{}{value}", flag.name)
}

fn default(flag: &Flag) -> String {
    match (flag.default, flag.kind) {
        ("" | "0", _) | ("false", ValueKind::Bool) => String::new(),
        (text, ValueKind::Value("string")) => format!(" (default \"{text}\")"),
        (text, ValueKind::Value("strings" | "stringArray")) => format!(" (default [{text}])"),
        (text, _) => format!(" (default {text})"),
    }
}
