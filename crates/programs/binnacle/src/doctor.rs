//! Checks that a server of this release can serve a store: reads every value like the server.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use binnacle_cli::progress::Progress;
use binnacle_encryption::{Encryption, Metrics, StorageKeys, load};
use binnacle_registry::decode_stored;
use binnacle_resources::key_prefixes;
use binnacle_store::{Count, KeyValue, Pages, RangeRequest, Revision, Store, unfinished_migration_key};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::Error;
use crate::keys::{KeyOwners, Owner};
use crate::location::ReadableStore;

/// The findings in a store.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    revision: u64,
    keys: u64,
    findings: BTreeMap<(Severity, FindingKind, String, String), Examples>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// The server cannot serve the data.
    Problem,
    /// For information.
    Note,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FindingKind {
    UnknownKeys,
    Undecodable,
    Encrypted,
    Undecryptable,
    UnfinishedMigration,
    Foreign,
    Torn,
}

#[derive(Debug, Default)]
struct Examples {
    count: u64,
    keys: Vec<String>,
}

/// The limit on keys that a finding lists.
const EXAMPLES: usize = 5;
/// The limit on findings with details.
const MAX_FINDINGS: usize = 1000;
const OTHER: &str = "for other reasons, which are too many to list";
/// The key with which API servers, also kube-apiserver's, elect the one that compacts; it is outside every prefix.
const COMPACTION_KEY: &[u8] = b"compact_rev_key";
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Examines all keys of a store. `encryption` is the server's `--encryption-provider-config`.
pub(crate) async fn examine(opened: &ReadableStore, encryption: Option<&Path>) -> Result<Diagnosis, Error> {
    let store = &*opened.store;
    let encryption = match encryption {
        Some(path) => Some(configured(path, &opened.root).await?),
        None => None,
    };
    let doctor = Doctor { keys: KeyOwners::new(&opened.root), encryption };
    let revision = store.current_revision().await?;
    let mut diagnosis = Diagnosis { revision: revision.0, ..Diagnosis::default() };
    let mut pages = Pages::new(store, opened.range(), revision).streamed();
    let mut progress = Progress::new();
    while let Some(page) = pages.next_or_newer().await? {
        progress.state(|| format!("examining: {} objects", diagnosis.keys));
        for kv in page {
            diagnosis.keys += 1;
            doctor.examine_value(&kv, &mut diagnosis).await;
        }
    }
    if pages.is_torn() {
        let detail = "the history was compacted during the examination: the keys were not all read at one revision";
        diagnosis.add(Severity::Note, FindingKind::Torn, "", detail, None);
    }
    outside(opened, revision, &mut diagnosis).await?;
    Ok(diagnosis)
}

pub(crate) async fn configured(path: &Path, root: &str) -> Result<Encryption, Error> {
    let metrics = Metrics::unregistered().map_err(|error| Error::new(error.to_string()))?;
    let loaded = load(path, false, &metrics).await.map_err(|error| Error::new(error.to_string()))?;
    Ok(Encryption::new(StorageKeys::new(root, key_prefixes()), loaded.transformers, metrics))
}

struct Doctor {
    keys: KeyOwners,
    encryption: Option<Encryption>,
}

// === impl Doctor ===

impl Doctor {
    async fn examine_value(&self, kv: &KeyValue, diagnosis: &mut Diagnosis) {
        use Severity::Problem;
        let owner = self.keys.owner(&kv.key);
        let name = owner.to_string();
        let mut found = |kind: FindingKind, detail: &str| diagnosis.add(Problem, kind, &name, detail, Some(&kv.key));
        let value = match &self.encryption {
            Some(encryption) => match encryption.read(&kv.key, &kv.value).await {
                Ok(value) => value,
                Err(error) => return found(FindingKind::Undecryptable, &reason(&error.to_string())),
            },
            None if kv.value.starts_with(ENCRYPTED) => {
                let detail = format!("{} (not decoded: use --encryption-provider-config)", provider(&kv.value));
                return found(FindingKind::Encrypted, &detail);
            }
            None => kv.value.clone(),
        };
        if owner == Owner::Unknown {
            return found(FindingKind::UnknownKeys, "no resource of this release has keys with this prefix");
        }
        match self.keys.stored_type(&kv.key) {
            Some(kind) => {
                if let Err(why) = decode_stored(kind, &value) {
                    found(FindingKind::Undecodable, &why);
                }
            }
            // The schema of its definition is not checked here: clients that read the object see its errors.
            None if is_custom_object(&value) => {}
            None => found(FindingKind::Undecodable, "it is not a JSON object with apiVersion, kind and metadata"),
        }
    }
}

/// Returns true for a stored custom resource.
fn is_custom_object(value: &[u8]) -> bool {
    let Ok(object) = serde_json::from_slice::<serde_json::Value>(value) else { return false };
    object["apiVersion"].is_string() && object["kind"].is_string() && object["metadata"].is_object()
}

/// Returns the provider and the key's name, which precede an encrypted value.
fn provider(value: &[u8]) -> String {
    let head = &value[..value.len().min(200)];
    let mut parts = head[ENCRYPTED.len()..].split(|byte| *byte == b':').map(String::from_utf8_lossy);
    let mut next = || parts.next().unwrap_or_default().into_owned();
    let (provider, version, name) = (next(), next(), next());
    format!("encrypted by {provider} {version}, key {name:?}")
}

/// Returns an error without the key, so that equal errors of different keys are one finding.
fn reason(error: &str) -> String {
    error.rsplit_once("\": ").map_or(error, |(_, why)| why).to_owned()
}

/// Reports keys of the store outside the prefix.
async fn outside(opened: &ReadableStore, revision: Revision, diagnosis: &mut Diagnosis) -> Result<(), Error> {
    let ours = opened.range();
    let before = Bytes::from_static(b"\0")..ours.start;
    let after = ours.end..Bytes::from_static(&[0xff; 64]);
    let mut foreign = 0;
    for range in [before, after] {
        foreign += count(&*opened.store, range, revision).await?;
    }
    let marker = unfinished_migration_key(&opened.root);
    for own in [Bytes::from_static(COMPACTION_KEY), marker.clone()] {
        let (found, _) = opened.store.get(own.clone(), None).await?;
        if found.is_none() {
            continue;
        }
        foreign = foreign.saturating_sub(1);
        if own == marker {
            let detail =
                "the store has an unfinished migration: run the same 'binnacle migrate' command again to complete it";
            diagnosis.add(Severity::Problem, FindingKind::UnfinishedMigration, "", detail, None);
        }
    }
    if foreign > 0 {
        let detail =
            format!("{foreign} keys outside of {} do not belong to the server and are not changed", opened.root);
        diagnosis.add(Severity::Note, FindingKind::Foreign, "", &detail, None);
    }
    Ok(())
}

async fn count(store: &dyn Store, range: Range<Bytes>, revision: Revision) -> Result<usize, Error> {
    // A concurrent compaction is not an error: keys outside the prefix are only reported for information.
    let request = RangeRequest { range, revision: Some(revision), limit: 0, count: Count::Only };
    let now = RangeRequest { revision: None, ..request.clone() };
    Ok(match store.range(request).await {
        Ok(counted) => counted.count,
        Err(_) => store.range(now).await?.count,
    })
}

// === impl Diagnosis ===

impl Diagnosis {
    fn add(&mut self, severity: Severity, kind: FindingKind, resource: &str, detail: &str, key: Option<&[u8]>) {
        let mut finding = (severity, kind, resource.to_owned(), detail.to_owned());
        if self.findings.len() >= MAX_FINDINGS && !self.findings.contains_key(&finding) {
            finding.3 = OTHER.to_owned();
        }
        let entry = self.findings.entry(finding).or_default();
        entry.count += 1;
        if let Some(key) = key.filter(|_| entry.keys.len() < EXAMPLES) {
            entry.keys.push(String::from_utf8_lossy(key).into_owned());
        }
    }

    /// Returns true if the server can serve the store.
    pub(crate) fn is_healthy(&self) -> bool {
        self.findings.keys().all(|(severity, ..)| *severity != Severity::Problem)
    }

    pub(crate) fn text(&self) -> String {
        let mut out = format!("{} keys at revision {}.\n", self.keys, self.revision);
        for ((severity, kind, resource, detail), examples) in &self.findings {
            let severity = match severity {
                Severity::Problem => "problem",
                Severity::Note => "note",
            };
            match kind {
                FindingKind::Foreign | FindingKind::Torn | FindingKind::UnfinishedMigration => {
                    out.push_str(&format!("{severity}: {detail}\n"))
                }
                _ => out.push_str(&format!(
                    "{severity}: {}, {}: {detail}\n",
                    kind.text(),
                    keys(examples.count, resource)
                )),
            }
            for key in &examples.keys {
                out.push_str(&format!("  {key}\n"));
            }
            if examples.count > examples.keys.len() as u64 && !examples.keys.is_empty() {
                out.push_str(&format!("  and {} more\n", examples.count - examples.keys.len() as u64));
            }
        }
        out.push_str(match self.is_healthy() {
            true => "This release can serve the store.\n",
            false => "This release cannot serve the store as it is.\n",
        });
        out
    }

    pub(crate) fn json(&self) -> Value {
        let findings = self.findings.iter().map(|((severity, kind, resource, detail), examples)| {
            json!({
                "severity": match severity { Severity::Problem => "problem", Severity::Note => "note" },
                "kind": kind.name(),
                "resource": resource,
                "detail": detail,
                "count": examples.count,
                "keys": examples.keys,
            })
        });
        json!({
            "canTakeOver": self.is_healthy(),
            "revision": self.revision,
            "keys": self.keys,
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

fn keys(count: u64, resource: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} key{plural} of {resource}")
}

// === impl FindingKind ===

impl FindingKind {
    fn name(self) -> &'static str {
        match self {
            Self::UnknownKeys => "UnknownKeys",
            Self::Undecodable => "Undecodable",
            Self::Encrypted => "Encrypted",
            Self::Undecryptable => "Undecryptable",
            Self::UnfinishedMigration => "UnfinishedMigration",
            Self::Foreign => "ForeignKeys",
            Self::Torn => "HistoryCompacted",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::UnknownKeys => "unknown keys",
            Self::Undecodable => "values that cannot be decoded",
            Self::Encrypted => "encrypted values",
            Self::Undecryptable => "values that cannot be decrypted",
            Self::UnfinishedMigration => "an unfinished migration",
            Self::Foreign => "foreign keys",
            Self::Torn => "history was compacted",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_store_embedded::EmbeddedStore;

    use super::*;
    use crate::testing::{opened, put};

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"a"}}"#;
    const CONFIG: &str = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: \
                          [secrets]\n  providers: [{aesgcm: {keys: [{name: one, secret: MTExMTExMTExMTExMTExMQ==}]}}, \
                          {identity: {}}]\n";

    /// Returns the findings in a store with one key: kind, resource and detail.
    async fn found(key: &str, value: &[u8], config: Option<&Path>) -> Vec<[String; 3]> {
        let store = Arc::new(EmbeddedStore::ephemeral());
        put(&*store, key, value).await;
        put(&*store, "compact_rev_key", "1").await;
        let diagnosis = examine(&opened(store), config).await.expect("a diagnosis");
        assert_eq!(diagnosis.is_healthy(), diagnosis.findings.is_empty());
        let json = diagnosis.json();
        let findings = json["findings"].as_array().expect("findings").iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        findings.map(|finding| ["kind", "resource", "detail"].map(|name| text(&finding[name]))).collect()
    }

    #[tokio::test]
    async fn reports_each_kind_of_finding() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("encryption.yaml");
        std::fs::write(&config, CONFIG).expect("a file");
        let pod = "/registry/pods/a/a";
        let newer = POD.replace("\"v1\"", "\"v9\"");
        let other = POD.replace("Pod", "Gadget");
        let sealed = b"k8s:enc:aesgcm:v1:two:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
        let none: Option<&Path> = None;
        // Key, value, configuration, and the expected findings; `*` matches any words.
        type Case<'a> = (&'a str, &'a [u8], Option<&'a Path>, &'a [[&'a str; 3]]);
        let cases: &[Case<'_>] = &[
            (pod, POD.as_bytes(), none, &[]),
            ("binnacle_migration/registry/", b"{}", none, &[["UnfinishedMigration", "", "*"]]),
            (pod, POD.as_bytes(), Some(&config), &[]),
            (pod, b"k8s\0nonsense", none, &[["Undecodable", "pods", "*"]]),
            (pod, b"", none, &[["Undecodable", "pods", "empty data"]]),
            (pod, newer.as_bytes(), none, &[["Undecodable", "pods", "it is a Pod of v9, which is not known here"]]),
            (pod, other.as_bytes(), none, &[["Undecodable", "pods", "it is a Gadget of v1, which is not known here"]]),
            (
                "/registry/gadgets/a",
                b"{}",
                none,
                &[["UnknownKeys", "(unknown)", "no resource of this release has keys with this prefix"]],
            ),
            (
                "/registry/example.com/crontabs/a",
                br#"{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"name":"a"}}"#,
                none,
                &[],
            ),
            (
                "/registry/example.com/crontabs/a",
                b"{}",
                none,
                &[[
                    "Undecodable",
                    "crontabs.example.com",
                    "it is not a JSON object with apiVersion, kind and metadata",
                ]],
            ),
            (
                "/registry/secrets/a/a",
                sealed,
                none,
                &[[
                    "Encrypted",
                    "secrets",
                    "encrypted by aesgcm v1, key \"two\" (not decoded: use --encryption-provider-config)",
                ]],
            ),
            (
                "/registry/secrets/a/a",
                sealed,
                Some(&config),
                &[["Undecryptable", "secrets", "no matching key was found for the provided AES transformer"]],
            ),
            (
                pod,
                sealed,
                Some(&config),
                &[["Undecryptable", "pods", "identity transformer tried to read encrypted data"]],
            ),
        ];
        for (key, value, config, want) in cases {
            let found = found(key, value, *config).await;
            let same = found.len() == want.len()
                && found
                    .iter()
                    .zip(*want)
                    .all(|(found, want)| found[..2] == want[..2] && (want[2] == "*" || found[2] == want[2]));
            assert!(same, "{key}: {found:?} is not {want:?}");
        }
    }

    #[tokio::test]
    async fn text_lists_findings_with_examples() {
        let store = Arc::new(EmbeddedStore::ephemeral());
        for n in 0..7 {
            put(&*store, &format!("/registry/gadgets/{n}"), "{}").await;
        }
        put(&*store, "/registry/pods/a/a", POD).await;
        put(&*store, "/other", "x").await;
        let diagnosis = examine(&opened(store), None).await.expect("a diagnosis");
        assert!(!diagnosis.is_healthy());
        assert_eq!(
            diagnosis.text(),
            "8 keys at revision 10.\n\
             problem: unknown keys, 7 keys of (unknown): no resource of this release has keys with this prefix\n  \
             /registry/gadgets/0\n  /registry/gadgets/1\n  /registry/gadgets/2\n  /registry/gadgets/3\n  \
             /registry/gadgets/4\n  and 2 more\n\
             note: 1 keys outside of /registry/ do not belong to the server and are not changed\n\
             This release cannot serve the store as it is.\n"
        );
    }
}
