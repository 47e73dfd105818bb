//! Lists in protobuf. The length of a list precedes its contents, so the objects are traversed twice: first to compute
//! their lengths, then to encode them. Both passes hold at most one piece in memory.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_registry::{Page, Resource};
use binnacle_request::Pieces;
use binnacle_request::latency::{Part, measure};
use binnacle_schema::{Message, canonical, proto};
use binnacle_watchcache::Entry;
use bytes::Bytes;

use crate::list_encoder::ListEncoder;
use crate::negotiate::{MetaVersion, Transform};
use crate::object_view::ObjectView;
use crate::piece_buffer::PieceBuffer;

/// The number of bytes that are measured before the task yields.
const MEASURE_BATCH: usize = 256 << 10;

/// Encodes a list of known length.
pub(crate) struct ProtobufList {
    items: ItemEncoder,
    entries: std::vec::IntoIter<Arc<Entry>>,
    buffer: PieceBuffer,
    done: bool,
}

/// Encodes the items of a list.
struct ItemEncoder {
    resource: Arc<Resource>,
    /// The version and schema, for metadata only.
    partial: Option<(MetaVersion, &'static Message)>,
}

/// The first pass, which computes the length.
pub(crate) struct ProtobufListSizer {
    items: ItemEncoder,
    page: Page,
    pending: std::vec::IntoIter<Arc<Entry>>,
    entries: Vec<Arc<Entry>>,
    length: usize,
}

impl ProtobufListSizer {
    pub(crate) fn new(resource: Arc<Resource>, transform: Transform, page: Page) -> Self {
        let partial = match transform {
            Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
                Transform::PartialMetadata(version).message().map(|message| (version, message))
            }
            Transform::None | Transform::Table(_) => None,
        };
        let items = ItemEncoder { resource, partial };
        Self { items, page, pending: Vec::new().into_iter(), entries: Vec::new(), length: 0 }
    }

    /// Measures further objects; returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, Status> {
        timed(self.items.partial.is_none(), || self.measure_some())
    }

    fn measure_some(&mut self) -> Result<bool, Status> {
        let mut measured_bytes = 0;
        while measured_bytes < MEASURE_BATCH {
            let Some(entry) = self.pending.next() else {
                match self.page.next_chunk() {
                    Some(chunk) => self.pending = chunk.into_iter(),
                    None => return Ok(false),
                }
                continue;
            };
            self.length += proto::list_item_len(self.items.message(&entry)?.len());
            measured_bytes += entry.value_len();
            self.entries.push(entry);
        }
        Ok(true)
    }

    pub(crate) fn finish(self) -> ProtobufList {
        let (page, resource) = (&self.page, &self.items.resource);
        let version = page.revision.0.to_string();
        let meta = proto::ListMeta {
            resource_version: &version,
            continue_token: page.continue_token.as_deref().unwrap_or_default(),
            remaining_item_count: page.remaining.map(|n| n as i64),
            // As in kube-apiserver, lists of metadata omit the shard.
            shard: page.shard.as_deref().filter(|_| self.items.partial.is_none()).unwrap_or_default(),
        };
        let (api_version, kind) = match self.items.partial {
            Some((version, _)) => (version.api_version(), "PartialObjectMetadataList"),
            None => (resource.api_version(), resource.description.list_kind.as_str()),
        };
        let mut buffer = PieceBuffer::default();
        proto::list_head(api_version, kind, meta, self.length, &mut buffer.small);
        ProtobufList { items: self.items, entries: self.entries.into_iter(), buffer, done: false }
    }
}

/// Measures the time of work. Whole objects are timed piece by piece, because timing each object would cost as much as
/// encoding it.
fn timed<T>(whole: bool, work: impl FnOnce() -> T) -> T {
    if whole { measure(Part::Serialize, work) } else { work() }
}

impl ItemEncoder {
    fn message(&self, entry: &Entry) -> Result<Bytes, Status> {
        let resource = &self.resource;
        let Some((version, message)) = self.partial else {
            return resource.protobuf(entry);
        };
        let object = resource.collection.decode_entry(entry)?;
        let mut item = measure(Part::Transform, || ObjectView::of(resource).metadata(&object, version));
        canonical::canonicalize(&mut item, message);
        let mut out = Vec::with_capacity(512);
        measure(Part::Serialize, || proto::encode(&item, message, &mut out));
        Ok(Bytes::from(out))
    }
}

impl ListEncoder for ProtobufList {
    fn next_piece(&mut self) -> Option<Result<Pieces, Status>> {
        if self.done {
            return None;
        }
        timed(self.items.partial.is_none(), || self.encode_piece())
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

impl ProtobufList {
    fn encode_piece(&mut self) -> Option<Result<Pieces, Status>> {
        while !self.buffer.is_full() {
            let Some(entry) = self.entries.next() else {
                self.done = true;
                proto::list_tail(&mut self.buffer.small);
                break;
            };
            match self.items.message(&entry) {
                Ok(message) => {
                    proto::list_item_header(message.len(), &mut self.buffer.small);
                    self.buffer.share(message);
                }
                Err(status) => {
                    self.done = true;
                    return Some(Err(status));
                }
            }
        }
        Some(Ok(self.buffer.take()))
    }
}
