//! `binnacle compare`: replays requests against two servers and reports the differences.

use std::path::{Path, PathBuf};

use binnacle_comparison::offline::{self, Options, Source, Variants};
use binnacle_comparison::{Endpoint, Report, Stores};
use binnacle_webhook::{Credential, Identity, IdentityFiles, Target};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::Error;

/// The sides, as they end the names of arguments.
const SIDES: [&str; 2] = ["a", "b"];

pub(crate) fn command() -> Command {
    let url = |name: &'static str, help: &'static str| Arg::new(name).value_name("URL").required(true).help(help);
    Command::new("compare")
        .about("Replays requests against two API servers and compares the answers")
        .long_about(
            "Sends the same requests to two API servers, brings both answers into a normal form without the values that differ in \
             every run, and reports the differences by cause. Differences that are known gaps of Binnacle are listed apart. The \
             requests are those of an audit log (audit.k8s.io/v1, one event in a line), of a HAR file, or of a directory of recorded \
             cases; without --from, they are reads of everything in the discovery of the first server. Writes of a log are left out, \
             or sent with dryRun=All (--dry-run). Recorded cases create objects, most of them in namespaces of their own, and delete \
             them afterwards.\n\nExit status: 0 if no difference is unexplained and all requests were answered, else 1.",
        )
        .arg(url("server-a", "The server whose answers are expected, for example a kube-apiserver"))
        .arg(url("server-b", "The server to compare with it"))
        .arg(file("from", "FILE|DIR", "The audit log, HAR file or directory of recorded cases to replay"))
        .args(SIDES.map(side_flags).into_iter().flatten())
        .arg(flag("insecure-skip-tls-verify", "Accept any certificate of the servers"))
        .arg(flag(
            "same-store",
            "Both servers use one etcd: identifiers, versions and times must be equal, and lists are read at the version of the first \
             answer",
        ))
        .arg(flag("dry-run", "Send the writes of the log as well, with dryRun=All"))
        .arg(flag("impersonate", "Send each request of an audit log as the user who sent it"))
        .args(request_flags())
        .arg(file("html", "FILE", "Write the report as a page"))
        .arg(file("json", "FILE", "Write the report as JSON"))
}

fn request_flags() -> [Arg; 5] {
    [
        Arg::new("accept")
            .long("accept")
            .value_name("TYPE")
            .action(ArgAction::Append)
            .default_value("application/json")
            .help("Media type of the answers to reads; with several, each read is sent once for each of them"),
        Arg::new("filter").long("filter").value_name("TEXT").default_value("").help(
            "Replay only recorded cases with this text in AREA/NAME",
        ),
        Arg::new("variants")
            .long("variants")
            .value_name("N")
            .value_parser(value_parser!(u16).range(1..))
            .help("Replay N random changes of each recorded case in place of the case"),
        Arg::new("seed").long("seed").value_name("N").default_value("1").value_parser(value_parser!(u64)).help(
            "Seed of the random changes; the same seed makes the same changes",
        ),
        Arg::new("rate")
            .long("rate")
            .value_name("N")
            .value_parser(|text: &str| match text.parse::<f64>() {
                Ok(rate) if rate > 0.0 && rate <= 1e6 => Ok(rate),
                _ => Err("a number above 0 is needed".to_owned()),
            })
            .help("Maximum number of requests to each server per second; no limit by default. Recorded cases are not limited"),
    ]
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn file(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
}

/// Returns the flags with the credentials for a side.
fn side_flags(side: &'static str) -> [Arg; 5] {
    let named: [&'static str; 5] = match side {
        "a" => ["kubeconfig-a", "token-file-a", "cafile-a", "certfile-a", "keyfile-a"],
        _ => ["kubeconfig-b", "token-file-b", "cafile-b", "certfile-b", "keyfile-b"],
    };
    let [kubeconfig, token, ca, certificate, key] = named;
    [
        file(kubeconfig, "FILE", "The credentials and the certificate authority for this server; its URL is not used"),
        file(token, "FILE", "A file with a bearer token for this server"),
        file(ca, "FILE", "The certificate authorities for this server; if not set, those of the system"),
        file(certificate, "FILE", "The TLS client certificate for this server").requires(key),
        file(key, "FILE", "The TLS client key of the certificate").requires(certificate),
    ]
}

/// Compares two servers. Returns the report.
pub(crate) async fn run(matches: &ArgMatches) -> Result<Report, Error> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let path = |name: &str| matches.get_one::<PathBuf>(name);
    let endpoint = |side: &str, url: &str| {
        let target = target(matches, side, url)?;
        Endpoint::new(&target).map_err(|error| Error::context(url, error))
    };
    let source = match path("from") {
        Some(path) => Source::of(path).map_err(Error::new)?,
        None => Source::Discovery,
    };
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or_default();
    let variants = matches.get_one::<u16>("variants").map(|count| Variants { count: (*count).into(), seed });
    if variants.is_some() && !matches!(source, Source::Cases(_)) {
        return Err(Error::new("--variants needs recorded cases in --from"));
    }
    let options = Options {
        servers: [endpoint("a", text("server-a"))?, endpoint("b", text("server-b"))?],
        stores: if matches.get_flag("same-store") { Stores::Same } else { Stores::Separate },
        rate: matches.get_one::<f64>("rate").copied(),
        dry_run: matches.get_flag("dry-run"),
        impersonate: matches.get_flag("impersonate"),
        accept: matches.get_many::<String>("accept").into_iter().flatten().cloned().collect(),
        filter: text("filter").to_owned(),
        variants,
    };
    let report = offline::run(&options, &source).await.map_err(Error::new)?;
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| Error::context(&path.display().to_string(), error))
    };
    if let Some(path) = path("html") {
        write(path, report.html())?;
    }
    if let Some(path) = path("json") {
        write(path, format!("{:#}\n", report.json()))?;
    }
    Ok(report)
}

/// Returns the target of a side. Single flags replace what the kubeconfig file has.
fn target(matches: &ArgMatches, side: &str, url: &str) -> Result<Target, Error> {
    let path = |name: &str| matches.get_one::<PathBuf>(&format!("{name}-{side}"));
    let read = |path: &Path| std::fs::read(path).map_err(|error| Error::context(&path.display().to_string(), error));
    let mut target = Target::rest(url).map_err(|error| Error::context(url, error))?;
    if let Some(kubeconfig) = path("kubeconfig") {
        let config = binnacle_webhook::load(kubeconfig).map_err(|error| Error::new(error.to_string()))?;
        target = Target { url: target.url, ..config };
    }
    if let Some(ca) = path("cafile") {
        target.authorities = Some(read(ca)?);
    }
    if let (Some(certificate), Some(key)) = (path("certfile"), path("keyfile")) {
        let files = IdentityFiles { certificate: certificate.clone(), key: key.clone() };
        target.identity = Some(Identity { certificate: read(certificate)?, key: read(key)?, files: Some(files) });
    }
    if let Some(token) = path("token-file") {
        target.credential = Credential::BearerFile(token.clone());
    }
    if matches.get_flag("insecure-skip-tls-verify") {
        target.insecure = true;
        target.authorities = None;
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use binnacle_webhook::Credential;

    use super::{command, target};

    #[test]
    fn flags_replace_the_credentials_of_a_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
            clusters: [{name: k, cluster: {server: 'https://other:1', tls-server-name: name}}]\nusers: [{name: u, user: {token: t}}]\n";
        std::fs::write(path("config"), config).unwrap();
        std::fs::write(path("ca"), "authority").unwrap();
        let (kubeconfig, ca) = (format!("--kubeconfig-a={}", path("config")), format!("--cafile-b={}", path("ca")));
        let line = ["compare", "https://one:2/x", "https://two", &kubeconfig, &ca, "--token-file-b=token"];
        let matches = command().try_get_matches_from(line).unwrap();
        let first = target(&matches, "a", "https://one:2/x").unwrap();
        assert_eq!((first.url.to_string().as_str(), first.server_name.as_deref()), ("https://one:2/x", Some("name")));
        assert!(matches!(first.credential, Credential::Bearer(token) if token == "t"));
        let second = target(&matches, "b", "https://two").unwrap();
        assert_eq!(second.authorities.as_deref(), Some(&b"authority"[..]));
        assert!(matches!(second.credential, Credential::BearerFile(_)) && second.identity.is_none());
    }
}
