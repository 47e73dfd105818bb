//! Requests in an audit log.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use binnacle_request::User;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::Options;
use crate::endpoint::{Outgoing, add_parameter};
use crate::impersonation;
use crate::report::Report;
use crate::subject::{Kind, Subject};

/// The members of an event that a replay needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI")]
    uri: String,
    verb: String,
    #[serde(default)]
    user: UserInfo,
    impersonated_user: Option<UserInfo>,
    request_object: Option<Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Why requests without a subject are skipped.
pub(super) const NOT_COMPARED: &str =
    "requests that are not compared: logs, sessions, health, token reviews, writes without dry run";

/// Reads the requests of an audit log. Each of them is sent once, however often the log has it.
pub(super) fn read(options: &Options, path: &Path, report: &mut Report) -> Result<Vec<Subject>, String> {
    let error = |line: usize, error: &dyn std::fmt::Display| format!("{}:{line}: {error}", path.display());
    let file = File::open(path).map_err(|failed| format!("{}: {failed}", path.display()))?;
    let (mut subjects, mut seen) = (Vec::new(), HashSet::new());
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|failed| error(number + 1, &failed))?;
        if line.trim().is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(&line).map_err(|failed| error(number + 1, &failed))?;
        if event.stage != "ResponseComplete" {
            continue;
        }
        match event.outgoing(options) {
            Err(reason) => report.skip(reason),
            Ok(outgoing) => {
                let all = subjects_of(options, outgoing);
                if all.is_empty() {
                    report.skip(NOT_COMPARED);
                }
                for subject in all {
                    let sent = &subject.outgoing;
                    let text = format!("{} {} {:?} {:?}", sent.method, sent.target, sent.headers, sent.data);
                    match seen.insert(xxh3_64(text.as_bytes())) {
                        true => subjects.push(subject),
                        false => report.skip("repetitions of a request"),
                    }
                }
            }
        }
    }
    Ok(subjects)
}

/// Returns a read once for each encoding, and other requests once.
pub(super) fn subjects_of(options: &Options, outgoing: Outgoing) -> Vec<Subject> {
    let Some(subject) = Subject::parse_replay(outgoing) else { return Vec::new() };
    if !matches!(subject.kind, Kind::Object | Kind::List) || subject.outgoing.headers.contains_key("Accept") {
        return vec![subject];
    }
    let accepting = |accept: &String| {
        let mut subject = subject.clone();
        subject.outgoing.headers.insert("Accept".to_owned(), Value::from(accept.as_str()));
        subject
    };
    options.accept.iter().map(accepting).collect()
}

impl Event {
    /// Returns the request, or why it cannot be repeated.
    fn outgoing(self, options: &Options) -> Result<Outgoing, &'static str> {
        let method = match self.verb.as_str() {
            "get" | "list" | "watch" => "GET",
            "create" | "post" => "POST",
            "update" | "put" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => return Err("other verbs"),
        };
        let mut outgoing = Outgoing::empty(method, &self.uri);
        if options.impersonate {
            outgoing.headers = impersonation::headers(&self.impersonated_user.unwrap_or(self.user).user());
        }
        if method == "GET" {
            return Ok(outgoing);
        }
        remove_effect(&mut outgoing, options)?;
        if let Some(body) = self.request_object.filter(|body| !body.is_null()) {
            let kind = if method == "PATCH" { patch_type(&outgoing.target, &body) } else { "application/json" };
            outgoing.headers.insert("Content-Type".to_owned(), Value::from(kind));
            outgoing.data = Some(body.to_string().into_bytes());
        } else if method != "DELETE" {
            return Err("writes and reviews whose body the audit policy did not record");
        }
        dry_run_in_body(&mut outgoing)?;
        Ok(outgoing)
    }
}

/// Makes a write a dry run; reads and reviews stay as they are. Fails with the reason if writes are not sent.
pub(super) fn remove_effect(outgoing: &mut Outgoing, options: &Options) -> Result<(), &'static str> {
    let is_review = outgoing.target.split('?').next().is_some_and(|path| path.ends_with("reviews"));
    if outgoing.method == "GET" || is_review {
        return Ok(());
    }
    if !options.dry_run {
        return Err("writes (--dry-run sends them)");
    }
    add_dry_run(&mut outgoing.target);
    Ok(())
}

/// Makes a deletion with a body a dry run: the body replaces the parameters of the query. Fails with the reason if the
/// body is no JSON.
pub(super) fn dry_run_in_body(outgoing: &mut Outgoing) -> Result<(), &'static str> {
    let Some(data) = outgoing.data.as_deref().filter(|data| outgoing.method == "DELETE" && !data.is_empty()) else {
        return Ok(());
    };
    let options: Option<Value> = serde_json::from_slice(data).ok().filter(Value::is_object);
    let mut options = options.ok_or("deletions whose body is no JSON object")?;
    options["dryRun"] = json!(["All"]);
    outgoing.data = Some(options.to_string().into_bytes());
    Ok(())
}

/// Adds the parameter of dry runs.
fn add_dry_run(target: &mut String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let others: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("dryRun=")).collect();
    let mut changed = if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) };
    add_parameter(&mut changed, "dryRun", "All");
    *target = changed;
}

/// Returns the type of a patch, which events do not have. Both servers get the same one.
fn patch_type(target: &str, body: &Value) -> &'static str {
    let has = |name: &str| body.get(name).is_some();
    match body {
        Value::Array(_) => "application/json-patch+json",
        _ if has("apiVersion") && has("kind") && target.contains("fieldManager=") => "application/apply-patch+yaml",
        _ => "application/merge-patch+json",
    }
}

impl UserInfo {
    fn user(self) -> User {
        User {
            name: self.username.into(),
            uid: self.uid.into(),
            groups: self.groups.into_iter().map(Into::into).collect(),
            extra: self
                .extra
                .into_iter()
                .map(|(name, values)| (name.into(), values.into_iter().map(Into::into).collect()))
                .collect(),
        }
    }
}

/// Returns headers without those that belong to a connection or are credentials.
pub(super) fn kept_headers(headers: impl Iterator<Item = (String, String)>) -> Map<String, Value> {
    let kept = |name: &str| ["accept", "content-type"].iter().any(|kept| name.eq_ignore_ascii_case(kept));
    headers.filter(|(name, _)| kept(name)).map(|(name, value)| (title(&name), Value::from(value))).collect()
}

fn title(name: &str) -> String {
    if name.eq_ignore_ascii_case("accept") { "Accept".to_owned() } else { "Content-Type".to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read;
    use crate::offline::tests::options;
    use crate::report::Report;
    use crate::subject::Kind;

    fn event(verb: &str, uri: &str, body: Option<Value>) -> String {
        let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete",
            "verb": verb, "requestURI": uri, "user": {"username": "u", "groups": ["g"]}});
        if let Some(body) = body {
            event["requestObject"] = body;
        }
        event.to_string()
    }

    #[test]
    fn deletions_with_options_become_dry_runs() {
        let pod = "/api/v1/namespaces/n/pods/p";
        let body = json!({"propagationPolicy": "Background", "dryRun": []});
        let lines = [event("delete", pod, Some(body)), event("delete", pod, Some(json!("text")))];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, lines.join("\n")).unwrap();
        let mut options = options();
        options.dry_run = true;
        let mut report = Report::new(["a".to_owned(), "b".to_owned()]);
        let subjects = read(&options, &path, &mut report).unwrap();
        assert_eq!(subjects.len(), 1, "the other one has no options: {}", report.json());
        let sent: Value = serde_json::from_slice(subjects[0].outgoing.data.as_deref().unwrap()).unwrap();
        assert_eq!(sent, json!({"propagationPolicy": "Background", "dryRun": ["All"]}));
        assert!(subjects[0].is_harmless());
    }

    #[test]
    fn reads_requests_of_an_audit_log() {
        let pods = "/api/v1/namespaces/n/pods";
        let started = event("get", pods, None).replace("ResponseComplete", "ResponseStarted");
        let lines = [
            event("list", &format!("{pods}?limit=5"), None),
            event("list", &format!("{pods}?limit=5"), None),
            started,
            event("watch", &format!("{pods}?watch=1"), None),
            event("get", &format!("{pods}/p/log"), None),
            event("create", pods, Some(json!({"kind": "Pod"}))),
            event(
                "patch",
                &format!("{pods}/p?dryRun=All&fieldManager=m"),
                Some(json!({"kind": "Pod", "apiVersion": "v1"})),
            ),
            event("patch", &format!("{pods}/p"), Some(json!([]))),
            event("update", &format!("{pods}/p"), None),
            event("delete", &format!("{pods}/p"), None),
            event("create", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Some(json!({"spec": {}}))),
            String::new(),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, lines.join("\n")).unwrap();
        for (dry_run, want) in [
            (
                false,
                vec![
                    "GET /api/v1/namespaces/n/pods?limit=5",
                    "GET /api/v1/namespaces/n/pods?watch=1",
                    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                ],
            ),
            (
                true,
                vec![
                    "GET /api/v1/namespaces/n/pods?limit=5",
                    "GET /api/v1/namespaces/n/pods?watch=1",
                    "POST /api/v1/namespaces/n/pods?dryRun=All",
                    "PATCH /api/v1/namespaces/n/pods/p?fieldManager=m&dryRun=All",
                    "PATCH /api/v1/namespaces/n/pods/p?dryRun=All",
                    "DELETE /api/v1/namespaces/n/pods/p?dryRun=All",
                    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                ],
            ),
        ] {
            let mut report = Report::new(["a".to_owned(), "b".to_owned()]);
            let mut options = options();
            options.dry_run = dry_run;
            let subjects = read(&options, &path, &mut report).unwrap();
            let got: Vec<_> = subjects
                .iter()
                .map(|subject| format!("{} {}", subject.outgoing.method, subject.outgoing.target))
                .collect();
            assert_eq!(got, want);
            assert!(subjects.iter().all(|subject| subject.kind != Kind::DryRun || dry_run));
            assert!(report.json()["skipped"]["repetitions of a request"] == 1, "{}", report.json());
            let types: Vec<_> =
                subjects.iter().filter_map(|subject| subject.outgoing.headers.get("Content-Type")).collect();
            if dry_run {
                let [json, apply, patch] =
                    ["json", "apply-patch+yaml", "json-patch+json"].map(|kind| json!(format!("application/{kind}")));
                assert_eq!(types, [&json, &apply, &patch, &json]);
            }
        }
    }

    #[test]
    fn impersonates_users_and_sends_each_encoding() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, event("get", "/api/v1/nodes/a", None)).unwrap();
        let mut options = options();
        options.impersonate = true;
        options.accept = vec!["application/json".to_owned(), "application/yaml".to_owned()];
        let subjects = read(&options, &path, &mut Report::new(["a".to_owned(), "b".to_owned()])).unwrap();
        assert_eq!(subjects.len(), 2);
        let headers = &subjects[1].outgoing.headers;
        assert_eq!((&headers["Accept"], &headers["Impersonate-User"]), (&json!("application/yaml"), &json!("u")));
    }

    #[test]
    fn names_the_line_of_a_malformed_event() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, format!("{}\n{{}}\n", event("get", "/api", None))).unwrap();
        let error = read(&options(), &path, &mut Report::new(["a".to_owned(), "b".to_owned()])).unwrap_err();
        assert!(error.contains("audit.log:2: missing field"), "{error}");
    }
}
