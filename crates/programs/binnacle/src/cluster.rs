//! `binnacle cluster`: the logical clusters of a server, by its API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_comparison::Outgoing;
use binnacle_pki::private_files::{Durability, create_private, write_private};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

mod backup;

use crate::Error;
use crate::api::{Api, home, kubeconfig_option};

const RESOURCE: &str = "/apis/binnacle.dev/v1alpha1/logicalclusters";
/// The time between two reads of a cluster that is not ready yet.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time after which a command stops to wait.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn command() -> Command {
    let kubeconfig = kubeconfig_option("that hosts the clusters").global(true);
    let name = || Arg::new("name").value_name("NAME").required(true).help("The name of the cluster");
    let idle = || {
        Arg::new("idle-after")
            .long("idle-after")
            .value_name("DURATION")
            .help("Stop the cluster after this time without requests, until the next one; 0s for never [default: 10m]")
    };
    let file = |help: &'static str| {
        Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    let output = Arg::new("output").long("output").short('o').value_name("FILE").value_parser(value_parser!(PathBuf));
    let output = output.help(
        "Write the kubeconfig to this file, or with - to standard output [default: ~/.kube/logical-clusters/NAME]",
    );
    Command::new("cluster")
        .about("Creates, lists and deletes logical clusters")
        .long_about(
            "Manages the logical clusters of a kube-apiserver with --logical-clusters: whole Kubernetes APIs in its process. \
             They are objects of that server (kubectl get logicalclusters), so that its permissions decide who may do this.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(kubeconfig)
        .subcommand(Command::new("create").about("Creates a cluster, and waits until it is ready").arg(name()).arg(idle()))
        .subcommand(
            Command::new("fork")
                .about("Creates a cluster with the contents of another one")
                .long_about(
                    "Creates a cluster with all objects of another one, now or at an earlier resourceVersion that the server still \
                     keeps, and waits until it is ready. Objects keep their uid and resourceVersion. Both clusters are independent \
                     from then on; what neither changes is stored once. The new cluster has keys of its own: certificates \
                     and tokens of the other one are not valid in it. Needs the verb fork on the logicalcluster NAME.",
                )
                .arg(name())
                .arg(Arg::new("new").value_name("NEW").required(true).help("The name of the new cluster"))
                .arg(
                    Arg::new("at")
                        .long("at")
                        .value_name("REVISION")
                        .value_parser(value_parser!(u64).range(1..))
                        .help("The resourceVersion at which the cluster is forked [default: the current one]"),
                )
                .arg(Arg::new("new-identity").long("new-identity").action(ArgAction::SetTrue).help(
                    "Give the namespace kube-system another uid, and leave out Secrets with tokens for the API",
                ))
                .arg(idle()),
        )
        .subcommand(Command::new("list").about("Lists all clusters"))
        .subcommand(
            Command::new("kubeconfig")
                .about("Writes the kubeconfig of a cluster's administrator, and prints the path of the file")
                .arg(name())
                .arg(output),
        )
        .subcommand(Command::new("suspend").about("Stops a cluster, which then refuses requests").arg(name()))
        .subcommand(Command::new("resume").about("Ends the suspension of a cluster").arg(name()))
        .subcommand(
            Command::new("backup")
                .about("Backs up a cluster to a file")
                .long_about(
                    "Writes all objects of a cluster at one revision, and its keys, to a file. The file has the format of 'binnacle \
                     backup': 'binnacle check' checks it, and 'binnacle restore' makes the data directory of a server of its own \
                     from it. Values are not encrypted, whether they are in the store or not. Only the owner of the file can \
                     read it. Needs the permission to get logicalclusters/backup.",
                )
                .arg(name())
                .arg(file("The file to write, which must not exist")),
        )
        .subcommand(
            Command::new("restore")
                .about("Creates a cluster from a backup")
                .long_about(
                    "Creates a cluster with the objects in a file of 'binnacle cluster backup' or 'binnacle backup', or in a file of \
                     others that 'binnacle restore' takes. The keys in a backup of a cluster are restored as well, so that client \
                     certificates stay valid; tokens of service accounts do if the URL of the cluster is the same. resourceVersions \
                     are those of the host: clients get status 410 (Gone) and list again. Needs the permission to create \
                     logicalclusters/restore.",
                )
                .arg(name())
                .arg(file("The file to restore"))
                .arg(idle()),
        )
        .subcommand(Command::new("delete").about("Deletes a cluster with all its objects").arg(name()))
}

/// Runs a command, and returns what it prints.
pub(crate) async fn run(matches: &ArgMatches) -> Result<String, Error> {
    let Some((command, arguments)) = matches.subcommand() else { return Err(Error::new("no command")) };
    let host = Host::open(arguments)?;
    let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
    if command == "list" {
        return host.list().await;
    }
    let name = text("name").ok_or_else(|| Error::new("no name"))?;
    match command {
        "create" => host.create(name, spec(text("idle-after"))).await,
        "fork" => {
            let new = text("new").ok_or_else(|| Error::new("no name"))?;
            let mut spec = spec(text("idle-after"));
            spec["source"] = json!({"cluster": name});
            if let Some(at) = arguments.get_one::<u64>("at") {
                spec["source"]["revision"] = (*at).into();
            }
            if arguments.get_flag("new-identity") {
                spec["source"]["newIdentity"] = true.into();
            }
            host.create(new, spec).await
        }
        "kubeconfig" => host.kubeconfig(name, arguments.get_one::<PathBuf>("output").map(PathBuf::as_path)).await,
        "suspend" => host.suspend(name, true).await,
        "resume" => host.suspend(name, false).await,
        "backup" | "restore" => {
            let file = arguments.get_one::<PathBuf>("file").ok_or_else(|| Error::new("no file"))?;
            match command {
                "backup" => backup::save(&host, name, file).await,
                _ => backup::restore(&host, name, file, text("idle-after")).await,
            }
        }
        "delete" => host.delete(name).await,
        other => Err(Error::new(format!("no command {other}"))),
    }
}

/// Returns the spec of a cluster with these settings.
fn spec(idle_after: Option<&str>) -> Value {
    match idle_after {
        Some(idle_after) => json!({"idleAfter": idle_after}),
        None => json!({}),
    }
}

/// The server that hosts the clusters.
struct Host(Api);

impl Host {
    fn open(matches: &ArgMatches) -> Result<Self, Error> {
        Api::open(matches).map(Self)
    }

    /// Sends a request, and returns the object in the response.
    async fn send(&self, request: Outgoing) -> Result<Value, Error> {
        match self.0.request(request).await? {
            (200..300, value) => Ok(value),
            // The definition of the resource is missing.
            (404, value) if value["details"]["name"].as_str().is_none_or(str::is_empty) => {
                let url = self.0.url();
                Err(Error::new(format!("{url} hosts no logical clusters: start it with --logical-clusters")))
            }
            (status, value) => Err(self.0.failure(status, &value)),
        }
    }

    async fn get(&self, name: &str) -> Result<Value, Error> {
        self.send(Outgoing::empty("GET", &path(name)?)).await
    }

    async fn create(&self, name: &str, spec: Value) -> Result<String, Error> {
        self.create_object(name, spec).await?;
        let ready = self.wait_for(name, "Ready").await?;
        Ok(format!("{}\n", ready["status"]["url"].as_str().unwrap_or_default()))
    }

    async fn create_object(&self, name: &str, spec: Value) -> Result<(), Error> {
        path(name)?;
        let object = json!({
            "apiVersion": "binnacle.dev/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.send(Outgoing::json("POST", RESOURCE, &object)).await.map(drop)
    }

    async fn list(&self) -> Result<String, Error> {
        let list = self.send(Outgoing::empty("GET", RESOURCE)).await?;
        let text =
            |item: &Value, pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
        let mut rows = vec![["NAME", "PHASE", "URL"].map(str::to_owned)];
        for item in list["items"].as_array().into_iter().flatten() {
            rows.push(["/metadata/name", "/status/phase", "/status/url"].map(|pointer| text(item, pointer)));
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default() + 3;
        let (name, phase) = (width(0), width(1));
        Ok(rows.iter().map(|[a, b, c]| format!("{a:name$}{b:phase$}{c}\n")).collect())
    }

    async fn kubeconfig(&self, name: &str, output: Option<&Path>) -> Result<String, Error> {
        let cluster = self.get(name).await?;
        let secret = cluster["status"]["kubeconfigSecret"].as_str().and_then(|secret| secret.split_once('/'));
        let (namespace, secret) = secret.ok_or_else(|| Error::new(format!("the cluster {name} is not ready yet")))?;
        let secret = format!("/api/v1/namespaces/{namespace}/secrets/{secret}");
        let secret = self.send(Outgoing::empty("GET", &secret)).await?;
        let text = secret["data"]["kubeconfig"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let text = text.ok_or_else(|| Error::new(format!("the Secret of the cluster {name} has no kubeconfig")))?;
        if output == Some(Path::new("-")) {
            return String::from_utf8(text).map_err(|error| Error::context("the kubeconfig", error));
        }
        let file = match output {
            Some(file) => file.to_owned(),
            None => default_file(name)?,
        };
        let failed = |error| Error::context(&file.display().to_string(), error);
        write_private(&file, &text, Durability::Ephemeral).map_err(failed)?;
        Ok(format!("{}\n", file.display()))
    }

    async fn suspend(&self, name: &str, suspended: bool) -> Result<String, Error> {
        let patch = json!({"spec": {"suspended": suspended}});
        self.send(Outgoing::patch("PATCH", &path(name)?, "application/merge-patch+json", &patch)).await?;
        self.wait_for(name, if suspended { "Suspended" } else { "Ready" }).await?;
        Ok(String::new())
    }

    async fn delete(&self, name: &str) -> Result<String, Error> {
        let deleted = self.send(Outgoing::empty("DELETE", &path(name)?)).await?;
        // The response is the object while its finalizer remains, else a Status with its UID.
        let uid = [&deleted["metadata"]["uid"], &deleted["details"]["uid"]].into_iter().find_map(Value::as_str);
        let began = Instant::now();
        loop {
            let list = self.send(Outgoing::empty("GET", RESOURCE)).await?;
            if !list["items"].as_array().into_iter().flatten().any(|item| item["metadata"]["uid"].as_str() == uid) {
                return Ok(String::new());
            }
            check_patience(began, name)?;
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn wait_for(&self, name: &str, phase: &str) -> Result<Value, Error> {
        let began = Instant::now();
        loop {
            let cluster = self.get(name).await?;
            match cluster["status"]["phase"].as_str() {
                Some(now) if now == phase => return Ok(cluster),
                Some("Failed") => return Err(Error::new(cluster["status"]["message"].as_str().unwrap_or("failed"))),
                _ => {}
            }
            check_patience(began, name)?;
            sleep(POLL_INTERVAL).await;
        }
    }
}

fn check_patience(began: Instant, name: &str) -> Result<(), Error> {
    match began.elapsed() < PATIENCE {
        true => Ok(()),
        false => Err(Error::new(format!("the cluster {name} is still not done after {} seconds", PATIENCE.as_secs()))),
    }
}

/// Returns the path of a cluster's object. A name with other characters could be another path.
fn path(name: &str) -> Result<String, Error> {
    let is_label = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    match is_label {
        true => Ok(format!("{RESOURCE}/{name}")),
        false => Err(Error::new(format!("{name:?} is not a name of a cluster"))),
    }
}

/// Returns the default file of a cluster's kubeconfig, in a directory for its owner only.
fn default_file(name: &str) -> Result<PathBuf, Error> {
    let kube = home()?.join(".kube");
    let directory = kube.join("logical-clusters");
    for directory in [&kube, &directory] {
        match create_private(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::context(&directory.display().to_string(), error));
            }
            _ => {}
        }
    }
    Ok(directory.join(name))
}
