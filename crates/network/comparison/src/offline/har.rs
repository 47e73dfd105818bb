//! Requests in a HAR file, as browsers and proxies write them.

use std::path::Path;

use serde::Deserialize;

use super::Options;
use super::audit::{NOT_COMPARED, dry_run_in_body, kept_headers, remove_effect, subjects_of};
use crate::endpoint::Outgoing;
use crate::report::Report;
use crate::subject::Subject;

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Sent,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: String,
}

/// Reads the requests of a HAR file. Credentials in it are not used.
pub(super) fn read(options: &Options, path: &Path, report: &mut Report) -> Result<Vec<Subject>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let har: Har = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut subjects = Vec::new();
    for Entry { request } in har.log.entries {
        let Some(target) = path_and_query(&request.url) else {
            report.skip("URLs without a path");
            continue;
        };
        let mut outgoing = Outgoing::empty(&request.method, target);
        if let Err(reason) = remove_effect(&mut outgoing, options) {
            report.skip(reason);
            continue;
        }
        let headers = request.headers.into_iter().map(|header| (header.name, header.value));
        outgoing.headers = kept_headers(headers);
        outgoing.data = request.post_data.map(|data| data.text.into_bytes());
        if let Err(reason) = dry_run_in_body(&mut outgoing) {
            report.skip(reason);
            continue;
        }
        let all = subjects_of(options, outgoing);
        if all.is_empty() {
            report.skip(NOT_COMPARED);
        }
        subjects.extend(all);
    }
    Ok(subjects)
}

fn path_and_query(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let start = rest.find('/')?;
    rest[start..].split('#').next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;
    use crate::offline::tests::options;
    use crate::report::Report;

    #[test]
    fn reads_requests_without_their_credentials() {
        let har = json!({"log": {"version": "1.2", "entries": [
            {"request": {"method": "GET", "url": "https://a:6443/api/v1/nodes?limit=1#x", "headers": [
                {"name": "accept", "value": "application/yaml"}, {"name": "Authorization", "value": "Bearer t"}]}},
            {"request": {"method": "POST", "url": "https://a/api/v1/nodes", "postData": {"text": "{}"}}},
            {"request": {"method": "GET", "url": "https://a/healthz"}},
            {"request": {"method": "GET", "url": "https://a"}}]}});
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.har");
        std::fs::write(&path, har.to_string()).unwrap();
        let mut report = Report::new(["a".to_owned(), "b".to_owned()]);
        let subjects = read(&options(), &path, &mut report).unwrap();
        assert_eq!(subjects.len(), 1);
        assert_eq!(subjects[0].outgoing.target, "/api/v1/nodes?limit=1");
        assert_eq!(subjects[0].outgoing.headers, json!({"Accept": "application/yaml"}).as_object().unwrap().clone());
        let mut with_writes = options();
        with_writes.dry_run = true;
        let subjects = read(&with_writes, &path, &mut report).unwrap();
        assert_eq!(subjects[1].outgoing.target, "/api/v1/nodes?dryRun=All");
        assert_eq!(subjects[1].outgoing.data.as_deref(), Some(&b"{}"[..]));
    }
}
