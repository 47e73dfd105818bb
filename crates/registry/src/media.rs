//! The forms in which objects stand in the store. Written is the one that `--storage-media-type` names, in the storage
//! version; read is every form and every version of the kind, since another server or an earlier release may have
//! written it.

use std::borrow::Cow;
use std::str::FromStr;

use binnacle_meta::{GroupVersion, GroupVersionKind};
use binnacle_schema::{Limits, Message, Value, canonical, decode, json, proto, yaml};
use binnacle_scheme::{CustomSchema, Kinds, StoredType, Strategy};

/// The form in which objects are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    #[default]
    Protobuf,
    Json,
    Yaml,
}

impl FromStr for MediaType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            _ => Err(()),
        }
    }
}

/// What stands in the store for one kind.
#[derive(Clone, Copy)]
pub(crate) struct StoredKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) message: &'a Message,
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) kinds: &'a dyn Kinds,
    pub(crate) custom: Option<&'a dyn CustomSchema>,
}

/// How deep a stored object may be nested; what was accepted as JSON is never deeper.
const DEPTH: usize = 256;
/// A stored object is no larger than etcd lets a request be, unless it was told otherwise.
const LIMITS: Limits =
    Limits { max_bytes: 64 << 20, max_depth: DEPTH, max_yaml_nodes: 4 << 20, max_memory: usize::MAX };

impl<'a> StoredKind<'a> {
    /// As objects of a kind are handled; `api_version` is that of its storage.
    pub(crate) fn new(kind: &'a StoredType, api_version: &'a str) -> Self {
        Self {
            group: &kind.storage.group,
            version: &kind.storage.version,
            kind: &kind.storage.kind,
            api_version,
            message: &kind.message,
            strategy: &*kind.strategy,
            kinds: &*kind.kinds,
            custom: kind.custom.as_deref(),
        }
    }

    /// The bytes to store of a canonical object without kind and version.
    pub(crate) fn write(&self, media_type: MediaType, object: &Value) -> Vec<u8> {
        if self.custom.is_some() {
            // It says itself in which version it is.
            let mut out = Vec::with_capacity(1024);
            json::write(object, &mut out);
            out.push(b'\n');
            return out;
        }
        match media_type {
            MediaType::Protobuf => {
                proto::wrap(self.api_version, self.kind, |raw| proto::encode(object, self.message, raw))
            }
            MediaType::Json => self.text(object),
            MediaType::Yaml => {
                let mut out = Vec::with_capacity(1024);
                yaml::write(&self.named(object), &mut out);
                out
            }
        }
    }

    fn text(&self, object: &Value) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        json::write(&self.named(object), &mut out);
        out.push(b'\n');
        out
    }

    fn named(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let members = object.make_object();
        members.insert("kind", self.kind);
        members.insert("apiVersion", self.api_version);
        canonical::canonicalize(&mut object, self.message);
        object
    }

    /// The protobuf envelope of the storage version; nothing is copied where that is what stands there.
    pub(crate) fn envelope<'v>(&self, stored: &'v [u8]) -> Result<Cow<'v, [u8]>, String> {
        if stored.starts_with(proto::MAGIC) {
            let envelope = proto::unwrap(stored).map_err(|error| error.to_string())?;
            if envelope.api_version == self.api_version && envelope.kind == self.kind {
                return Ok(self.completed(envelope.raw)?.map_or(Cow::Borrowed(stored), Cow::Owned));
            }
            let kind = kind_of(&envelope.api_version, &envelope.kind)?;
            let message = self.known(&kind)?;
            let object = proto::decode_object(envelope.raw, message, &envelope.api_version, &envelope.kind, DEPTH)
                .map_err(|error| error.to_string())?;
            return self.rewritten(&kind, object).map(Cow::Owned);
        }
        let text = match stored.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => Cow::Borrowed(stored),
            Some(_) => {
                let (value, _) = yaml::parse(stored, &LIMITS).map_err(|error| error.to_string())?;
                let mut text = Vec::with_capacity(stored.len());
                json::write(&value, &mut text);
                Cow::Owned(text)
            }
            None => return Err("empty data".to_owned()),
        };
        let named = json::type_meta(&text, &LIMITS).map_err(|error| error.to_string())?;
        let kind = kind_of(&named.api_version, &named.kind)?;
        let message = self.known(&kind)?;
        let object = decode::json(&text, message, &LIMITS).map_err(|error| error.to_string())?.value;
        self.rewritten(&kind, object).map(Cow::Owned)
    }

    /// The object of what stands in the store, in the storage version.
    pub(crate) fn read(&self, stored: &[u8]) -> Result<Value, String> {
        if let Some(custom) = self.custom {
            let mut object = json::parse(stored, &LIMITS).map_err(|error| error.to_string())?;
            custom.read_stored(&mut object)?;
            canonical::sort_free_form(&mut object);
            return Ok(object);
        }
        let value = self.envelope(stored)?;
        let envelope = proto::unwrap(&value).map_err(|error| error.to_string())?;
        proto::decode_object(envelope.raw, self.message, self.api_version, self.kind, DEPTH)
            .map_err(|error| error.to_string())
    }

    /// The envelope with the defaults that the stored object lacks, if there are any.
    fn completed(&self, raw: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let strategy = self.strategy;
        if !strategy.completes_stored() {
            return Ok(None);
        }
        let mut object = proto::decode_object(raw, self.message, self.api_version, self.kind, DEPTH)
            .map_err(|error| error.to_string())?;
        if !strategy.complete_stored(&mut object) {
            return Ok(None);
        }
        canonical::canonicalize(&mut object, self.message);
        Ok(Some(self.write(MediaType::Protobuf, &object)))
    }

    fn known(&self, kind: &GroupVersionKind) -> Result<&'a Message, String> {
        let known = self.kinds.kind(&kind.group, &kind.version, &kind.kind).filter(|_| kind.kind == self.kind);
        known.ok_or_else(|| format!("it is a {} of {}, which is not known here", kind.kind, kind.api_version()))
    }

    /// As the storage version has it.
    fn rewritten(&self, kind: &GroupVersionKind, mut object: Value) -> Result<Vec<u8>, String> {
        if (kind.group.as_str(), kind.version.as_str()) != (self.group, self.version) {
            let unknown = || format!("there is no conversion of {} {}", kind.api_version(), kind.kind);
            let conversion = self.kinds.conversion(&kind.group, &kind.version, &kind.kind).ok_or_else(unknown)?;
            (conversion.to_stored)(&mut object);
        }
        self.strategy.complete_stored(&mut object);
        canonical::canonicalize(&mut object, self.message);
        Ok(self.write(MediaType::Protobuf, &object))
    }
}

/// The object that `stored` holds where objects of a kind are kept, in the version in which they are handled; the error
/// says why no server of this release can read it.
pub fn decode_stored(kind: &StoredType, stored: &[u8]) -> Result<Value, String> {
    StoredKind::new(kind, &kind.storage.group_version_kind().api_version()).read(stored)
}

fn kind_of(api_version: &str, kind: &str) -> Result<GroupVersionKind, String> {
    match GroupVersion::parse(api_version) {
        Some(version) => Ok(GroupVersionKind::new(version.group, version.version, kind)),
        None => Err(format!("unexpected apiVersion {api_version:?}")),
    }
}
