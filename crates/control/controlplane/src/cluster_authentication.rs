//! The config map that publishes the authorities and headers by which this server authenticates clients. Extension API
//! servers authenticate clients in the same way.

use std::sync::Arc;
use std::time::Duration;

use binnacle_fields::core::v1::ConfigMap;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::{Object, Value};
use tokio::sync::watch;

use crate::config_maps::{NAMESPACE, create};
use crate::context::ControllerContext;
use crate::trust::{RequestHeader, TrustedAuthorities};
use binnacle_controllers::ChangeWatcher;
use binnacle_controllers::Objects;
use binnacle_controllers::{RETRY_FIRST, RETRY_LAST};

const NAME: &str = "extension-apiserver-authentication";
const PEM_END: &str = "-----END CERTIFICATE-----";
/// kube-apiserver's resync interval.
const RESYNC: Duration = Duration::from_secs(60);

/// Writes the config map at the start, when it or the trusted authorities change, and at intervals, until the shutdown
/// signal.
pub(crate) async fn run(ctx: Arc<ControllerContext>, report: watch::Sender<bool>, shutdown: Shutdown) {
    let Ok(maps) = Objects::new(&ctx.resources, "", "v1", "configmaps") else { return };
    let queue = ctx.config.queues.queue("cluster_authentication_trust_controller");
    let mut changes = ChangeWatcher::one(maps.resource(), NAMESPACE, NAME);
    let mut trusted = ctx.config.trust.subscribe();
    let fired = shutdown.fired();
    tokio::pin!(fired);
    let mut retry = RETRY_FIRST;
    while !shutdown.is_fired() {
        let item = queue.add().begin();
        let wanted = trusted.borrow_and_update().clone();
        let published = publish(&ctx.resources, &wanted).await;
        drop(item);
        // As in kube-apiserver, the first attempt suffices for the start: a webhook that refuses everything must not
        // block the requests that would remove it.
        report.send_replace(true);
        let pause = match published {
            Ok(()) => {
                retry = RETRY_FIRST;
                RESYNC
            }
            Err(status) => {
                tracing::warn!(
                    error = status.message(),
                    "failed to publish the certificate authorities of clients, retrying"
                );
                queue.retry(1);
                let next = (retry * 2).min(RETRY_LAST);
                std::mem::replace(&mut retry, next)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = changes.changed() => {}
            _ = trusted.changed() => {}
            () = &mut fired => return,
        }
    }
}

/// Adds this server's authorities and headers to the existing ones: each server may have its own, and other servers may
/// still use authorities that were removed from a file here.
async fn publish(resources: &Catalog, trusted: &TrustedAuthorities) -> Result<(), Status> {
    let maps = Objects::new(resources, "", "v1", "configmaps")?;
    let wanted = data(trusted);
    let Some(current) = maps.get(NAMESPACE, NAME).await? else {
        return create(&maps, NAME, wanted).await;
    };
    let present = FieldRef::<ConfigMap>::root(&current).at(ConfigMap::DATA).object();
    let merged = merge(present, &wanted);
    if present.is_some_and(|data| *data == merged) || merged.is_empty() {
        return Ok(());
    }
    // Merges again with the data at the time of the write, since another server may have changed them.
    let update = maps.update(NAMESPACE, NAME, "", |map| {
        let mut map = FieldMut::<ConfigMap>::root(map);
        let merged = merge(map.read().at(ConfigMap::DATA).object(), &wanted);
        map.set(ConfigMap::DATA, Value::Object(merged));
    });
    update.await
}

fn data(trusted: &TrustedAuthorities) -> Object {
    let mut data = Object::new();
    if let Some(authorities) = trusted.clients.as_deref().filter(|pem| !pem.is_empty()) {
        data.insert("client-ca-file", authorities);
    }
    let Some(header) = trusted.proxies.as_ref().filter(|header| !header.client_ca.is_empty()) else {
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

/// Merges the certificates and names of both maps, existing ones first. Keeps other members of the existing map.
fn merge(current: Option<&Object>, wanted: &Object) -> Object {
    let mut merged = current.cloned().unwrap_or_default();
    for (name, wanted_text) in wanted.iter() {
        let wanted_text = wanted_text.as_str().unwrap_or("");
        let existing = merged.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let joined = if name.ends_with("-ca-file") {
            distinct(certificates(&existing).chain(certificates(wanted_text))).concat()
        } else {
            json_list(&distinct(list(&existing).into_iter().chain(list(wanted_text))))
        };
        merged.insert(name.clone(), joined);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_authorities_of_servers() {
        let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n{PEM_END}\n");
        let header = |names: &[&str]| RequestHeader {
            client_ca: pem("front"),
            allowed_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..RequestHeader::default()
        };
        let trusted =
            |ca: &str, names: &[&str]| TrustedAuthorities { clients: Some(pem(ca)), proxies: Some(header(names)) };
        let first = data(&trusted("a", &["x"]));
        assert_eq!(first.get("requestheader-allowed-names").and_then(Value::as_str), Some("[\"x\"]"));
        assert_eq!(merge(Some(&first), &first), first);
        let joined = merge(Some(&first), &data(&trusted("b", &["x", "y"])));
        assert_eq!(joined.get("client-ca-file").and_then(Value::as_str), Some((pem("a") + &pem("b")).as_str()));
        assert_eq!(joined.get("requestheader-allowed-names").and_then(Value::as_str), Some("[\"x\",\"y\"]"));
        assert_eq!(joined.get("requestheader-client-ca-file").and_then(Value::as_str), Some(pem("front").as_str()));
    }
}
