//! The command line: commands, arguments, output.

use std::io::Write;
use std::path::PathBuf;

use binnacle_store_etcd::TlsPaths;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::location::{EtcdAccess, ReadableStore, StoreLocation, directory};
use crate::{Error, backup, check, cluster, compare, completion, doctor, history, migrate, salvage, sizes, undelete};

const ABOUT: &str = "\
Administers the data of Binnacle's kube-apiserver: checks, measures, backs up and restores a store, and migrates it between the \
embedded store and etcd. Manages logical clusters. Compares the answers of two API servers.

A STORE is one of
  embedded:DIR           the data directory of kube-apiserver, or its subdirectory store; DIR alone means the same
  etcd:URL[,URL...]      the client URLs of the members of an etcd cluster";

/// All commands.
pub fn command() -> Command {
    Command::new("binnacle")
        .about("Administers the data of Binnacle's kube-apiserver")
        .long_about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(check_command())
        .subcommand(doctor_command())
        .subcommand(sizes_command())
        .subcommand(history_command())
        .subcommand(undelete::command())
        .subcommand(migrate_command())
        .subcommand(backup_command())
        .subcommand(restore_command())
        .subcommand(salvage_command())
        .subcommand(cluster::command())
        .subcommand(compare::command())
        .subcommand(completion::command())
}

fn check_command() -> Command {
    let store = Arg::new("store").value_name("DIR|FILE|STORE").required(true).value_parser(checked_value());
    Command::new("check")
        .about("Checks a data directory or a backup file for damage, and prints digests of its objects")
        .long_about(
            "Reads the whole embedded store in a data directory and lists all damage: records that do not decode or whose \
             checksum is wrong, missing revisions, inconsistent versions of an object, damage to the history or to leases, and \
             a log that ends before the last acknowledged write. The server must be stopped; nothing is changed. For a file, \
             checks that it is a complete and intact backup. An etcd cluster is only read.\n\nPrints the number of objects of each \
             resource and a digest of their keys and values, without the prefix of the keys. Stores and backups with the same objects \
             have the same digests, whatever their revisions.\n\nExit status: 0 if there is no damage, 1 if there is, or if \
             something cannot be read.",
        )
        .arg(store.help("The data directory, a file written by 'binnacle backup', or etcd:URL[,URL...]"))
        .args(etcd_flags())
        .arg(output())
}

fn doctor_command() -> Command {
    let encryption = encryption_config(
        "The EncryptionConfiguration of the server, to decrypt values; without it, encrypted values are reported as problems",
    );
    Command::new("doctor")
        .about("Checks whether this release can serve a store")
        .long_about(
            "Reads every value of a store like the server, and lists what it could not serve: keys of unknown resources, unknown \
             kinds and API versions, values that do not decode, and encrypted values without a key. The server of an embedded \
             store may be running. Nothing is changed.\n\nExit status: 0 if the server can serve the store, else 1.",
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
        .help("Number of largest objects to list");
    Command::new("sizes")
        .about("Shows the size of each resource in a store")
        .long_about(
            "Counts the objects of each resource and their bytes (keys and values as stored), the same for earlier versions in \
             the retained history, and lists the largest objects.",
        )
        .arg(store())
        .arg(largest)
        .args(etcd_flags())
        .arg(output())
}

fn history_command() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).value_name(value).required(true);
    Command::new("history")
        .about("Shows the versions of an object")
        .long_about(
            "Lists the versions of one object in the retained history, oldest first: the revision, what happened, who wrote fields of \
             it (the manager, operation and time in metadata.managedFields), and each field that differs from the version before. \
             The server of an embedded store may be running. Nothing is changed. How long history is kept is set by the \
             server's --history-retention.",
        )
        .arg(store())
        .arg(text("resource", "RESOURCE").help("The resource: PLURAL, or PLURAL.GROUP, for example deployments.apps"))
        .arg(text("name", "NAME").help("The object: NAME, or NAMESPACE/NAME"))
        .arg(encryption_config("The EncryptionConfiguration of the server, for encrypted objects"))
        .args(etcd_flags())
        .arg(output())
}

fn encryption_config(help: &'static str) -> Arg {
    Arg::new("encryption-provider-config")
        .long("encryption-provider-config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

fn migrate_command() -> Command {
    let named = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("STORE").required(true).value_parser(location()).help(help)
    };
    let online = Arg::new("online").long("online").action(ArgAction::SetTrue).help(
        "Migrate while the source is in use: copy it, watch it for changes, and finish once its servers have stopped. The stop of \
         an embedded store's server is detected; for etcd, type 'switch' or send SIGUSR1 after stopping the servers",
    );
    let to_file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let to_etcd = [
        Arg::new("to-etcd-prefix")
            .long("to-etcd-prefix")
            .value_name("PREFIX")
            .help("Like --etcd-prefix, for the target"),
        to_file("to-etcd-cafile", "Like --etcd-cafile, for the target"),
        to_file("to-etcd-certfile", "Like --etcd-certfile, for the target"),
        to_file("to-etcd-keyfile", "Like --etcd-keyfile, for the target"),
    ];
    Command::new("migrate")
        .about("Copies all data from one store to another")
        .long_about(
            "Copies all objects from one store to an empty one, with their keys, values, order of last changes and remaining TTL, \
             and finally verifies that both stores hold the same.\n\nThe resourceVersion of an object is a revision of its store. \
             In the target, every object has a higher one than in the source, and the history starts after the last revision of \
             the source. Clients that continue from a resourceVersion of the source get status 410 (Gone) and list again. With \
             etcd as the target, this takes as many writes as the source has revisions, unless etcd was restored with \
             --bump-revision.\n\nTo resume an interrupted migration, run the same command again. Do not start a server on the \
             target before the migration has finished.",
        )
        .arg(named("from", "The source: embedded:DIR or etcd:URL[,URL...]"))
        .arg(named("to", "The target, which must be empty or hold an unfinished migration from the same source"))
        .arg(online)
        .args(etcd_flags())
        .args(to_etcd)
}

fn backup_command() -> Command {
    let file = Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf));
    Command::new("backup")
        .about("Backs up a store to a file")
        .long_about(
            "Writes all objects of a store at one revision, and the retained history, to a file. The server may be running. The \
             file has checksums and the digests of all resources, and appears under its name once it is complete and durable. Only \
             its owner can read it. Values are encrypted only if they are encrypted in the store.",
        )
        .arg(store())
        .arg(file.help("The file to write, which must not exist"))
        .args(etcd_flags())
}

fn restore_command() -> Command {
    let revision =
        Arg::new("revision").long("revision").value_name("N").value_parser(value_parser!(u64)).help(
            "Restore the objects as of this revision, which must be in the saved history; if not set, the newest",
        );
    let bump =
        bump_revision("Number that is added to the newest saved revision for the first revision of the restored store");
    Command::new("restore")
        .about("Restores a backup, an etcd snapshot or a kine database to a data directory")
        .long_about(
            "Creates the embedded store of a new data directory from a file, as of its newest or an earlier revision. The file is \
             one of: a file of 'binnacle backup', an etcd snapshot ('etcdctl snapshot save'), the SQLite database of kine (k3s), \
             or kine's table as comma-separated text. The restored objects are compared with the file, and with the digests in a \
             backup.\n\nClients may have seen revisions newer than the backup, which must not \
             be reused. The restored store therefore starts at a much higher revision (like etcdutl snapshot restore with \
             --bump-revision and --mark-compacted): clients that continue from an earlier one get status 410 (Gone) and list \
             again. The default of a billion covers more than a week at 1,500 writes per second. To restore into etcd, restore to \
             a directory and run 'binnacle migrate'.",
        )
        .arg(Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("The file to restore"))
        .arg(Arg::new("dir").value_name("DIR").required(true).value_parser(directory_value()).help("The data directory to create"))
        .arg(revision)
        .arg(bump)
}

fn salvage_command() -> Command {
    let dir = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).required(true).value_parser(directory_value()).help(help)
    };
    Command::new("salvage")
        .about("Copies the intact objects of a damaged store to a new one")
        .long_about(
            "Reads a damaged store, which the server refuses, and creates a new store with the newest intact version of each \
             object. Lists all damaged or lost versions: key, revision, file and offset as far as they are known, and what remains \
             of the object. History is not copied. The damaged store is not changed.\n\nThe list is also written to the file \
             'salvaged' in the new store. While that file exists, the server logs it at each start, and 'binnacle check' prints its \
             first line.\n\nClients may have seen lost revisions. As with 'binnacle restore', the new store starts at a much higher \
             revision: clients that continue from an earlier one get status 410 (Gone) and list again.\n\nIf there is a recent \
             backup, restore that instead.\n\nExit status: 0 if the new store was created, else 1.",
        )
        .arg(dir("from", "FROM", "The data directory with the damaged store, or its subdirectory store; the server must be stopped"))
        .arg(dir("to", "TO", "The data directory for the new store; it must not contain a store"))
        .arg(bump_revision("Number that is added to the newest known revision for the first revision of the new store"))
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

fn directory_value() -> ValueParser {
    ValueParser::new(|text: &str| Ok::<_, std::convert::Infallible>(directory(text)))
}

/// Parses what can be checked: a store, or the path of a directory or a file.
fn checked_value() -> ValueParser {
    ValueParser::new(|text: &str| match text.split_once(':') {
        Some(("etcd", _)) => text.parse(),
        _ => Ok(StoreLocation::Embedded(directory(text))),
    })
}

fn output() -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_parser(["text", "json"])
        .default_value("text")
        .help("Output format")
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
            .help("Prefix of the keys of all objects in etcd"),
        file(
            "etcd-cafile",
            "The certificate authorities for the serving certificates of etcd; if not set, those of the system",
        ),
        file("etcd-certfile", "The TLS client certificate for etcd"),
        file("etcd-keyfile", "The TLS client key of --etcd-certfile"),
    ]
}

/// Runs a command. Returns true if it found no problem.
pub async fn run(matches: &ArgMatches) -> Result<bool, Error> {
    let Some((name, matches)) = matches.subcommand() else { return Err(Error::new("no command")) };
    match name {
        "check" => {
            let location = matches.get_one::<StoreLocation>("store").ok_or_else(|| Error::new("no store"))?;
            let report = check::run(location, &etcd_access(matches)).await;
            let report = report.map_err(|error| about_etcd(matches, error))?;
            print(matches, report.text(), &report.json())?;
            Ok(report.is_whole())
        }
        "doctor" => {
            let encryption = path(matches, "encryption-provider-config");
            let diagnosis = doctor::examine(&open(matches).await?, encryption.as_deref()).await;
            let diagnosis = diagnosis.map_err(|error| about_etcd(matches, error))?;
            print(matches, diagnosis.text(), &diagnosis.json())?;
            Ok(diagnosis.is_healthy())
        }
        "sizes" => {
            let largest = matches.get_one::<u16>("largest").copied().unwrap_or_default();
            let sizes = sizes::measure(&open(matches).await?, largest.into()).await;
            let sizes = sizes.map_err(|error| about_etcd(matches, error))?;
            print(matches, sizes.text(), &sizes.json())?;
            Ok(true)
        }
        "history" => {
            let text = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
            let object = history::ObjectName { resource: text("resource"), name: text("name") };
            let encryption = path(matches, "encryption-provider-config");
            let history = history::read(&open(matches).await?, &object, encryption.as_deref()).await;
            let history = history.map_err(|error| about_etcd(matches, error))?;
            print(matches, history.text(), &history.json())?;
            Ok(true)
        }
        "undelete" => {
            let undeleted = undelete::run(matches).await?;
            write(&undeleted.text())?;
            Ok(undeleted.is_complete())
        }
        "cluster" => {
            write(&cluster::run(matches).await?)?;
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
            let report = backup::save(&open(matches).await?, &file).await;
            write(&report.map_err(|error| about_etcd(matches, error))?.text())?;
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
        "compare" => {
            let report = compare::run(matches).await?;
            write(&report.text())?;
            Ok(report.is_clean())
        }
        "completion" => {
            write(completion::script(matches)?)?;
            Ok(true)
        }
        other => Err(Error::new(format!("unknown command {other:?}"))),
    }
}

/// Adds the URLs of the store to an error, if it is an etcd cluster.
fn about_etcd(matches: &ArgMatches, error: Error) -> Error {
    match matches.get_one::<StoreLocation>("store") {
        Some(location @ StoreLocation::Etcd(_)) => Error::context(&location.to_string(), error),
        _ => error,
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
            ("doctor /data", true),
            ("doctor https://10.0.0.1:2379", false),
            ("check embedded:/data", true),
            ("check etcd:http://a:1 --etcd-prefix /k -o json", true),
            ("check etcd:", false),
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
            ("compare https://a https://b", true),
            ("compare https://a https://b --from log --dry-run --impersonate --rate 0.5 --html f --json g", true),
            ("compare https://a https://b --certfile-a c", false),
            ("compare https://a https://b --rate 0", false),
            ("compare https://a", false),
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
