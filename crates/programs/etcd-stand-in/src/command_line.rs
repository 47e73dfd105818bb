//! The command line of the stand-in: etcd's flags, as far as it needs them.

use std::fmt;

/// The text of `--help`. Harnesses look here for flags before they use them: envtest for `--unsafe-no-fsync`.
pub const HELP: &str = "\
Usage:
  etcd [flags]

A stand-in for etcd in test environments, part of Binnacle. It answers health checks and stores nothing: Binnacle's
kube-apiserver detects it and keeps all objects in memory. No other kube-apiserver can use it.

Flags:
  --listen-client-urls 'http://localhost:2379'
    Comma-separated list of http URLs to listen on for client traffic.
  --help
    Print this help and exit.
  --version
    Print the version and exit.

Ignored flags:
  --advertise-client-urls, --data-dir, --listen-peer-urls, --name
  --unsafe-no-fsync 'false'
    Nothing is written to disk in either case.
  Flags for TLS and --config-file are rejected. All other flags of etcd are ignored with a warning.
";

/// Flags that harnesses always pass: they are ignored without a warning.
const EXPECTED: [&str; 5] = ["advertise-client-urls", "data-dir", "listen-peer-urls", "name", "unsafe-no-fsync"];
/// Flags of features that a stand-in does not have.
const REFUSED: [&str; 6] = ["cert-file", "key-file", "client-cert-auth", "auto-tls", "trusted-ca-file", "config-file"];
const CLIENTS: &str = "listen-client-urls";

/// The action that the command line requests.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// Print something and end.
    Print(String),
    /// Listen at these addresses, `host:port`.
    Serve {
        /// At least one.
        addresses: Vec<String>,
        /// Ignored flags that harnesses do not pass by default.
        ignored: Vec<String>,
    },
}

/// The error of a command line that cannot be used, as one sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandLineError(String);

impl fmt::Display for CommandLineError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for CommandLineError {}

/// Parses the arguments after the program's name.
pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Plan, CommandLineError> {
    let mut arguments = arguments.into_iter().peekable();
    let (mut urls, mut ignored) = ("http://localhost:2379".to_owned(), Vec::new());
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(CommandLineError(format!("'{argument}' is not a valid flag")));
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        match name {
            "help" | "h" => return Ok(Plan::Print(HELP.to_owned())),
            "version" => return Ok(Plan::Print(format!("etcd stand-in of Binnacle {}\n", env!("CARGO_PKG_VERSION")))),
            _ => {}
        }
        // As with etcd, a value may follow as the next argument.
        let value = value.or_else(|| arguments.next_if(|next| !next.starts_with('-')));
        if name == CLIENTS {
            urls = value.ok_or_else(|| CommandLineError(format!("flag needs an argument: -{CLIENTS}")))?;
        } else if REFUSED.contains(&name) {
            return Err(CommandLineError(format!("--{name}: a stand-in for etcd speaks plain HTTP and reads no file")));
        } else if !EXPECTED.contains(&name) {
            ignored.push(name.to_owned());
        }
    }
    let addresses = urls.split(',').map(address).collect::<Result<_, _>>()?;
    Ok(Plan::Serve { addresses, ignored })
}

fn address(url: &str) -> Result<String, CommandLineError> {
    let rest = url.strip_prefix("http://").ok_or_else(|| {
        CommandLineError(format!("--{CLIENTS}: a stand-in for etcd listens at http URLs only, not at '{url}'"))
    })?;
    let address = rest.strip_suffix('/').unwrap_or(rest);
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(address.to_owned()),
        _ => Err(CommandLineError(format!("--{CLIENTS}: '{url}' names no host and port"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Plan, String> {
        read(arguments.iter().map(ToString::to_string)).map_err(|error| error.to_string())
    }

    fn serve(addresses: &[&str], ignored: &[&str]) -> Plan {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Plan::Serve { addresses: owned(addresses), ignored: owned(ignored) }
    }

    #[test]
    fn parses_command_lines() {
        for (arguments, want) in [
            (&[][..], serve(&["localhost:2379"], &[])),
            (
                // The flags that envtest passes.
                &[
                    "--advertise-client-urls=http://127.0.0.1:1",
                    "--data-dir=/d",
                    "--listen-client-urls=http://127.0.0.1:1",
                    "--listen-peer-urls=http://127.0.0.1:2",
                    "--unsafe-no-fsync=true",
                ],
                serve(&["127.0.0.1:1"], &[]),
            ),
            (
                &["-listen-client-urls", "http://[::1]:0/,http://localhost:7", "--unsafe-no-fsync", "--max-txn-ops=9"],
                serve(&["[::1]:0", "localhost:7"], &["max-txn-ops"]),
            ),
        ] {
            assert_eq!(of(arguments), Ok(want), "{arguments:?}");
        }
    }

    #[test]
    fn rejects_unsupported_flags() {
        for (arguments, want) in [
            (&["serve"][..], "'serve' is not a valid flag"),
            (&["--listen-client-urls"], "flag needs an argument: -listen-client-urls"),
            (&["--cert-file=/c"], "--cert-file: a stand-in for etcd speaks plain HTTP and reads no file"),
            (
                &["--listen-client-urls=https://a:1"],
                "--listen-client-urls: a stand-in for etcd listens at http URLs only, not at 'https://a:1'",
            ),
            (&["--listen-client-urls=http://a"], "--listen-client-urls: 'http://a' names no host and port"),
            (&["--listen-client-urls=http://:1"], "--listen-client-urls: 'http://:1' names no host and port"),
        ] {
            assert_eq!(of(arguments), Err(want.to_owned()), "{arguments:?}");
        }
    }

    /// envtest passes `--unsafe-no-fsync` if a line of `--help` starts with it.
    #[test]
    fn help_lists_flags_that_harnesses_probe() {
        let Ok(Plan::Print(help)) = of(&["--help"]) else { panic!("no help") };
        assert!(help.lines().any(|line| line.trim_start().starts_with("--unsafe-no-fsync ")));
    }
}
