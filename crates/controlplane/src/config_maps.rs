//! Config maps that the server writes: the authorities and headers by which it authenticates clients (extension API
//! servers use the same), and the date since which the use of legacy tokens is tracked.

use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Catalog, Context, rfc3339};
use binnacle_schema::{Object, Value, value};

use crate::config::{Config, RequestHeader};
use crate::objects::Objects;
use crate::start::Work;

const NAMESPACE: &str = "kube-system";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const LEGACY_TOKENS: &str = "kube-apiserver-legacy-service-account-token-tracking";
const PEM_END: &str = "-----END CERTIFICATE-----";

pub(crate) async fn ensure_authentication(work: &Work) -> Result<(), Status> {
    publish_authentication(&work.resources, &work.config).await
}

/// Adds this server's authorities and headers to the existing ones: several servers may each have their own, and
/// authorities that were removed from a file may still be in use elsewhere.
pub async fn publish_authentication(resources: &Catalog, config: &Config) -> Result<(), Status> {
    let maps = Objects::new(resources, "", "v1", "configmaps")?;
    let wanted = authentication(config);
    let Some(there) = maps.get(NAMESPACE, AUTHENTICATION).await? else {
        return create(&maps, AUTHENTICATION, wanted).await;
    };
    let merged = merge(there.object_at(&["data"]), &wanted);
    if there.object_at(&["data"]).is_some_and(|data| *data == merged) || merged.is_empty() {
        return Ok(());
    }
    // Merged again with what is there when it is written: both bundles may change at once.
    let update = maps.update(NAMESPACE, AUTHENTICATION, "", |map| {
        let merged = merge(map.object_at(&["data"]), &wanted);
        map.make_object().insert("data", merged);
    });
    update.await
}

/// Writes the current date, unless there is one already.
pub(crate) async fn ensure_legacy_token_tracking(work: &Work) -> Result<(), Status> {
    let maps = Objects::new(&work.resources, "", "v1", "configmaps")?;
    let today = rfc3339(Context::internal("").now);
    let today = today.split('T').next().unwrap_or_default();
    match maps.get(NAMESPACE, LEGACY_TOKENS).await? {
        None => create(&maps, LEGACY_TOKENS, Object::from_iter([("since", today)])).await,
        Some(there) if is_date(there.str_at(&["data", "since"])) => Ok(()),
        Some(_) => {
            maps.update(NAMESPACE, LEGACY_TOKENS, "", |map| drop(map.make_at(&["data"]).insert("since", today))).await
        }
    }
}

async fn create(maps: &Objects, name: &str, data: Object) -> Result<(), Status> {
    let mut map = value!({"metadata": {"name": name, "namespace": NAMESPACE}});
    if !data.is_empty() {
        map.make_object().insert("data", data);
    }
    match maps.create(NAMESPACE, map).await {
        Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
        created => created.map(|_| ()),
    }
}

fn authentication(config: &Config) -> Object {
    let mut data = Object::new();
    if let Some(authorities) = config.client_ca.as_deref().filter(|pem| !pem.is_empty()) {
        data.insert("client-ca-file", authorities);
    }
    let Some(header) = config.request_header.as_ref().filter(|header| !header.client_ca.is_empty()) else {
        return data;
    };
    let RequestHeader { client_ca, allowed_names, username_headers, uid_headers, group_headers, extra_header_prefixes } =
        header;
    data.insert("requestheader-username-headers", json_list(username_headers));
    if !uid_headers.is_empty() {
        data.insert("requestheader-uid-headers", json_list(uid_headers));
    }
    data.insert("requestheader-group-headers", json_list(group_headers));
    data.insert("requestheader-extra-headers-prefix", json_list(extra_header_prefixes));
    data.insert("requestheader-client-ca-file", client_ca.as_str());
    data.insert("requestheader-allowed-names", json_list(allowed_names));
    data
}

/// Merges the certificates and names of both, existing ones first. Other members of the existing map stay.
fn merge(there: Option<&Object>, wanted: &Object) -> Object {
    let mut merged = there.cloned().unwrap_or_default();
    for (name, ours) in wanted.iter() {
        let ours = ours.as_str().unwrap_or("");
        let theirs = merged.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let both = if name.ends_with("-ca-file") {
            distinct(certificates(&theirs).chain(certificates(ours))).concat()
        } else {
            json_list(&distinct(list(&theirs).into_iter().chain(list(ours))))
        };
        merged.insert(name.clone(), both);
    }
    merged
}

/// Splits PEM text into certificates.
fn certificates(pem: &str) -> impl Iterator<Item = String> {
    let parts = pem.split_inclusive(PEM_END).map(str::trim).filter(|part| part.ends_with(PEM_END));
    parts.map(|part| format!("{part}\n"))
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct
}

/// Parses a JSON list; an invalid one counts as empty.
fn list(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

fn json_list(texts: &[String]) -> String {
    serde_json::Value::from(texts.to_vec()).to_string()
}

/// Returns true for a date such as `2026-11-21`.
fn is_date(text: &str) -> bool {
    let digits =
        |part: Option<&str>, len| part.is_some_and(|p| p.len() == len && p.bytes().all(|b| b.is_ascii_digit()));
    let mut parts = text.split('-');
    let shaped =
        digits(parts.next(), 4) && digits(parts.next(), 2) && digits(parts.next(), 2) && parts.next().is_none();
    shaped && binnacle_meta::Time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_add_to_what_is_there() {
        let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n{PEM_END}\n");
        let header = |names: &[&str]| RequestHeader {
            client_ca: pem("front"),
            allowed_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..RequestHeader::default()
        };
        let config = |ca: &str, names: &[&str]| Config {
            client_ca: Some(pem(ca)),
            request_header: Some(header(names)),
            ..Config::default()
        };
        let first = authentication(&config("a", &["x"]));
        assert_eq!(first.get("requestheader-allowed-names").and_then(Value::as_str), Some("[\"x\"]"));
        assert_eq!(merge(Some(&first), &first), first);
        let both = merge(Some(&first), &authentication(&config("b", &["x", "y"])));
        assert_eq!(both.get("client-ca-file").and_then(Value::as_str), Some((pem("a") + &pem("b")).as_str()));
        assert_eq!(both.get("requestheader-allowed-names").and_then(Value::as_str), Some("[\"x\",\"y\"]"));
        assert_eq!(both.get("requestheader-client-ca-file").and_then(Value::as_str), Some(pem("front").as_str()));
    }

    #[test]
    fn dates() {
        for (text, want) in
            [("2026-11-21", true), ("2026-13-21", false), ("2026-1-2", false), ("", false), ("today", false)]
        {
            assert_eq!(is_date(text), want, "{text}");
        }
    }
}
