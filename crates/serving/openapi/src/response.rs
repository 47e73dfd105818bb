//! Responses by path and headers. Each document is built at most once per snapshot of the served resources.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use binnacle_meta::{Encodings, Text};
use binnacle_request::Pieces;
use binnacle_scheme::{Kinds, ResourceDescription, ServedResources, Shared};
use bytes::Bytes;

use crate::accept::{Format, Negotiation, negotiate};
use crate::custom_resources::CustomDefinitions;
use crate::definitions::BuiltIn;
use crate::digest::digest;
use crate::documents::{self, DocumentName};
use crate::gzip;
use crate::json::Json;
use crate::parts::PathParts;
use crate::protobuf::{self, Shape, shapes};
use crate::remote_documents::{self, RemoteDocuments};
use crate::v2::{CustomParts, ReusableParts};
use crate::{RELEASE, v2, v3};

/// The OpenAPI documents of an immutable [`ServedResources`]. A new value replaces them when the resources change.
#[derive(Debug)]
pub struct OpenApi {
    served: Arc<ServedResources>,
    kinds: Shared<dyn Kinds>,
    /// The encodings of bodies in requests and responses.
    encodings: Encodings,
    /// The release in the heads of documents.
    release: Text,
    /// True if built-in enums include their values.
    shows_enums: bool,
    remote_documents: Arc<RemoteDocuments>,
    index: OnceLock<Bytes>,
    /// By name in the index.
    v3: BTreeMap<String, Arc<DocumentSlot>>,
    v2: OnceLock<v2::Document>,
    /// The parts of custom resources, by the address of the resource description, which the parts keep alive.
    custom: HashMap<usize, Arc<CustomParts>>,
    reusable: Arc<ReusableParts>,
}

/// The properties of a request that responses depend on. As in kube-apiserver, the method is ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenApiRequest<'a> {
    /// Decoded, without the query.
    pub path: &'a str,
    /// The query parameter `hash`; empty if absent.
    pub hash: &'a str,
    /// The first Accept header; empty if absent.
    pub accept: &'a str,
    /// The If-None-Match header; empty if absent.
    pub if_none_match: &'a str,
    /// The first Accept-Encoding header; empty if absent.
    pub accept_encoding: &'a str,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenApiResponse {
    /// 200 with the index of version 3, whose content type kube-apiserver detects as `text/plain`.
    Index(Bytes),
    /// 200 with a document.
    Document(Document),
    /// 304: the client's copy is current.
    NotModified { etag: String, immutable: bool },
    /// 301 without a body: the requested hash is outdated; the document is at `location`.
    Moved { etag: String, content_type: &'static str, location: String },
    /// 404 without a body.
    NotFound,
    /// 406 without a body.
    NotAcceptable,
    /// 200 without a body: the Accept header is invalid.
    Empty,
    /// 503 without a body: the document cannot be encoded in this format.
    Unavailable,
}

/// A document, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub content_type: &'static str,
    /// Quoted, as in the header.
    pub etag: String,
    /// True if the URL contains the hash, so that its document never changes.
    pub immutable: bool,
    /// True if the body is compressed with gzip.
    pub compressed: bool,
    pub body: Pieces,
}

/// A document of version 3.
#[derive(Debug)]
struct DocumentSlot {
    document: DocumentName,
    hash: OnceLock<String>,
    json: OnceLock<Bytes>,
    /// `None` if the document cannot be encoded in protobuf.
    protobuf: OnceLock<Option<Bytes>>,
    /// Its parts of the document of version 2, for built-in resources.
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
    pub fn new(served: Arc<ServedResources>, kinds: Shared<dyn Kinds>) -> Self {
        let v3 =
            documents::all(&served).into_iter().map(|(name, document)| (name, DocumentSlot::new(document))).collect();
        let custom = custom_parts(&v3, &served, &HashMap::new());
        Self::from_parts(served, Arc::default(), kinds, v3, custom, Arc::default())
    }

    /// Sets the encodings of requests and responses. Must be called before the first request.
    #[must_use]
    pub fn with_encodings(self, encodings: Encodings) -> Self {
        Self { encodings, ..self }
    }

    /// Sets the release that the server emulates. Must be called before the first request.
    #[must_use]
    pub fn with_release(self, release: impl Into<Text>) -> Self {
        Self { release: release.into(), ..self }
    }

    /// Sets whether built-in enums include their values. Must be called before the first request.
    #[must_use]
    pub fn with_enum_values(self, shows_enums: bool) -> Self {
        Self { shows_enums, ..self }
    }

    /// Returns the documents of the currently served resources, reusing each document whose resources have not changed.
    #[must_use]
    pub fn update(&self, served: Arc<ServedResources>, remote_documents: Arc<RemoteDocuments>) -> Self {
        let same = |slot: &DocumentSlot, document: &DocumentName| {
            let (before, now) = (slot.document.resources(&self.served), document.resources(&served));
            slot.document == *document
                && before.len() == now.len()
                && before.iter().zip(now).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let slots = documents::all(&served).into_iter().map(|(name, document)| {
            let reused = self.v3.get(&name).filter(|slot| same(slot, &document));
            let slot = reused.cloned().unwrap_or_else(|| DocumentSlot::new(document));
            (name, slot)
        });
        let v3 = slots.collect();
        let custom = custom_parts(&v3, &served, &self.custom);
        let updated = Self::from_parts(served, remote_documents, self.kinds.clone(), v3, custom, self.reusable.clone());
        let (encodings, shows_enums) = (self.encodings, self.shows_enums);
        Self { encodings, shows_enums, release: self.release.clone(), ..updated }
    }

    fn from_parts(
        served: Arc<ServedResources>,
        remote_documents: Arc<RemoteDocuments>,
        kinds: Shared<dyn Kinds>,
        v3: BTreeMap<String, Arc<DocumentSlot>>,
        custom: HashMap<usize, Arc<CustomParts>>,
        reusable: Arc<ReusableParts>,
    ) -> Self {
        let (encodings, release) = (Encodings::STANDARD, Text::new_static(RELEASE));
        let (index, v2) = Default::default();
        Self { served, kinds, encodings, release, shows_enums: true, remote_documents, index, v3, v2, custom, reusable }
    }

    /// Returns the resources in the documents.
    pub fn served(&self) -> &Arc<ServedResources> {
        &self.served
    }

    /// Returns the documents of remote servers.
    pub fn remote_documents(&self) -> &Arc<RemoteDocuments> {
        &self.remote_documents
    }

    /// Returns true if the response at a path depends on the Accept-Encoding header.
    pub fn varies_by_encoding(path: &str) -> bool {
        path == V2
    }

    /// Returns true if the path is that of an OpenAPI document, served or not.
    pub fn is_openapi_path(path: &str) -> bool {
        path == V2 || path.strip_prefix(V3).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the response to a request for `/openapi/v2`, `/openapi/v3` or a document below; `None` for unrelated
    /// paths.
    pub fn respond(&self, request: &OpenApiRequest<'_>) -> Option<OpenApiResponse> {
        if request.path == V2 {
            return Some(self.respond_v2(request));
        }
        let rest = request.path.strip_prefix(V3)?;
        if rest.is_empty() {
            return Some(OpenApiResponse::Index(self.index.get_or_init(|| self.build_index()).clone()));
        }
        Some(self.respond_v3(rest.strip_prefix('/')?, request))
    }

    fn respond_v3(&self, name: &str, request: &OpenApiRequest<'_>) -> OpenApiResponse {
        let slot = self.v3.get(name);
        let converted = self.remote_documents.documents.get(name);
        if slot.is_none() && converted.is_none() {
            return OpenApiResponse::NotFound;
        }
        let format = match negotiate(request.accept, V3_PROTOBUF) {
            Negotiation::Format(format) => format,
            Negotiation::NotAcceptable => return OpenApiResponse::NotAcceptable,
            Negotiation::Invalid => return OpenApiResponse::Empty,
        };
        let (json, hash) = match (converted, slot) {
            (Some(converted), _) => (&converted.json, &converted.hash),
            (None, Some(slot)) => {
                let json = slot.json.get_or_init(|| self.build_v3(&slot.document));
                (json, slot.hash.get_or_init(|| digest(json)))
            }
            (None, None) => return OpenApiResponse::NotFound,
        };
        let (etag, content_type) = (format!("\"{hash}\""), format.choose(JSON, V3_PROTOBUF_TYPE));
        if !request.hash.is_empty() && request.hash != hash {
            return OpenApiResponse::Moved { etag, content_type, location: relative_url(name, hash) };
        }
        let immutable = !request.hash.is_empty();
        if matches_etag(request.if_none_match, &etag) {
            return OpenApiResponse::NotModified { etag, immutable };
        }
        let body = match (format, converted, slot) {
            (Format::Json, ..) => Some(json.clone()),
            (Format::Protobuf, None, Some(slot)) => slot.protobuf.get_or_init(|| transcode(json, &shapes::V3)).clone(),
            (Format::Protobuf, ..) => transcode(json, &shapes::V3),
        };
        let Some(body) = body.map(Pieces::from) else { return OpenApiResponse::Unavailable };
        OpenApiResponse::Document(Document { content_type, etag, immutable, compressed: false, body })
    }

    fn respond_v2(&self, request: &OpenApiRequest<'_>) -> OpenApiResponse {
        let Negotiation::Format(format) = negotiate(request.accept, V2_PROTOBUF) else {
            return OpenApiResponse::NotAcceptable;
        };
        let document = self.v2.get_or_init(|| self.build_v2());
        let (etag, content_type) = (format!("\"{}\"", document.hash), format.choose(JSON, V2_PROTOBUF_TYPE));
        if matches_etag(request.if_none_match, &etag) {
            return OpenApiResponse::NotModified { etag, immutable: false };
        }
        let accepts_gzip = gzip::accepts_gzip(request.accept_encoding);
        let compressed = match format {
            Format::Json => accepts_gzip.then(|| document.compressed_json()).flatten(),
            Format::Protobuf => accepts_gzip.then(|| document.compressed_protobuf()).flatten(),
        };
        if let Some(body) = compressed {
            return OpenApiResponse::Document(Document {
                content_type,
                etag,
                immutable: false,
                compressed: true,
                body,
            });
        }
        let body = match format {
            Format::Json => Some(document.json.clone()),
            Format::Protobuf => document.protobuf(),
        };
        let Some(body) = body else { return OpenApiResponse::Unavailable };
        OpenApiResponse::Document(Document { content_type, etag, immutable: false, compressed: false, body })
    }

    fn build_v2(&self) -> v2::Document {
        let built_in = self.v3.values().filter(|slot| !matches!(slot.document, DocumentName::Custom(..)));
        let paths = |slot: &DocumentSlot| {
            Arc::new(v2::path_parts(slot.document.paths(&self.served, &*self.kinds, self.encodings)))
        };
        let built_in: Vec<Arc<PathParts>> = built_in.map(|slot| slot.v2.get_or_init(|| paths(slot)).clone()).collect();
        let custom =
            custom_resources(&self.v3, &self.served).filter_map(|resource| self.custom.get(&address(resource)));
        let custom: Vec<Arc<CustomParts>> = custom.cloned().collect();
        let built_in =
            v2::Document::new(&built_in, &custom, &*self.kinds, self.shows_enums, &self.reusable, &self.release);
        if self.remote_documents.v2.is_empty() {
            return built_in;
        }
        match remote_documents::merge(&built_in.json.clone().into_bytes(), &self.remote_documents.v2) {
            Some(merged) => built_in.with_merged(merged.into()),
            None => built_in,
        }
    }

    /// Builds the index with the hash of every document. Documents that are generated only for it are not cached, as
    /// most are never requested.
    fn build_index(&self) -> Bytes {
        let mut json = Json::new();
        json.object(|json| {
            json.name("paths").object(|json| {
                for (name, url) in &self.remote_documents.index {
                    json.name(name).object(|json| json.text_member("serverRelativeURL", url));
                }
                for (name, converted) in &self.remote_documents.documents {
                    let url = relative_url(name, &converted.hash);
                    json.name(name).object(|json| json.text_member("serverRelativeURL", &url));
                }
                for (name, slot) in &self.v3 {
                    if self.remote_documents.index.contains_key(name)
                        || self.remote_documents.documents.contains_key(name)
                    {
                        continue;
                    }
                    let hash = slot.hash.get_or_init(|| match slot.json.get() {
                        Some(body) => digest(body),
                        None => digest(&self.build_v3(&slot.document)),
                    });
                    json.name(name).object(|json| json.text_member("serverRelativeURL", &relative_url(name, hash)));
                }
            });
        });
        json.into_bytes().into()
    }

    fn build_v3(&self, document: &DocumentName) -> Bytes {
        let paths = document.paths(&self.served, &*self.kinds, self.encodings);
        let built_in = BuiltIn::new(&*self.kinds, document.scope()).with_enum_values(self.shows_enums);
        if let DocumentName::Custom(..) = document {
            let definitions =
                CustomDefinitions::new(built_in.for_custom(), &*self.kinds, document.resources(&self.served));
            return v3::document(&paths, &definitions, None).into();
        }
        v3::document(&paths, &built_in, Some(&self.release)).into()
    }
}

impl DocumentSlot {
    fn new(document: DocumentName) -> Arc<Self> {
        let (hash, json, protobuf, v2) = Default::default();
        Arc::new(Self { document, hash, json, protobuf, v2 })
    }
}

/// Returns all custom resources.
fn custom_resources<'s>(
    slots: &'s BTreeMap<String, Arc<DocumentSlot>>,
    served: &'s ServedResources,
) -> impl Iterator<Item = &'s Arc<ResourceDescription>> {
    let custom = slots.values().filter(|slot| matches!(slot.document, DocumentName::Custom(..)));
    custom.flat_map(|slot| slot.document.resources(served)).filter(|resource| resource.published.is_some())
}

/// Returns the parts of all custom resources, reusing existing ones.
fn custom_parts(
    slots: &BTreeMap<String, Arc<DocumentSlot>>,
    served: &ServedResources,
    reused: &HashMap<usize, Arc<CustomParts>>,
) -> HashMap<usize, Arc<CustomParts>> {
    let parts = custom_resources(slots, served).map(|resource| {
        let at = address(resource);
        (at, reused.get(&at).cloned().unwrap_or_else(|| Arc::new(CustomParts::new(resource.clone()))))
    });
    parts.collect()
}

/// Returns the identity of a description, which is valid as long as the description is alive.
fn address(resource: &Arc<ResourceDescription>) -> usize {
    Arc::as_ptr(resource).addr()
}

fn transcode(json: &[u8], shape: &'static Shape) -> Option<Bytes> {
    protobuf::transcode(json, shape).ok().map(Bytes::from)
}

fn relative_url(name: &str, hash: &str) -> String {
    format!("{V3}/{name}?hash={hash}")
}

/// Returns true if an If-None-Match header contains the tag; weak tags match too (RFC 9110, 13.1.2).
fn matches_etag(if_none_match: &str, etag: &str) -> bool {
    if_none_match.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
