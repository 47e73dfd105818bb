//! From path and headers to an answer, with every document made at most once for one set of what is served.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use binnacle_scheme::{Kinds, Served, Shared};
use bytes::Bytes;
use sha2::{Digest, Sha512};

use crate::accept::{Form, Wanted, negotiate};
use crate::custom::{self, WithCustom};
use crate::definitions::BuiltIn;
use crate::documents::{self, Place};
use crate::gzip;
use crate::json::Json;
use crate::others::{self, Others};
use crate::protobuf::{self, Shape, shapes};
use crate::{v2, v3};

/// The OpenAPI documents of one immutable [`Served`]. When that changes, a new one takes its place.
#[derive(Debug)]
pub struct OpenApi {
    served: Arc<Served>,
    kinds: Shared<dyn Kinds>,
    others: Arc<Others>,
    index: OnceLock<Bytes>,
    /// By name in the index.
    v3: BTreeMap<String, Arc<Slot>>,
    v2: OnceLock<(String, Bytes)>,
    v2_protobuf: OnceLock<Option<Bytes>>,
    /// Compressed: JSON and protobuf. Nothing if that failed.
    v2_packed: [OnceLock<Option<Bytes>>; 2],
}

/// What OpenAPI needs to know of a request. The method does not matter, as it does not to the reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// Decoded, without query.
    pub path: &'a str,
    /// The query parameter `hash`, empty for none.
    pub hash: &'a str,
    /// The first Accept header, empty for none.
    pub accept: &'a str,
    /// The If-None-Match header, empty for none.
    pub if_none_match: &'a str,
    /// The first Accept-Encoding header, empty for none.
    pub accept_encoding: &'a str,
}

/// What to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 with the index of version 3, whose type the reference leaves to guessing: `text/plain`.
    Index(Bytes),
    /// 200 with a document.
    Document(Document),
    /// 304: the client's copy is current.
    NotModified { etag: String, immutable: bool },
    /// 301 without a body: the hash is not that of the document, which is to be had at `location`.
    Moved { etag: String, content_type: &'static str, location: String },
    /// 404 without a body.
    NotFound,
    /// 406 without a body.
    NotAcceptable,
    /// 200 without a body: the Accept header cannot be read.
    Nothing,
    /// 503 without a body: the document cannot be had in this form.
    Unavailable,
}

/// A document, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub content_type: &'static str,
    /// Quoted, as in the header.
    pub etag: String,
    /// The URL names the hash, so what it leads to never changes.
    pub immutable: bool,
    /// The body is compressed with gzip.
    pub packed: bool,
    pub body: Bytes,
}

/// A document of version 3.
#[derive(Debug)]
struct Slot {
    place: Place,
    hash: OnceLock<String>,
    json: OnceLock<Bytes>,
    /// Nothing if the document does not fit into that form.
    protobuf: OnceLock<Option<Bytes>>,
}

const V2: &str = "/openapi/v2";
const V3: &str = "/openapi/v3";
const JSON: &str = "application/json";
const V2_PROTOBUF: [&str; 2] =
    ["com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2@v1.0+protobuf"];
const V2_PROTOBUF_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF_TYPE: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const V3_PROTOBUF: [&str; 2] =
    ["com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3@v1.0+protobuf"];

impl OpenApi {
    pub fn new(served: Arc<Served>, kinds: Shared<dyn Kinds>) -> Self {
        let v3 = documents::all(&served).into_iter().map(|(name, place)| (name, Slot::new(place))).collect();
        Self::of(served, Arc::default(), kinds, v3)
    }

    /// The documents of what is served now: those that are about the same as before are kept.
    #[must_use]
    pub fn follow(&self, served: Arc<Served>, others: Arc<Others>) -> Self {
        let same = |slot: &Slot, place: &Place| {
            let (before, now) = (slot.place.resources(&self.served), place.resources(&served));
            slot.place == *place && before.len() == now.len() && before.iter().zip(now).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let slots = documents::all(&served).into_iter().map(|(name, place)| {
            let known = self.v3.get(&name).filter(|slot| same(slot, &place));
            let slot = known.cloned().unwrap_or_else(|| Slot::new(place));
            (name, slot)
        });
        let v3 = slots.collect();
        Self::of(served, others, self.kinds.clone(), v3)
    }

    fn of(served: Arc<Served>, others: Arc<Others>, kinds: Shared<dyn Kinds>, v3: BTreeMap<String, Arc<Slot>>) -> Self {
        Self {
            served,
            kinds,
            others,
            index: OnceLock::new(),
            v3,
            v2: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
            v2_packed: Default::default(),
        }
    }

    /// What the documents are about.
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// What other servers say beside them.
    pub fn others(&self) -> &Arc<Others> {
        &self.others
    }

    /// Whether what is answered at a path depends on the encodings that the client accepts.
    pub fn varies_by_encoding(path: &str) -> bool {
        path == V2
    }

    /// Whether a path is one of these documents, served or not.
    pub fn claims(path: &str) -> bool {
        path == V2 || path.strip_prefix(V3).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The answer to a request for `/openapi/v2`, `/openapi/v3` or a document below; `None` for other paths.
    pub fn answer(&self, ask: &Ask<'_>) -> Option<Answer> {
        if ask.path == V2 {
            return Some(self.answer_v2(ask));
        }
        let rest = ask.path.strip_prefix(V3)?;
        if rest.is_empty() {
            return Some(Answer::Index(self.index.get_or_init(|| self.make_index()).clone()));
        }
        Some(self.answer_v3(rest.strip_prefix('/')?, ask))
    }

    fn answer_v3(&self, name: &str, ask: &Ask<'_>) -> Answer {
        let Some(slot) = self.v3.get(name) else { return Answer::NotFound };
        let form = match negotiate(ask.accept, V3_PROTOBUF) {
            Wanted::Form(form) => form,
            Wanted::Nothing => return Answer::NotAcceptable,
            Wanted::Unreadable => return Answer::Nothing,
        };
        let json = slot.json.get_or_init(|| self.make_v3(&slot.place));
        let hash = slot.hash.get_or_init(|| digest(json));
        let (etag, content_type) = (format!("\"{hash}\""), form.choose(JSON, V3_PROTOBUF_TYPE));
        if !ask.hash.is_empty() && ask.hash != hash {
            return Answer::Moved { etag, content_type, location: relative_url(name, hash) };
        }
        let immutable = !ask.hash.is_empty();
        if matches(ask.if_none_match, &etag) {
            return Answer::NotModified { etag, immutable };
        }
        let body = match form {
            Form::Json => Some(json.clone()),
            Form::Protobuf => slot.protobuf.get_or_init(|| transcode(json, &shapes::V3)).clone(),
        };
        let Some(body) = body else { return Answer::Unavailable };
        Answer::Document(Document { content_type, etag, immutable, packed: false, body })
    }

    fn answer_v2(&self, ask: &Ask<'_>) -> Answer {
        let Wanted::Form(form) = negotiate(ask.accept, V2_PROTOBUF) else { return Answer::NotAcceptable };
        let (hash, json) = self.v2.get_or_init(|| {
            let paths = self.v3.values().flat_map(|slot| slot.place.paths(&self.served, &*self.kinds)).collect();
            let definitions =
                WithCustom::new(BuiltIn::new(&*self.kinds, None), &*self.kinds, custom::all(&self.served));
            let mut json = Bytes::from(v2::document(paths, &definitions));
            if !self.others.v2.is_empty()
                && let Some(merged) = others::merge(&json, &self.others.v2)
            {
                json = merged.into();
            }
            (digest(&json), json)
        });
        let (etag, content_type) = (format!("\"{hash}\""), form.choose(JSON, V2_PROTOBUF_TYPE));
        if matches(ask.if_none_match, &etag) {
            return Answer::NotModified { etag, immutable: false };
        }
        let body = match form {
            Form::Json => Some(json.clone()),
            Form::Protobuf => self.v2_protobuf.get_or_init(|| transcode(json, &shapes::V2)).clone(),
        };
        let Some(body) = body else { return Answer::Unavailable };
        let packed = gzip::accepted(ask.accept_encoding)
            .then(|| self.v2_packed[form.choose(0, 1)].get_or_init(|| gzip::pack(&body).ok()).clone())
            .flatten();
        let (packed, body) = (packed.is_some(), packed.unwrap_or(body));
        Answer::Document(Document { content_type, etag, immutable: false, packed, body })
    }

    /// Names every document together with its hash. Documents are made for that and not kept: most are never asked for.
    fn make_index(&self) -> Bytes {
        let mut json = Json::new();
        json.object(|json| {
            json.name("paths").object(|json| {
                for (name, url) in &self.others.index {
                    json.name(name).object(|json| json.text_member("serverRelativeURL", url));
                }
                for (name, slot) in &self.v3 {
                    if self.others.index.contains_key(name) {
                        continue;
                    }
                    let hash = slot.hash.get_or_init(|| match slot.json.get() {
                        Some(body) => digest(body),
                        None => digest(&self.make_v3(&slot.place)),
                    });
                    json.name(name).object(|json| json.text_member("serverRelativeURL", &relative_url(name, hash)));
                }
            });
        });
        json.into_bytes().into()
    }

    fn make_v3(&self, place: &Place) -> Bytes {
        let paths = place.paths(&self.served, &*self.kinds);
        let built_in = BuiltIn::new(&*self.kinds, place.scope());
        if let Place::Custom(..) = place {
            let definitions = WithCustom::new(built_in, &*self.kinds, place.resources(&self.served));
            return v3::document(&paths, &definitions, true).into();
        }
        v3::document(&paths, &built_in, false).into()
    }
}

impl Slot {
    fn new(place: Place) -> Arc<Self> {
        Arc::new(Self { place, hash: OnceLock::new(), json: OnceLock::new(), protobuf: OnceLock::new() })
    }
}

fn transcode(json: &[u8], shape: &'static Shape) -> Option<Bytes> {
    protobuf::transcode(json, shape).ok().map(Bytes::from)
}

fn relative_url(name: &str, hash: &str) -> String {
    format!("{V3}/{name}?hash={hash}")
}

fn digest(body: &[u8]) -> String {
    Sha512::digest(body).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Whether an If-None-Match header names the tag; weak tags count (RFC 9110, 13.1.2).
fn matches(if_none_match: &str, etag: &str) -> bool {
    if_none_match.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
