//! The command line: which commands there are, what they take, and what they print.

use std::io::Write;
use std::path::PathBuf;

use binnacle_store_etcd::TlsPaths;
use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::place::{EtcdAccess, Opened, Place};
use crate::{Error, check, doctor, sizes};

const ABOUT: &str = "\
Looks into the data of a Kubernetes API server, checks it, moves it between the embedded store and etcd, saves and restores it.

A store is named as
  embedded:DIR           the data directory of kube-apiserver (or the directory store in it)
  etcd:URL[,URL...]      the members' client URLs";

/// All commands.
pub fn command() -> Command {
    Command::new("binnacle")
        .about("The operator's program for the data of kube-apiserver")
        .long_about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(check_command())
        .subcommand(doctor_command())
        .subcommand(sizes_command())
}

fn check_command() -> Command {
    Command::new("check")
        .about("Tells whether a data directory is whole")
        .long_about(
            "Reads all of the embedded store in a data directory and tells everything that is damaged: records that do not \
             decode or whose checksum is wrong, revisions that are missing, versions that do not follow each other, what a \
             compaction should have kept, leases, and a log that ends before what was acknowledged. No server may run on it; \
             nothing in it is changed.\n\nExit status: 0 when it is whole, 1 when it is damaged or cannot be read.",
        )
        .arg(Arg::new("dir").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help("The data directory"))
        .arg(output())
}

fn doctor_command() -> Command {
    let encryption = Arg::new("encryption-provider-config")
        .long("encryption-provider-config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The EncryptionConfiguration that the server would be given; without it encrypted values are a problem");
    Command::new("doctor")
        .about("Tells whether this release can take over a store")
        .long_about(
            "Reads every value of a store as the server would, and tells what it could not serve: keys of unknown resources, \
             kinds and versions that it does not know, values that do not decode, encryption that it lacks. An embedded store \
             must not be in use. Nothing is changed.\n\nExit status: 0 when the server can take the store over, 1 when not.",
        )
        .arg(store())
        .arg(encryption)
        .args(etcd_flags())
        .arg(output())
}

fn sizes_command() -> Command {
    let largest = Arg::new("largest")
        .long("largest")
        .value_name("N")
        .default_value("10")
        .value_parser(value_parser!(u16))
        .help("How many of the largest objects to name");
    Command::new("sizes")
        .about("Tells how much room each resource takes up")
        .long_about(
            "Counts objects and their bytes (keys and values as they are stored) for each resource, the earlier versions that \
             the kept history still has, and names the largest objects.",
        )
        .arg(store())
        .arg(largest)
        .args(etcd_flags())
        .arg(output())
}

fn store() -> Arg {
    Arg::new("store").value_name("STORE").required(true).value_parser(place()).help("embedded:DIR or etcd:URL[,URL...]")
}

fn place() -> ValueParser {
    ValueParser::new(|text: &str| text.parse::<Place>())
}

fn output() -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_parser(["text", "json"])
        .default_value("text")
        .help("The form of the answer")
}

fn etcd_flags() -> [Arg; 4] {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    [
        Arg::new("etcd-prefix")
            .long("etcd-prefix")
            .value_name("PREFIX")
            .default_value("/registry")
            .help("How the keys of all objects in etcd begin"),
        file("etcd-cafile", "The authorities that etcd's certificates must come from; if not set, the system's"),
        file("etcd-certfile", "The certificate that is shown to etcd"),
        file("etcd-keyfile", "The key that belongs to --etcd-certfile"),
    ]
}

/// Carries a command out; whether it found everything well.
pub async fn run(matches: &ArgMatches) -> Result<bool, Error> {
    let Some((name, matches)) = matches.subcommand() else { return Err(Error::new("no command")) };
    match name {
        "check" => {
            let dir = path(matches, "dir").ok_or_else(|| Error::new("no directory"))?;
            let checked = tokio::task::spawn_blocking(move || check::run(&dir)).await;
            let checked = checked.map_err(|error| Error::doing("checking", error))??;
            print(matches, check::to_text(&checked), &check::to_json(&checked))?;
            Ok(check::whole(&checked))
        }
        "doctor" => {
            let encryption = path(matches, "encryption-provider-config");
            let diagnosis = doctor::examine(&open(matches).await?, encryption.as_deref()).await?;
            print(matches, diagnosis.text(), &diagnosis.json())?;
            Ok(diagnosis.healthy())
        }
        "sizes" => {
            let largest = matches.get_one::<u16>("largest").copied().unwrap_or_default();
            let sizes = sizes::measure(&open(matches).await?, largest.into()).await?;
            print(matches, sizes.text(), &sizes.json())?;
            Ok(true)
        }
        other => Err(Error::new(format!("there is no command {other:?}"))),
    }
}

async fn open(matches: &ArgMatches) -> Result<Opened, Error> {
    let place = matches.get_one::<Place>("store").ok_or_else(|| Error::new("no store"))?;
    place.read(&etcd_access(matches)).await
}

fn etcd_access(matches: &ArgMatches) -> EtcdAccess {
    let tls = TlsPaths {
        ca: path(matches, "etcd-cafile"),
        certificate: path(matches, "etcd-certfile"),
        key: path(matches, "etcd-keyfile"),
    };
    EtcdAccess::new(tls, matches.get_one::<String>("etcd-prefix").map_or("", String::as_str))
}

fn path(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(name).cloned()
}

fn print(matches: &ArgMatches, text: String, json: &Value) -> Result<(), Error> {
    let json_wanted = matches.get_one::<String>("output").is_some_and(|form| form == "json");
    let text = if json_wanted { format!("{json:#}\n") } else { text };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Error::doing("standard output", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        command().debug_assert();
        for (line, good) in [
            ("check /data", true),
            ("check", false),
            ("doctor embedded:/data -o json", true),
            ("doctor etcd:http://a:1,http://b:1 --etcd-prefix /k --encryption-provider-config f", true),
            ("doctor /data", false),
            ("sizes embedded:/data --largest 3", true),
            ("sizes embedded:/data -o yaml", false),
            ("", false),
        ] {
            let words = std::iter::once("binnacle").chain(line.split_whitespace());
            assert_eq!(command().try_get_matches_from(words).is_ok(), good, "{line}");
        }
    }
}
