//! Lists in JSON and YAML, written item by item.

use std::sync::Arc;
use std::time::SystemTime;

use binnacle_meta::Status;
use binnacle_registry::{Page, Resource};
use binnacle_request::Pieces;
use binnacle_request::latency::{Part, measure};
use binnacle_schema::{Object, Value, cbor, json, yaml};
use binnacle_watchcache::Entry;

use crate::list_encoder::ListEncoder;
use crate::negotiate::{Encoding, Output, Transform};
use crate::object_view::ObjectView;
use crate::piece_buffer::PieceBuffer;
use crate::table::Include;
use crate::{respond, table};

/// The depth of the items in an indented list.
const ITEM_DEPTH: usize = 2;

/// Encodes the list of a page.
pub(crate) struct TextList {
    resource: Arc<Resource>,
    output: Output,
    include: Include,
    page: Page,
    pending: std::vec::IntoIter<Arc<Entry>>,
    buffer: PieceBuffer,
    /// The bytes between two items.
    separator: &'static [u8],
    tail: Vec<u8>,
    has_started: bool,
    done: bool,
    /// The buffer that an item is written into before it is indented.
    compact: Vec<u8>,
}

impl TextList {
    pub(crate) fn new(resource: Arc<Resource>, output: Output, include: Include, mut page: Page) -> Self {
        let first = page.next_chunk();
        let is_null_if_empty = match output.transform {
            Transform::None => false,
            Transform::Table(_) => table::has_null_rows(&resource),
            Transform::PartialMetadata(_) | Transform::PartialMetadataList(_) => true,
        };
        let items = match first {
            Some(_) => Value::List(vec![Value::Null]),
            // Go writes a nil list as null.
            None if is_null_if_empty => Value::Null,
            None => Value::List(Vec::new()),
        };
        let outline = outline(&resource, output.transform, &page, items);
        let mut head = respond::encode(&outline, None, output.encoding, output.pretty);
        let tail = if first.is_some() { split_at_item(&mut head, output.encoding) } else { Vec::new() };
        let separator: &[u8] = match output.encoding {
            Encoding::Yaml | Encoding::Cbor => b"",
            _ if output.pretty => b",\n    ",
            _ => b",",
        };
        Self {
            resource,
            output,
            include,
            page,
            pending: first.unwrap_or_default().into_iter(),
            buffer: PieceBuffer::from(head),
            separator,
            tail,
            has_started: false,
            done: false,
            compact: Vec::new(),
        }
    }

    /// Returns the stored size of the objects in the first piece.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.as_slice().iter().map(|entry| entry.value_len()).sum()
    }

    fn next_entry(&mut self) -> Option<Arc<Entry>> {
        if let Some(entry) = self.pending.next() {
            return Some(entry);
        }
        self.pending = self.page.next_chunk()?.into_iter();
        self.pending.next()
    }

    /// Writes one item or row, without separator.
    fn write(&mut self, entry: &Entry) -> Result<(), Status> {
        let (encoding, pretty) = (self.output.encoding, self.output.pretty);
        if self.output.transform == Transform::None && encoding == Encoding::Json {
            let json = self.resource.json(entry)?;
            let (open, members): (&[u8], _) = match self.resource.item_offset() {
                Some(offset) => (b"{", json.slice(offset..)),
                None => (b"", json),
            };
            if pretty {
                self.compact.clear();
                self.compact.extend_from_slice(open);
                self.compact.extend_from_slice(&members);
                json::indent_at(&self.compact, ITEM_DEPTH, &mut self.buffer.small);
            } else {
                self.buffer.small.extend_from_slice(open);
                self.buffer.share(members);
            }
            return Ok(());
        }
        let item = measure(Part::Transform, || self.item(entry))?;
        measure(Part::Serialize, || {
            if encoding == Encoding::Yaml {
                yaml::write_item(&item, &mut self.buffer.small);
            } else if encoding == Encoding::Cbor {
                let message = (self.output.transform == Transform::None).then(|| self.resource.schema()).flatten();
                cbor::write_item(&item, message, &mut self.buffer.small);
            } else if pretty {
                self.compact.clear();
                json::write(&item, &mut self.compact);
                json::indent_at(&self.compact, ITEM_DEPTH, &mut self.buffer.small);
            } else {
                json::write(&item, &mut self.buffer.small);
            }
        });
        Ok(())
    }

    fn item(&self, entry: &Entry) -> Result<Value, Status> {
        let resource = &self.resource;
        let mut object = resource.collection.decode_entry(entry)?;
        Ok(match self.output.transform {
            Transform::None => {
                if resource.item_offset().is_none() {
                    return Ok(object);
                }
                resource.from_stored(&mut object);
                let members = object.make_object();
                members.remove("kind");
                members.remove("apiVersion");
                object
            }
            Transform::Table(version) => {
                let now = SystemTime::now();
                ObjectView::of(resource).row(&object, self.include, version, now)
            }
            // Unlike the items of typed lists, these items include their kind.
            Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
                ObjectView::of(resource).metadata(&object, version)
            }
        })
    }
}

impl ListEncoder for TextList {
    fn next_piece(&mut self) -> Option<Result<Pieces, Status>> {
        if self.done {
            return None;
        }
        while !self.buffer.is_full() {
            let Some(entry) = self.next_entry() else {
                self.done = true;
                self.buffer.small.append(&mut self.tail);
                break;
            };
            if std::mem::replace(&mut self.has_started, true) {
                self.buffer.small.extend_from_slice(self.separator);
            }
            if let Err(status) = self.write(&entry) {
                self.done = true;
                return Some(Err(status));
            }
        }
        Some(Ok(self.buffer.take()))
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

/// Returns the metadata of the list, including its continue token.
pub(crate) fn metadata(page: &Page) -> Object {
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", page.revision.0.to_string());
    if let Some(token) = &page.continue_token {
        metadata.insert("continue", token.as_str());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount", remaining as i64);
    }
    metadata
}

/// Returns the list with `items` as its last member.
fn outline(resource: &Resource, transform: Transform, page: &Page, items: Value) -> Value {
    let (kind, api_version) = match transform {
        Transform::None => (resource.description.list_kind.as_str(), resource.api_version()),
        Transform::Table(version) => ("Table", version.api_version()),
        Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
            ("PartialObjectMetadataList", version.api_version())
        }
    };
    let mut list = Object::with_capacity(5);
    list.insert("kind", kind);
    list.insert("apiVersion", api_version);
    let mut list_metadata = metadata(page);
    // As in kube-apiserver, tables and lists of metadata or of custom resources omit it.
    let has_shard_info = transform == Transform::None && resource.item_offset().is_some();
    if let Some(shard) = page.shard.as_deref().filter(|_| has_shard_info) {
        list_metadata.insert("shardInfo", Object::from_iter([("selector", Value::from(shard))]));
    }
    if transform == Transform::None && resource.item_offset().is_none() {
        // kube-apiserver writes it in unstructured lists.
        list_metadata.entry("continue", || "".into());
        list_metadata.sort_by_name();
    }
    list.insert("metadata", list_metadata);
    if matches!(transform, Transform::Table(_)) {
        list.insert("columnDefinitions", table::columns(resource).definitions());
        list.insert("rows", items);
    } else {
        list.insert("items", items);
    }
    Value::Object(list)
}

/// Splits the text of an outline at its only item, `null`: `head` keeps the text before the items, and the text after
/// them is returned. In JSON the items come last; in YAML no other list has such an item.
fn split_at_item(head: &mut Vec<u8>, encoding: Encoding) -> Vec<u8> {
    if encoding == Encoding::Cbor {
        return if cbor::open_last_array(head) { vec![cbor::ARRAY_END] } else { Vec::new() };
    }
    let (item, before) = match encoding {
        Encoding::Yaml => (&b"\n- null\n"[..], 1),
        _ => (&b"null"[..], 0),
    };
    let Some(at) = head.windows(item.len()).rposition(|text| text == item) else { return Vec::new() };
    let tail = head.split_off(at + item.len());
    head.truncate(at + before);
    tail
}
