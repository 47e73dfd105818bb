//! Answers to requests by path and headers; each document is made at most once per snapshot of the served resources.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use binnacle_meta::{Encodings, Text};
use binnacle_request::Pieces;
use binnacle_scheme::{Kinds, ResourceDescription, Served, Shared};
use bytes::Bytes;
use sha2::{Digest, Sha512};

use crate::accept::{Form, Wanted, negotiate};
use crate::custom::WithCustom;
use crate::definitions::BuiltIn;
use crate::documents::{self, DocumentName};
use crate::gzip;
use crate::json::Json;
use crate::others::{self, Others};
use crate::parts::PathParts;
use crate::protobuf::{self, Shape, shapes};
use crate::v2::{CustomParts, Kept};
use crate::{RELEASE, v2, v3};

/// The OpenAPI documents of an immutable [`Served`]. A new value replaces them when that changes.
#[derive(Debug)]
pub struct OpenApi {
    served: Arc<Served>,
    kinds: Shared<dyn Kinds>,
    /// The encodings of bodies in requests and responses.
    encodings: Encodings,
    /// The release in the documents' heads.
    release: Text,
    /// True if built-in enums have their values.
    shows_enums: bool,
    others: Arc<Others>,
    index: OnceLock<Bytes>,
    /// By their names in the index.
    v3: BTreeMap<String, Arc<Slot>>,
    v2: OnceLock<v2::Document>,
    /// The parts of the custom resources, by the address of the resource description; the parts keep that description
    /// alive.
    custom: HashMap<usize, Arc<CustomParts>>,
    kept: Arc<Kept>,
}

/// The parts of a request that OpenAPI answers depend on. As in kube-apiserver, the method does not matter.
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

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 with the index of version 3, whose type kube-apiserver leaves to detection: `text/plain`.
    Index(Bytes),
    /// 200 with a document.
    Document(Document),
    /// 304: the client's copy is current.
    NotModified { etag: String, immutable: bool },
    /// 301 without a body: the hash is not that of the document, which is at `location`.
    Moved { etag: String, content_type: &'static str, location: String },
    /// 404 without a body.
    NotFound,
    /// 406 without a body.
    NotAcceptable,
    /// 200 without a body: the Accept header is invalid.
    Nothing,
    /// 503 without a body: the document cannot be made in this form.
    Unavailable,
}

/// A document, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub content_type: &'static str,
    /// Quoted, as in the header.
    pub etag: String,
    /// True if the URL has the hash, so that its document never changes.
    pub immutable: bool,
    /// True if the body is compressed with gzip.
    pub packed: bool,
    pub body: Pieces,
}

/// A document of version 3.
#[derive(Debug)]
struct Slot {
    place: DocumentName,
    hash: OnceLock<String>,
    json: OnceLock<Bytes>,
    /// `None` if the document has no protobuf form.
    protobuf: OnceLock<Option<Bytes>>,
    /// Its parts in the document of version 2, for built-in resources.
    v2: OnceLock<Arc<PathParts>>,
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
        let custom = custom_parts(&v3, &served, &HashMap::new());
        Self::of(served, Arc::default(), kinds, v3, custom, Arc::default())
    }

    /// Sets the encodings of requests and responses, before the first request.
    #[must_use]
    pub fn offering(self, encodings: Encodings) -> Self {
        Self { encodings, ..self }
    }

    /// Sets the release that the server emulates, before the first request.
    #[must_use]
    pub fn of_release(self, release: impl Into<Text>) -> Self {
        Self { release: release.into(), ..self }
    }

    /// Sets whether built-in enums have their values, before the first request.
    #[must_use]
    pub fn showing_enums(self, shows_enums: bool) -> Self {
        Self { shows_enums, ..self }
    }

    /// Returns the documents of the resources that are served now, reusing each document whose resources are the same.
    #[must_use]
    pub fn follow(&self, served: Arc<Served>, others: Arc<Others>) -> Self {
        let same = |slot: &Slot, place: &DocumentName| {
            let (before, now) = (slot.place.resources(&self.served), place.resources(&served));
            slot.place == *place && before.len() == now.len() && before.iter().zip(now).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let slots = documents::all(&served).into_iter().map(|(name, place)| {
            let known = self.v3.get(&name).filter(|slot| same(slot, &place));
            let slot = known.cloned().unwrap_or_else(|| Slot::new(place));
            (name, slot)
        });
        let v3 = slots.collect();
        let custom = custom_parts(&v3, &served, &self.custom);
        let followed = Self::of(served, others, self.kinds.clone(), v3, custom, self.kept.clone());
        let (encodings, shows_enums) = (self.encodings, self.shows_enums);
        Self { encodings, shows_enums, release: self.release.clone(), ..followed }
    }

    fn of(
        served: Arc<Served>,
        others: Arc<Others>,
        kinds: Shared<dyn Kinds>,
        v3: BTreeMap<String, Arc<Slot>>,
        custom: HashMap<usize, Arc<CustomParts>>,
        kept: Arc<Kept>,
    ) -> Self {
        let (encodings, release) = (Encodings::STANDARD, Text::new_static(RELEASE));
        let (index, v2) = Default::default();
        Self { served, kinds, encodings, release, shows_enums: true, others, index, v3, v2, custom, kept }
    }

    /// Returns the resources in the documents.
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// Returns the documents of other servers.
    pub fn others(&self) -> &Arc<Others> {
        &self.others
    }

    /// Returns true if the answer at a path depends on the encodings that the client accepts.
    pub fn varies_by_encoding(path: &str) -> bool {
        path == V2
    }

    /// Returns true if a path is one of these documents, served or not.
    pub fn claims(path: &str) -> bool {
        path == V2 || path.strip_prefix(V3).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the answer to a request for `/openapi/v2`, `/openapi/v3` or a document below; `None` for other paths.
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
        let slot = self.v3.get(name);
        let made = self.others.documents.get(name);
        if slot.is_none() && made.is_none() {
            return Answer::NotFound;
        }
        let form = match negotiate(ask.accept, V3_PROTOBUF) {
            Wanted::Form(form) => form,
            Wanted::Nothing => return Answer::NotAcceptable,
            Wanted::Unreadable => return Answer::Nothing,
        };
        let (json, hash) = match (made, slot) {
            (Some(made), _) => (&made.json, &made.hash),
            (None, Some(slot)) => {
                let json = slot.json.get_or_init(|| self.make_v3(&slot.place));
                (json, slot.hash.get_or_init(|| digest(json)))
            }
            (None, None) => return Answer::NotFound,
        };
        let (etag, content_type) = (format!("\"{hash}\""), form.choose(JSON, V3_PROTOBUF_TYPE));
        if !ask.hash.is_empty() && ask.hash != hash {
            return Answer::Moved { etag, content_type, location: relative_url(name, hash) };
        }
        let immutable = !ask.hash.is_empty();
        if matches(ask.if_none_match, &etag) {
            return Answer::NotModified { etag, immutable };
        }
        let body = match (form, made, slot) {
            (Form::Json, ..) => Some(json.clone()),
            (Form::Protobuf, None, Some(slot)) => slot.protobuf.get_or_init(|| transcode(json, &shapes::V3)).clone(),
            (Form::Protobuf, ..) => transcode(json, &shapes::V3),
        };
        let Some(body) = body.map(Pieces::from) else { return Answer::Unavailable };
        Answer::Document(Document { content_type, etag, immutable, packed: false, body })
    }

    fn answer_v2(&self, ask: &Ask<'_>) -> Answer {
        let Wanted::Form(form) = negotiate(ask.accept, V2_PROTOBUF) else { return Answer::NotAcceptable };
        let document = self.v2.get_or_init(|| self.make_v2());
        let (etag, content_type) = (format!("\"{}\"", document.hash), form.choose(JSON, V2_PROTOBUF_TYPE));
        if matches(ask.if_none_match, &etag) {
            return Answer::NotModified { etag, immutable: false };
        }
        let packs = gzip::accepted(ask.accept_encoding);
        let packed = match form {
            Form::Json => packs.then(|| document.packed_json()).flatten(),
            Form::Protobuf => packs.then(|| document.packed_protobuf()).flatten(),
        };
        if let Some(body) = packed {
            return Answer::Document(Document { content_type, etag, immutable: false, packed: true, body });
        }
        let body = match form {
            Form::Json => Some(document.json.clone()),
            Form::Protobuf => document.protobuf(),
        };
        let Some(body) = body else { return Answer::Unavailable };
        Answer::Document(Document { content_type, etag, immutable: false, packed: false, body })
    }

    fn make_v2(&self) -> v2::Document {
        let own = self.v3.values().filter(|slot| !matches!(slot.place, DocumentName::Custom(..)));
        let paths =
            |slot: &Slot| Arc::new(v2::path_parts(slot.place.paths(&self.served, &*self.kinds, self.encodings)));
        let own: Vec<Arc<PathParts>> = own.map(|slot| slot.v2.get_or_init(|| paths(slot)).clone()).collect();
        let custom = custom_resources(&self.v3, &self.served).filter_map(|known| self.custom.get(&address(known)));
        let custom: Vec<Arc<CustomParts>> = custom.cloned().collect();
        let own = v2::Document::new(&own, &custom, &*self.kinds, self.shows_enums, &self.kept, &self.release);
        if self.others.v2.is_empty() {
            return own;
        }
        match others::merge(&own.json.clone().into_bytes(), &self.others.v2) {
            Some(merged) => own.replaced(merged.into()),
            None => own,
        }
    }

    /// Makes the index, with the hash of every document. The documents made for it are not kept, as most are never
    /// requested.
    fn make_index(&self) -> Bytes {
        let mut json = Json::new();
        json.object(|json| {
            json.name("paths").object(|json| {
                for (name, url) in &self.others.index {
                    json.name(name).object(|json| json.text_member("serverRelativeURL", url));
                }
                for (name, made) in &self.others.documents {
                    let url = relative_url(name, &made.hash);
                    json.name(name).object(|json| json.text_member("serverRelativeURL", &url));
                }
                for (name, slot) in &self.v3 {
                    if self.others.index.contains_key(name) || self.others.documents.contains_key(name) {
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

    fn make_v3(&self, place: &DocumentName) -> Bytes {
        let paths = place.paths(&self.served, &*self.kinds, self.encodings);
        let built_in = BuiltIn::new(&*self.kinds, place.scope()).showing_enums(self.shows_enums);
        if let DocumentName::Custom(..) = place {
            let definitions = WithCustom::new(built_in.for_custom(), &*self.kinds, place.resources(&self.served));
            return v3::document(&paths, &definitions, None).into();
        }
        v3::document(&paths, &built_in, Some(&self.release)).into()
    }
}

impl Slot {
    fn new(place: DocumentName) -> Arc<Self> {
        let (hash, json, protobuf, v2) = Default::default();
        Arc::new(Self { place, hash, json, protobuf, v2 })
    }
}

/// Returns all custom resources.
fn custom_resources<'s>(
    slots: &'s BTreeMap<String, Arc<Slot>>,
    served: &'s Served,
) -> impl Iterator<Item = &'s Arc<ResourceDescription>> {
    let custom = slots.values().filter(|slot| matches!(slot.place, DocumentName::Custom(..)));
    custom.flat_map(|slot| slot.place.resources(served)).filter(|resource| resource.published.is_some())
}

/// Returns the parts of all custom resources; known ones are reused.
fn custom_parts(
    slots: &BTreeMap<String, Arc<Slot>>,
    served: &Served,
    known: &HashMap<usize, Arc<CustomParts>>,
) -> HashMap<usize, Arc<CustomParts>> {
    let parts = custom_resources(slots, served).map(|resource| {
        let at = address(resource);
        (at, known.get(&at).cloned().unwrap_or_else(|| Arc::new(CustomParts::new(resource.clone()))))
    });
    parts.collect()
}

/// Returns the identity of a description, as long as it is alive.
fn address(resource: &Arc<ResourceDescription>) -> usize {
    Arc::as_ptr(resource).addr()
}

fn transcode(json: &[u8], shape: &'static Shape) -> Option<Bytes> {
    protobuf::transcode(json, shape).ok().map(Bytes::from)
}

fn relative_url(name: &str, hash: &str) -> String {
    format!("{V3}/{name}?hash={hash}")
}

pub(crate) fn digest(body: &[u8]) -> String {
    Sha512::digest(body).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Returns true if an If-None-Match header names the tag; weak tags count (RFC 9110, 13.1.2).
fn matches(if_none_match: &str, etag: &str) -> bool {
    if_none_match.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
