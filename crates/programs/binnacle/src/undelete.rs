//! `binnacle undelete`: puts objects back as they were at an earlier revision, by the API of a server that keeps history.

use std::collections::BTreeMap;
use std::fmt::Write;

use binnacle_client::path::escape;
use binnacle_comparison::Outgoing;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use crate::Error;
use crate::api::{Api, kubeconfig_option};

/// Metadata that the server sets. Owners that were created again have another uid.
const SET_BY_SERVER: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "ownerReferences",
];
/// The number of objects of a page.
const PAGE: usize = 500;

pub(crate) fn command() -> Command {
    Command::new("undelete")
        .about("Puts objects back as they were at an earlier time")
        .long_about(
            "Creates objects that were deleted, with the contents that they had at a resourceVersion or a time, on a server with \
             --history-retention. Objects that exist stay as they are unless --overwrite is given. What the server sets itself is \
             new: uid, resourceVersion, times; owner references and the status are left out. Needs the permission to get /at, and \
             those to read and to create (or update) the objects. With the kubeconfig of a logical cluster, it works there.",
        )
        .arg(Arg::new("resource").value_name("RESOURCE").required(true).help(
            "The plural name of the resource, for groups other than the core as PLURAL.GROUP: deployments.apps",
        ))
        .arg(
            Arg::new("name")
                .value_name("[NAMESPACE/]NAME")
                .num_args(1..)
                .required_unless_present("all")
                .help("The names of the objects; the default namespace is 'default'"),
        )
        .arg(Arg::new("at").long("at").value_name("REVISION|TIME").required(true).help(
            "The resourceVersion, or a time such as 2026-11-27T10:00:00Z",
        ))
        .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).conflicts_with("name").help(
            "All objects of the resource, or those that --namespace and --selector select",
        ))
        .arg(Arg::new("namespace").long("namespace").short('n').value_name("NAMESPACE").requires("all").help(
            "Only objects in this namespace",
        ))
        .arg(Arg::new("selector").long("selector").short('l').value_name("SELECTOR").requires("all").help(
            "Only objects whose labels then matched this selector",
        ))
        .arg(Arg::new("overwrite").long("overwrite").action(ArgAction::SetTrue).help(
            "Set objects that exist back, too",
        ))
        .arg(kubeconfig_option("that keeps the history"))
}

/// What became of the selected objects.
pub(crate) struct Outcome {
    lines: Vec<String>,
    failed: usize,
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        self.lines.concat()
    }

    /// Returns true if no object failed.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed == 0
    }
}

/// Runs the command.
pub(crate) async fn run(matches: &ArgMatches) -> Result<Outcome, Error> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let api = Api::open(matches)?;
    let past = format!("/at/{}", encoded(text("at").unwrap_or_default()));
    let resource = Resource::find(&api, &past, text("resource").unwrap_or_default()).await?;
    let names = matches.get_many::<String>("name").into_iter().flatten();
    let mut objects = Vec::new();
    for name in names {
        let path = resource.object_path(name)?;
        objects.push(api.send(Outgoing::empty("GET", &format!("{past}{path}"))).await?);
    }
    if matches.get_flag("all") {
        objects = resource.list(&api, &past, text("namespace"), text("selector")).await?;
    }
    let mut undeleted = Outcome { lines: Vec::new(), failed: 0 };
    for object in objects {
        let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
        let mut line = format!("{}/{}", resource.plural, name.as_str().unwrap_or_default());
        if let Some(namespace) = namespace.as_str() {
            let _ = write!(line, " in {namespace}");
        }
        match resource.put_back(&api, object, matches.get_flag("overwrite")).await {
            Ok(outcome) => undeleted.lines.push(format!("{line}: {outcome}\n")),
            Err(error) => {
                undeleted.failed += 1;
                undeleted.lines.push(format!("{line}: {error}\n"));
            }
        }
    }
    Ok(undeleted)
}

/// A resource, as it was served at the time.
struct Resource {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    api_path: String,
    plural: String,
    is_namespaced: bool,
}

impl Resource {
    /// Finds a resource `PLURAL` or `PLURAL.GROUP` in the discovery documents of the time.
    async fn find(api: &Api, past: &str, name: &str) -> Result<Self, Error> {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        let api_path = match group {
            "" => "/api/v1".to_owned(),
            group => {
                let path = format!("{past}/apis/{}", encoded(group));
                let group = api.send(Outgoing::empty("GET", &path)).await?;
                let preferred = group["preferredVersion"]["groupVersion"].as_str();
                format!("/apis/{}", preferred.ok_or_else(|| Error::new(format!("there was no group of {name}")))?)
            }
        };
        let listed = api.send(Outgoing::empty("GET", &format!("{past}{api_path}"))).await?;
        let mut resources = listed["resources"].as_array().into_iter().flatten();
        let found = resources.find(|resource| resource["name"].as_str() == Some(plural));
        let found = found.ok_or_else(|| Error::new(format!("there was no resource {name} at that time")))?;
        let is_namespaced = found["namespaced"].as_bool().unwrap_or_default();
        Ok(Self { api_path, plural: plural.to_owned(), is_namespaced })
    }

    fn collection_path(&self, namespace: Option<&str>) -> String {
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{}/namespaces/{}/{}", self.api_path, encoded(namespace), self.plural),
            None => format!("{}/{}", self.api_path, self.plural),
        }
    }

    /// Returns the path of an object `NAME` or `NAMESPACE/NAME`.
    fn object_path(&self, name: &str) -> Result<String, Error> {
        let (namespace, name) = match name.split_once('/') {
            Some(_) if !self.is_namespaced => {
                return Err(Error::new(format!("{name}: {} have no namespace", self.plural)));
            }
            Some((namespace, name)) => (namespace, name),
            None => ("default", name),
        };
        Ok(format!("{}/{}", self.collection_path(Some(namespace)), encoded(name)))
    }

    /// Lists the objects of the time, page by page.
    async fn list(
        &self,
        api: &Api,
        past: &str,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, Error> {
        let path = format!("{past}{}?limit={PAGE}", self.collection_path(namespace));
        let selector = selector.map(|selector| format!("&labelSelector={}", encoded(selector))).unwrap_or_default();
        let (mut objects, mut token) = (Vec::new(), String::new());
        loop {
            let target = format!("{path}{selector}&continue={}", encoded(&token));
            let mut page = api.send(Outgoing::empty("GET", &target)).await?;
            // Items of lists have no type.
            let types = BTreeMap::from(["apiVersion", "kind"].map(|field| (field, page[field].clone())));
            let kind = types["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
            if let Value::Array(items) = page["items"].take() {
                objects.extend(items.into_iter().map(|mut item| {
                    item["apiVersion"] = types["apiVersion"].clone();
                    item["kind"] = kind.clone().into();
                    item
                }));
            }
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                _ => return Ok(objects),
            }
        }
    }

    /// Creates an object as it was, or sets it back, and returns what was done.
    async fn put_back(&self, api: &Api, mut object: Value, overwrite: bool) -> Result<&'static str, Error> {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
        }
        if let Some(members) = object.as_object_mut() {
            members.remove("status");
        }
        let collection = self.collection_path(object["metadata"]["namespace"].as_str());
        match api.request(Outgoing::json("POST", &collection, &object)).await? {
            (200..300, _) => Ok("created"),
            (409, status) if status["reason"] == "AlreadyExists" && !overwrite => Ok("exists, not changed"),
            (409, status) if status["reason"] == "AlreadyExists" => {
                let name = encoded(object["metadata"]["name"].as_str().unwrap_or_default());
                let path = format!("{collection}/{name}");
                let current = api.send(Outgoing::empty("GET", &path)).await?;
                // A change in between is a conflict.
                object["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
                api.send(Outgoing::json("PUT", &path, &object)).await.map(|_| "set back")
            }
            (code, status) => Err(api.failure(code, &status)),
        }
    }
}

/// Returns a part of a path, or a value in a query. The colons of times stay as they are.
fn encoded(text: &str) -> String {
    escape(text, b"_.-~:")
}
