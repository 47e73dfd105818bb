//! The encodings of stored objects for clients. They are created when they are first used, cached with the object, and
//! shared by all readers.

use binnacle_meta::Status;
use binnacle_schema::{Message, Value, json, proto};
use binnacle_store::Revision;
use binnacle_watchcache::{EncodingId, Entry};
use bytes::Bytes;

use crate::resource::Resource;
use crate::stored::StoredObject;

impl Resource {
    /// Returns the JSON of an object, with `kind` and `apiVersion` first (see [`Resource::item_offset`]).
    pub fn json(&self, entry: &Entry) -> Result<Bytes, Status> {
        entry.encoding(&self.collection.budget, self.encodings.json, || self.encode_json(entry, entry.revision()))
    }

    /// Returns the JSON of an object with another resourceVersion: a deletion has the last state of the object with the
    /// version of the deletion.
    pub fn json_at(&self, entry: &Entry, revision: Revision) -> Result<Bytes, Status> {
        if revision == entry.revision() { self.json(entry) } else { self.encode_json(entry, revision) }
    }

    /// Returns the protobuf message of an object, without the envelope.
    pub fn protobuf(&self, entry: &Entry) -> Result<Bytes, Status> {
        entry.encoding(&self.collection.budget, self.encodings.protobuf, || {
            self.encode_protobuf(entry, entry.revision())
        })
    }

    pub fn protobuf_at(&self, entry: &Entry, revision: Revision) -> Result<Bytes, Status> {
        if revision == entry.revision() { self.protobuf(entry) } else { self.encode_protobuf(entry, revision) }
    }

    /// Returns the length of kind and version in [`Resource::json`], which list items omit (`{` and the rest stay).
    /// Returns `None` for custom resources, whose items include them.
    pub fn item_offset(&self) -> Option<usize> {
        (!self.collection.codec().names_items()).then_some(self.type_meta.len())
    }

    /// Returns the schema of objects, or `None` for custom resources, which are written as untyped trees.
    pub fn schema(&self) -> Option<&Message> {
        self.collection.kind.custom.is_none().then(|| &*self.message)
    }

    /// Converts an object of this version to its canonical representation, in which it is written.
    pub fn canonicalize(&self, object: &mut Value) {
        self.collection.codec().canonicalize(&self.message, object);
    }

    /// Returns `{"kind":"Pod","apiVersion":"v1",`.
    pub(crate) fn type_meta(kind: &str, api_version: &str) -> Bytes {
        Bytes::from(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\","))
    }

    /// Returns the encoding of watch frames in JSON.
    pub fn json_frame_encoding(&self) -> EncodingId {
        self.encodings.json
    }

    pub fn protobuf_frame_encoding(&self) -> EncodingId {
        self.encodings.protobuf
    }

    /// Encodes an object that was just written as a protobuf message, from its stored bytes. Returns `None` if the
    /// object must be encoded instead.
    pub fn protobuf_of_written(&self, stored: &StoredObject) -> Option<Result<Bytes, Status>> {
        let bytes = stored.bytes.as_ref().filter(|_| self.conversion.is_none())?;
        let message = self.collection.codec().to_protobuf(bytes, &stored.revision.0.to_string());
        Some(message.map_err(|why| self.collection.undecodable(why, stored.revision)))
    }

    fn encode_json(&self, entry: &Entry, revision: Revision) -> Result<Bytes, Status> {
        if self.conversion.is_none() {
            let collection = &self.collection;
            let json = collection.codec().to_json(&collection.stored_kind(), &entry.value(), &revision.0.to_string());
            return json.map(Bytes::from).map_err(|why| collection.undecodable(why, entry.revision()));
        }
        let mut out = Vec::with_capacity(entry.value_len() * 3 / 2 + 64);
        json::write(&self.converted_entry(entry, revision)?, &mut out);
        out.shrink_to_fit();
        Ok(Bytes::from(out))
    }

    fn encode_protobuf(&self, entry: &Entry, revision: Revision) -> Result<Bytes, Status> {
        if self.conversion.is_none() {
            let message = self.collection.codec().to_protobuf(&entry.value(), &revision.0.to_string());
            return message.map_err(|why| self.collection.undecodable(why, entry.revision()));
        }
        let mut out = Vec::with_capacity(entry.value_len());
        proto::encode(&self.converted_entry(entry, revision)?, &self.message, &mut out);
        Ok(Bytes::from(out))
    }

    /// Converts an object from its stored version to this one.
    fn converted_entry(&self, entry: &Entry, revision: Revision) -> Result<Value, Status> {
        let mut object = self.collection.decode(&entry.value(), revision)?;
        self.from_stored(&mut object);
        self.canonicalize(&mut object);
        Ok(object)
    }
}
