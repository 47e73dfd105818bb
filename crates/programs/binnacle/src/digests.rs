//! Number and digest of the objects of each resource, by which the contents of stores and files are compared.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_store::{Content, ContentDigest, Pages, Revision, Store, StoreError, prefix_range};
use binnacle_store_embedded::Tally;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::keys::{KeyOwners, Owner};
use crate::text;

/// The digests of the resources whose keys begin with one root. Other keys do not count.
pub(crate) struct ResourceDigests {
    root: String,
    owners: KeyOwners,
    digests: BTreeMap<Owner, ContentDigest>,
}

/// Digests from a file, by the names of the resources.
pub(crate) struct RecordedDigests(BTreeMap<String, ContentDigest>);

// === impl ResourceDigests ===

impl ResourceDigests {
    pub(crate) fn new(root: &str) -> Self {
        Self { root: root.to_owned(), owners: KeyOwners::new(root), digests: BTreeMap::new() }
    }

    /// Reads all objects of a store at a revision, and reports their number as it grows.
    pub(crate) async fn read(
        store: &dyn Store,
        root: &str,
        revision: Revision,
        mut report: impl FnMut(u64),
    ) -> Result<Self, StoreError> {
        let mut digests = Self::new(root);
        let mut pages = Pages::new(store, prefix_range(root.as_bytes()), revision).streamed();
        while let Some(page) = pages.next().await? {
            page.iter().for_each(|kv| digests.add(&kv.key, &kv.value));
            report(digests.total().objects);
        }
        Ok(digests)
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        let content = self.content(key, value);
        self.change(key, |digest| digest.add(content));
    }

    pub(crate) fn remove(&mut self, key: &[u8], value: &[u8]) {
        let content = self.content(key, value);
        self.change(key, |digest| digest.remove(content));
    }

    fn content(&self, key: &[u8], value: &[u8]) -> Content {
        Content::of(key, self.root.len(), value)
    }

    fn change(&mut self, key: &[u8], change: impl FnOnce(&mut ContentDigest)) {
        if key.starts_with(self.root.as_bytes()) {
            change(self.digests.entry(self.owners.owner(key)).or_default());
        }
    }

    pub(crate) fn total(&self) -> ContentDigest {
        total(self.digests.values())
    }

    fn by_name(&self) -> BTreeMap<String, ContentDigest> {
        let not_empty = self.digests.iter().filter(|(_, digest)| digest.objects > 0);
        not_empty.map(|(owner, digest)| (owner.to_string(), *digest)).collect()
    }

    /// Returns a table with a row for each resource.
    pub(crate) fn table(&self) -> String {
        let mut rows = vec![["RESOURCE", "OBJECTS", "BYTES", "DIGEST"].map(str::to_owned).to_vec()];
        for (name, digest) in self.by_name() {
            rows.push(vec![name, digest.objects.to_string(), text::bytes(digest.bytes), digest.to_string()]);
        }
        text::table(&rows)
    }

    pub(crate) fn json(&self) -> Value {
        let one = |digest: ContentDigest| json!({"objects": digest.objects, "bytes": digest.bytes, "digest": digest.to_string()});
        Value::Object(self.by_name().into_iter().map(|(name, digest)| (name, one(digest))).collect::<Map<_, _>>())
    }

    /// Returns the first resource whose objects are not those that were recorded. `found` says what has these digests.
    pub(crate) fn difference(&self, recorded: &RecordedDigests, found: &str) -> Option<String> {
        // Another release may know the keys of more resources.
        if self.total().has_same_objects(&total(recorded.0.values())) {
            return None;
        }
        let here = self.by_name();
        let names: BTreeSet<_> = here.keys().chain(recorded.0.keys()).collect();
        let of = |digests: &BTreeMap<String, ContentDigest>, name| digests.get(name).copied().unwrap_or_default();
        let mut each = names.into_iter().map(|name| (name, of(&recorded.0, name), of(&here, name)));
        let (name, saved, here) = each.find(|(_, saved, here)| !saved.has_same_objects(here))?;
        Some(format!(
            "{name} differs: {} objects with the digest {saved} were saved, {found} {} with {here}",
            saved.objects, here.objects
        ))
    }
}

impl Tally for ResourceDigests {
    fn put(&mut self, key: &[u8], value: &[u8], replaced: Option<Content>) -> Content {
        let content = self.content(key, value);
        self.change(key, |digest| {
            digest.add(content);
            replaced.into_iter().for_each(|replaced| digest.remove(replaced));
        });
        content
    }

    fn delete(&mut self, key: &[u8], deleted: Content) {
        self.change(key, |digest| digest.remove(deleted));
    }
}

fn total<'a>(digests: impl Iterator<Item = &'a ContentDigest>) -> ContentDigest {
    digests.fold(ContentDigest::default(), |mut total, digest| {
        total.merge(digest);
        total
    })
}

// === impl RecordedDigests ===

impl RecordedDigests {
    /// Reads what [`ResourceDigests::json`] returned.
    pub(crate) fn parse(json: &Bytes) -> Option<Self> {
        let Value::Object(resources) = serde_json::from_slice(json).ok()? else { return None };
        let one = |(name, digest): (String, Value)| {
            let (objects, bytes) = (digest["objects"].as_u64()?, digest["bytes"].as_u64()?);
            Some((name, ContentDigest::parse(objects, bytes, digest["digest"].as_str()?)?))
        };
        Some(Self(resources.into_iter().map(one).collect::<Option<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(root: &str, objects: &[(&str, &str)]) -> ResourceDigests {
        let mut digests = ResourceDigests::new(root);
        objects.iter().for_each(|(path, value)| digests.add(format!("{root}{path}").as_bytes(), value.as_bytes()));
        digests
    }

    fn recorded(digests: &ResourceDigests) -> RecordedDigests {
        RecordedDigests::parse(&digests.json().to_string().into()).expect("digests")
    }

    #[test]
    fn names_first_resource_that_differs() {
        let objects = [("pods/a/x", "1"), ("configmaps/a/x", "2"), ("ranges/serviceips", "3")];
        let saved = recorded(&digests("/registry/", &objects));
        let mut moved = digests("/k/", &objects);
        moved.add(b"/other/pods/a/x", b"outside of the root");
        assert_eq!(moved.difference(&saved, "there are"), None);
        moved.remove(b"/k/pods/a/x", b"1");
        let missing = moved.difference(&saved, "there are").expect("a difference");
        assert!(missing.starts_with("pods differs: 1 objects with the digest "), "{missing}");
        assert!(missing.ends_with("were saved, there are 0 with 00000000000000000000000000000000"), "{missing}");
        assert!(!moved.table().contains("pods"));
        // A release that has fewer resources.
        let unknown = RecordedDigests([("(unknown)".to_owned(), total(saved.0.values()))].into());
        assert_eq!(digests("/registry/", &objects).difference(&unknown, "there are"), None);
        for broken in ["", "[]", r#"{"pods":{"objects":1,"bytes":1,"digest":"x"}}"#, r#"{"pods":{}}"#] {
            assert!(RecordedDigests::parse(&Bytes::from_static(broken.as_bytes())).is_none(), "{broken}");
        }
    }

    #[test]
    fn tally_counts_newest_version_of_each_key() {
        let mut tally = ResourceDigests::new("/registry/");
        let first = tally.put(b"/registry/pods/a/x", b"1", None);
        let second = tally.put(b"/registry/pods/a/x", b"2", Some(first));
        let other = tally.put(b"/registry/pods/a/y", b"1", None);
        tally.delete(b"/registry/pods/a/y", other);
        assert_eq!(tally.json(), digests("/registry/", &[("pods/a/x", "2")]).json());
        tally.delete(b"/registry/pods/a/x", second);
        assert_eq!(tally.json(), json!({}));
    }
}
