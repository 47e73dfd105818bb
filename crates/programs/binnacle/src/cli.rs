//! The command line: commands, arguments, output.

use std::io::Write;
use std::path::PathBuf;

use binnacle_store_etcd::TlsPaths;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::location::{EtcdAccess, ReadableStore, StoreLocation};
use crate::{Error, backup, check, completion, doctor, migrate, salvage, sizes};

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
        .subcommand(migrate_command())
        .subcommand(backup_command())
        .subcommand(restore_command())
        .subcommand(salvage_command())
        .subcommand(completion::command())
}

fn check_command() -> Command {
    let path = Arg::new("path").value_name("DIR|FILE").required(true).value_parser(value_parser!(PathBuf));
    Command::new("check")
        .about("Tells whether a data directory, or a backup, is whole")
        .long_about(
            "Reads all of the embedded store in a data directory and tells everything that is damaged: records that do not \
             decode or whose checksum is wrong, revisions that are missing, versions that do not follow each other, what a \
             compaction should have kept, leases, and a log that ends before what was acknowledged. No server may run on it; \
             nothing in it is changed. Of a file it tells whether it is a whole backup.\n\nExit status: 0 when it is whole, 1 \
             when it is damaged or cannot be read.",
        )
        .arg(path.help("The data directory, or a file of 'binnacle backup'"))
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
             may be in use: its server is asked. Nothing is changed.\n\nExit status: 0 when the server can take the store over, 1 when not.",
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

fn migrate_command() -> Command {
    let named = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("STORE").required(true).value_parser(location()).help(help)
    };
    let online = Arg::new("online").long("online").action(ArgAction::SetTrue).help(
        "The source is in use: copy it, follow it, and switch when its servers have stopped. An embedded source's server is \
         noticed to stop; with etcd type 'switch' or send SIGUSR1 when they have",
    );
    let to_file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let to_etcd = [
        Arg::new("to-etcd-prefix")
            .long("to-etcd-prefix")
            .value_name("PREFIX")
            .help("As --etcd-prefix, for a target that is another etcd than the source"),
        to_file("to-etcd-cafile", "As --etcd-cafile, for a target that is another etcd than the source"),
        to_file("to-etcd-certfile", "As --etcd-certfile, for a target that is another etcd than the source"),
        to_file("to-etcd-keyfile", "As --etcd-keyfile, for a target that is another etcd than the source"),
    ];
    Command::new("migrate")
        .about("Moves all data from one store to another")
        .long_about(
            "Copies all objects from one store to an empty one, keeping keys, values, the order of their last changes and the \
             time that events have left; verifies at the end that both hold the same.\n\nRevisions, which are objects' \
             resourceVersions, are a store's own: in the target each object has a higher one than in the source, and the \
             target's history begins after the source's last revision, so clients that come back with a version of the source \
             are told that it is gone (410) and read anew. In etcd this takes as many writes as the source has revisions; an \
             etcd that was restored with --bump-revision is spared them.\n\nWhat was interrupted, by kill -9 as well, goes \
             on where it was when the same command is given again. Until it has finished, the target must not be served.",
        )
        .arg(named("from", "The store to read: embedded:DIR or etcd:URL[,URL...]"))
        .arg(named("to", "The store to fill; it must be empty, or an unfinished migration from the same source"))
        .arg(online)
        .args(etcd_flags())
        .args(to_etcd)
}

fn backup_command() -> Command {
    let file = Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf));
    Command::new("backup")
        .about("Saves a store to a file")
        .long_about(
            "Saves all objects of a store, and the history that it keeps, as they are at one revision, while a server runs on it \
             or not. The file is checksummed; it appears when it is whole and durable. Its owner alone can read it: it holds \
             what the store holds, encrypted only where the store's values are.",
        )
        .arg(store())
        .arg(file.help("Where to save it; nothing that is there is overwritten"))
        .args(etcd_flags())
}

fn restore_command() -> Command {
    let revision = Arg::new("revision").long("revision").value_name("N").value_parser(value_parser!(u64)).help(
        "Restore the objects as they were at this revision, which the saved history must have; if not set, the newest",
    );
    let bump = bump_revision("How far above the newest saved revision the restored store begins");
    Command::new("restore")
        .about("Makes a data directory from a saved file, of this program, etcd or kine")
        .long_about(
            "Makes the embedded store of a new data directory from a file, as of the newest or an earlier revision. The file is one \
             of 'binnacle backup', a snapshot of etcd ('etcdctl snapshot save'), a SQLite database of kine as k3s has it, or \
             kine's table in comma-separated text.\n\nClients may have seen revisions that came after the backup was made. None of them may come to mean \
             something else, so the restored store begins far above (as etcdutl's snapshot restore does with --bump-revision \
             and --mark-compacted): clients that come back with an earlier version are told that it is gone (410) and read \
             anew. A billion is more than a week of 1,500 writes a second. To bring the data into an etcd, restore it and \
             migrate.",
        )
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("The saved file, of whichever kind"))
        .arg(Arg::new("dir").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help("The new data directory"))
        .arg(revision)
        .arg(bump)
}

fn salvage_command() -> Command {
    let dir = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("salvage")
        .about("Makes a new store of what is whole in a damaged one")
        .long_about(
            "Reads a damaged store, which a server refuses, and makes a new store of the newest version of each object whose \
             record is whole. Lists what is damaged or lost: key, revision, file and place, as far as they can be known, and \
             what is left of the object. History is not kept. The damaged store is not changed.\n\nThe list is also in the file \
             'salvaged' in the new store. As long as it is there, the server logs it at each start, and 'binnacle check' \
             prints its first line.\n\nClients may have seen revisions that are lost. As after a restore, the new store begins \
             far above, so that clients with an earlier version get 410 and list again.\n\nPrefer a backup where one is recent \
             enough.\n\nExit status: 0 when the new store is made, 1 when not.",
        )
        .arg(dir("from", "FROM", "The data directory with the damaged store (or the directory store in it); no server may run on it"))
        .arg(dir("to", "TO", "The data directory that gets the new store; it must not have one"))
        .arg(bump_revision("How far above the newest known revision the new store begins"))
        .arg(output())
}

fn bump_revision(help: &'static str) -> Arg {
    Arg::new("bump-revision")
        .long("bump-revision")
        .value_name("N")
        .default_value("1000000000")
        .value_parser(value_parser!(u64))
        .help(help)
}

fn store() -> Arg {
    Arg::new("store")
        .value_name("STORE")
        .required(true)
        .value_parser(location())
        .help("embedded:DIR or etcd:URL[,URL...]")
}

fn location() -> ValueParser {
    ValueParser::new(|text: &str| text.parse::<StoreLocation>())
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

/// Runs a command. Returns true if it found no problem.
pub async fn run(matches: &ArgMatches) -> Result<bool, Error> {
    let Some((name, matches)) = matches.subcommand() else { return Err(Error::new("no command")) };
    match name {
        "check" => {
            let path = path(matches, "path").ok_or_else(|| Error::new("no directory"))?;
            let report = tokio::task::spawn_blocking(move || check::run(&path)).await;
            let report = report.map_err(|error| Error::context("checking", error))??;
            print(matches, report.text(), &report.json())?;
            Ok(report.is_whole())
        }
        "doctor" => {
            let encryption = path(matches, "encryption-provider-config");
            let diagnosis = doctor::examine(&open(matches).await?, encryption.as_deref()).await?;
            print(matches, diagnosis.text(), &diagnosis.json())?;
            Ok(diagnosis.is_healthy())
        }
        "sizes" => {
            let largest = matches.get_one::<u16>("largest").copied().unwrap_or_default();
            let sizes = sizes::measure(&open(matches).await?, largest.into()).await?;
            print(matches, sizes.text(), &sizes.json())?;
            Ok(true)
        }
        "migrate" => {
            let location =
                |name: &str| matches.get_one::<StoreLocation>(name).cloned().ok_or_else(|| Error::new("no store"));
            let from_access = etcd_access(matches);
            let options = migrate::MigrationOptions {
                from: location("from")?,
                to: location("to")?,
                to_access: target_access(matches, &from_access),
                from_access,
                online: matches.get_flag("online"),
            };
            let report = migrate::run(&options).await?;
            write(&report)?;
            Ok(true)
        }
        "backup" => {
            let file = path(matches, "file").ok_or_else(|| Error::new("no file"))?;
            write(&backup::save(&open(matches).await?, &file).await?.text())?;
            Ok(true)
        }
        "restore" => {
            let named = |name: &str| path(matches, name).ok_or_else(|| Error::new(format!("no {name}")));
            let (file, dir) = (named("file")?, named("dir")?);
            let revision = matches.get_one::<u64>("revision").copied();
            let bump = matches.get_one::<u64>("bump-revision").copied().unwrap_or_default();
            write(&backup::restore(&file, &dir, revision, bump).await?.text())?;
            Ok(true)
        }
        "salvage" => {
            let named = |name: &str| path(matches, name).ok_or_else(|| Error::new(format!("no {name}")));
            let bump = matches.get_one::<u64>("bump-revision").copied().unwrap_or_default();
            let salvaged = salvage::run(&named("from")?, &named("to")?, bump).await?;
            print(matches, salvaged.text(), &salvaged.json())?;
            Ok(true)
        }
        "completion" => {
            write(completion::script(matches)?)?;
            Ok(true)
        }
        other => Err(Error::new(format!("there is no command {other:?}"))),
    }
}

async fn open(matches: &ArgMatches) -> Result<ReadableStore, Error> {
    let location = matches.get_one::<StoreLocation>("store").ok_or_else(|| Error::new("no store"))?;
    location.read(&etcd_access(matches)).await
}

fn etcd_access(matches: &ArgMatches) -> EtcdAccess {
    let tls = TlsPaths {
        ca: path(matches, "etcd-cafile"),
        certificate: path(matches, "etcd-certfile"),
        key: path(matches, "etcd-keyfile"),
    };
    EtcdAccess::new(tls, matches.get_one::<String>("etcd-prefix").map_or("", String::as_str))
}

/// Returns the access to the target; flags that are not given default to those of the source.
fn target_access(matches: &ArgMatches, source: &EtcdAccess) -> EtcdAccess {
    let tls = TlsPaths {
        ca: path(matches, "to-etcd-cafile"),
        certificate: path(matches, "to-etcd-certfile"),
        key: path(matches, "to-etcd-keyfile"),
    };
    let tls = if tls.any() { tls } else { source.tls.clone() };
    match matches.get_one::<String>("to-etcd-prefix") {
        Some(prefix) => EtcdAccess::new(tls, prefix),
        None => EtcdAccess { tls, root: source.root.clone() },
    }
}

fn path(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(name).cloned()
}

fn print(matches: &ArgMatches, text: String, json: &Value) -> Result<(), Error> {
    let json_wanted = matches.get_one::<String>("output").is_some_and(|form| form == "json");
    write(&if json_wanted { format!("{json:#}\n") } else { text })
}

fn write(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Error::context("standard output", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_documented_command_lines() {
        command().debug_assert();
        for (line, good) in [
            ("check /data", true),
            ("check", false),
            ("doctor embedded:/data -o json", true),
            ("doctor etcd:http://a:1,http://b:1 --etcd-prefix /k --encryption-provider-config f", true),
            ("doctor /data", false),
            ("sizes embedded:/data --largest 3", true),
            ("sizes embedded:/data -o yaml", false),
            ("migrate --from embedded:/a --to etcd:http://a:1 --etcd-prefix /k", true),
            ("migrate --from etcd:a:1 --to etcd:b:1 --to-etcd-prefix /k --to-etcd-cafile f --online", true),
            ("migrate --from embedded:/a", false),
            ("backup embedded:/a file", true),
            ("backup embedded:/a", false),
            ("restore file /a --revision 7 --bump-revision 0", true),
            ("restore file /a --revision -7", false),
            ("salvage /a /b --bump-revision 7 -o json", true),
            ("salvage /a", false),
            ("completion bash", true),
            ("completion zsh kube-apiserver", true),
            ("completion powershell", false),
            ("completion fish etcd", false),
            ("", false),
        ] {
            let words = std::iter::once("binnacle").chain(line.split_whitespace());
            assert_eq!(command().try_get_matches_from(words).is_ok(), good, "{line}");
        }
    }
}
