//! The attributes of objects for selectors, which the owner of the cache supplies, packed into one allocation.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_store::Revision;
use bytes::Bytes;

/// Reads attributes from stored values. Each resource has an implementation outside of this crate.
pub trait Indexer: Send + Sync + 'static {
    /// Returns the selectable fields besides `metadata.name` and `metadata.namespace`, in the order of
    /// [`Attrs::fields`].
    fn fields(&self) -> &[Text];

    /// Reads the attributes of the object stored under `key` (the full key).
    fn index(&self, key: &[u8], value: &Bytes, revision: Revision) -> Result<Attrs, IndexError>;

    /// Returns what all indexers have in common that read the same attributes, and whose objects have the same encodings:
    /// caches of different stores then share the objects of a common [snapshot](binnacle_store::Snapshot). `None` if they
    /// must not.
    fn sharing_key(&self) -> Option<Bytes> {
        None
    }

    /// Returns true if objects are large and rarely read, so that their values are compressed after a while.
    fn compresses(&self) -> bool {
        false
    }
}

/// The attributes that [`Indexer::index`] has read from an object. Name and namespace come from the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attrs {
    pub labels: Vec<(Text, Text)>,
    /// The values of [`Indexer::fields`], in order; missing values at the end count as empty.
    pub fields: Vec<Text>,
    /// The value that the cache keeps instead of the stored bytes if these are encrypted.
    pub value: Option<Bytes>,
}

/// The error of a stored value that is not a valid object of the resource.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct IndexError(pub String);

/// Path, labels and field values of an object in one shared string, ordered and compared by the path.
///
/// The path is the key without the resource's prefix: `namespace/name`, or `name` without a namespace. Labels are few,
/// so scanning them takes less time and memory than a map. A length is encoded in characters of six bits each; the
/// seventh bit means that more follow. The whole is therefore a valid string that needs no validation on access. The
/// parts are: path length, path, length of all labels, labels (key length, key, value length, value), fields (length,
/// value).
#[derive(Clone)]
pub(crate) struct Meta(Arc<str>);

impl Meta {
    pub(crate) fn new(path: &str, labels: &[(Text, Text)], fields: &[Text]) -> Self {
        let mut packed_labels = String::new();
        let mut sorted: Vec<_> = labels.iter().collect();
        sorted.sort_unstable();
        for (key, value) in sorted {
            push(&mut packed_labels, key);
            push(&mut packed_labels, value);
        }
        let mut packed = String::with_capacity(path.len() + packed_labels.len() + 8);
        push(&mut packed, path);
        push(&mut packed, &packed_labels);
        // Empty values at the end are omitted, since a missing value counts as empty.
        let filled = fields.iter().rposition(|value| !value.is_empty()).map_or(0, |last| last + 1);
        for value in &fields[..filled] {
            push(&mut packed, value);
        }
        Self(packed.into())
    }

    /// Creates a path without attributes, for lookups.
    pub(crate) fn lookup_key(path: &str) -> Self {
        Self::new(path, &[], &[])
    }

    pub(crate) fn path(&self) -> &str {
        take(&self.0).0
    }

    pub(crate) fn namespace(&self) -> &str {
        self.path().split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        let path = self.path();
        path.split_once('/').map_or(path, |(_, name)| name)
    }

    pub(crate) fn labels(&self) -> Labels<'_> {
        Labels { rest: take(take(&self.0).1).0 }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    pub(crate) fn field(&self, position: usize) -> &str {
        let mut rest = take(take(&self.0).1).1;
        for _ in 0..position {
            rest = take(rest).1;
        }
        take(rest).0
    }

    /// Returns the size of the heap allocation in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.len() + 16
    }

    /// Returns true if path, labels and fields are equal.
    pub(crate) fn same_attributes(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl PartialEq for Meta {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.path() == other.path()
    }
}

impl Eq for Meta {}

impl PartialOrd for Meta {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Meta {
    fn cmp(&self, other: &Self) -> Ordering {
        self.path().cmp(other.path())
    }
}

impl Borrow<str> for Meta {
    fn borrow(&self) -> &str {
        self.path()
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

/// The labels of an object, sorted by key.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Labels<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (key, rest) = take(self.rest);
        let (value, rest) = take(rest);
        self.rest = rest;
        Some((key, value))
    }
}

fn push(out: &mut String, text: &str) {
    let mut length = text.len();
    while length > 0x3f {
        out.push(char::from(0x40 | (length & 0x3f) as u8));
        length >>= 6;
    }
    out.push(char::from(length as u8));
    out.push_str(text);
}

/// Splits `packed` into its first string and the rest; both are empty at the end.
fn take(packed: &str) -> (&str, &str) {
    let mut length = 0;
    for (index, byte) in packed.bytes().enumerate() {
        length |= usize::from(byte & 0x3f) << (6 * index);
        if byte & 0x40 == 0 {
            return packed[index + 1..].split_at_checked(length).unwrap_or_default();
        }
    }
    ("", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_reads_attributes() {
        let long = "x".repeat(5000);
        for (path, labels, fields) in [
            ("ns/name", vec![], vec![]),
            ("name", vec![("b", "2"), ("a", "")], vec!["", "node", ""]),
            ("ünï/cödé", vec![("k", &*long), (&*long, "v")], vec![&*long, "", &*long]),
        ] {
            let texts: Vec<(Text, Text)> = labels.iter().map(|(k, v)| (Text::new(k), Text::new(v))).collect();
            let values: Vec<Text> = fields.iter().map(Text::new).collect();
            let meta = Meta::new(path, &texts, &values);
            assert_eq!(meta.path(), path);
            let mut sorted = labels.clone();
            sorted.sort_unstable();
            assert_eq!(meta.labels().collect::<Vec<_>>(), sorted);
            for (key, value) in labels {
                assert_eq!(meta.label(key), Some(value));
            }
            assert_eq!(meta.label("none"), None);
            for (position, value) in fields.iter().enumerate() {
                assert_eq!(meta.field(position), *value);
            }
            assert_eq!(meta.field(fields.len() + 2), "");
        }
        assert_eq!((Meta::lookup_key("a/b").namespace(), Meta::lookup_key("a/b").name()), ("a", "b"));
        assert_eq!((Meta::lookup_key("b").namespace(), Meta::lookup_key("b").name()), ("", "b"));
    }
}
