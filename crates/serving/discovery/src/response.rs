//! Responses to discovery requests. Large documents are built at most once for a set of served resources.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use binnacle_meta::{Encoding, Encodings, Status, accept_names, content_type_names};
use binnacle_schema::Limits;
use binnacle_scheme::ServedResources;
use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha512};

use crate::accept::negotiate;
use crate::addresses::Addresses;
use crate::discovered::DiscoveredGroup;
use crate::documents::{ApiGroup, ApiGroupList, ApiResourceList, ApiVersions, GroupDiscoveryList, ListedGroup};
use crate::metrics::DiscoveryMetrics;
use crate::protobuf::{Message, envelope};

/// Discovery of an immutable [`ServedResources`]. A new value replaces it when the resources change.
#[derive(Debug, Default)]
pub struct Discovery {
    served: Arc<ServedResources>,
    /// The groups of the plain documents, if they differ from those of `served`.
    listed: Option<Vec<ListedGroup>>,
    addresses: Addresses,
    metrics: Option<DiscoveryMetrics>,
    /// The groups of all servers of the cluster, if this server has peers.
    peer_groups: Option<Vec<DiscoveredGroup>>,
    groups: OnceLock<Bytes>,
    aggregated_core: OnceLock<AggregatedDocument>,
    aggregated_groups: OnceLock<AggregatedDocument>,
    aggregated_peer_groups: OnceLock<AggregatedDocument>,
}

/// The parts of a request that discovery needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscoveryRequest<'a> {
    pub method: &'a str,
    /// Decoded, without the query.
    pub path: &'a str,
    /// The first Accept header; empty if there is none.
    pub accept: &'a str,
    /// The Content-Type header; empty if there is none.
    pub content_type: &'a str,
    /// The If-None-Match header; empty if there is none.
    pub if_none_match: &'a str,
    pub client: Option<IpAddr>,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryResponse {
    /// 200 with this document.
    Document(Document),
    /// 304: the client's copy is current.
    NotModified { etag: String },
    /// 404 for an unknown group, as plain text: `404 page not found` and a line feed.
    NotFound,
    /// A failure with a Status: 404 for an unknown version of a known group, 405, 406.
    Failure(Status),
}

/// A document, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub encoding: Encoding,
    pub content_type: &'static str,
    /// Quoted, as in the header. Documents with an ETag are sent with `Vary: Accept` and `Cache-Control: public`.
    pub etag: Option<String>,
    pub body: Bytes,
}

#[derive(Debug)]
struct AggregatedDocument {
    etag: String,
    json: Bytes,
}

/// The path of a discovery document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentPath<'a> {
    /// `/api`.
    Core,
    /// `/apis`, which with a trailing slash is never aggregated.
    Groups { slash: bool },
    /// `/apis/GROUP`.
    Group(&'a str),
    /// `/api/VERSION`, `/apis/GROUP/VERSION`.
    Version(&'a str, &'a str),
}

impl Discovery {
    pub fn new(served: Arc<ServedResources>, addresses: Addresses) -> Self {
        Self { served, addresses, ..Self::default() }
    }

    /// Sets the groups of `/apis` and `/apis/GROUP`, since registered groups may differ from served ones.
    #[must_use]
    pub fn with_groups(self, groups: Vec<ListedGroup>) -> Self {
        Self { listed: Some(groups), ..self }
    }

    /// Sets the metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: Option<DiscoveryMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Sets the groups of all servers of the cluster, for the aggregated document of `/apis`.
    #[must_use]
    pub fn with_peers(self, groups: Vec<DiscoveredGroup>) -> Self {
        Self { peer_groups: Some(groups), ..self }
    }

    /// Returns the groups of the aggregated document of `/apis`, without those of peers.
    pub fn discovered(&self) -> Vec<DiscoveredGroup> {
        GroupDiscoveryList::new(&self.served, false).items.iter().map(DiscoveredGroup::from).collect()
    }

    fn group_list(&self) -> ApiGroupList<'_> {
        match &self.listed {
            Some(groups) => ApiGroupList::listed(groups),
            None => ApiGroupList::new(&self.served),
        }
    }

    /// Finds a group by name, except for the core group.
    fn group(&self, name: &str) -> Option<ApiGroup<'_>> {
        match &self.listed {
            Some(groups) => groups.iter().find(|group| group.name == name).map(ApiGroup::listed),
            None => self.served.group(name).filter(|_| !name.is_empty()).map(ApiGroup::new),
        }
    }

    pub fn served(&self) -> &Arc<ServedResources> {
        &self.served
    }

    /// Returns true for paths of discovery documents, served or not.
    pub fn matches(path: &str) -> bool {
        DocumentPath::of(path).is_some()
    }

    /// Returns the response for `/api`, `/apis` or a group or version below; `None` for other paths.
    ///
    /// The caller must first proxy requests for dynamic versions that another server serves.
    pub fn respond(&self, request: &DiscoveryRequest<'_>) -> Option<DiscoveryResponse> {
        let document_path = DocumentPath::of(request.path)?;
        Some(self.respond_to(document_path, request).unwrap_or_else(DiscoveryResponse::Failure))
    }

    fn respond_to(
        &self,
        document_path: DocumentPath<'_>,
        request: &DiscoveryRequest<'_>,
    ) -> Result<DiscoveryResponse, Status> {
        match document_path {
            DocumentPath::Core => {
                check_router_rules(request)?;
                let versions = || ApiVersions::new(self.addresses.for_client(request.client));
                self.root(request, true, |encoding| encode(encoding, "", "APIVersions", &versions()))
            }
            DocumentPath::Groups { slash } => self.root(request, !slash, |encoding| match encoding {
                Encoding::Json => self.groups.get_or_init(|| json(&self.group_list())).clone(),
                _ => encode(encoding, "v1", "APIGroupList", &self.group_list()),
            }),
            DocumentPath::Group(name) => {
                let Some(group) = self.group(name) else { return Ok(DiscoveryResponse::NotFound) };
                if name == REGISTRATION {
                    check_router_rules(request)?;
                }
                plain(request, |encoding| encode(encoding, "v1", "APIGroup", &group))
            }
            DocumentPath::Version(group, version) => {
                let is_built_in = self.served.group(group).is_some_and(|group| group.is_built_in());
                let Some(served) = self.served.version(group, version) else {
                    return if is_built_in { Err(Status::path_not_found()) } else { Ok(DiscoveryResponse::NotFound) };
                };
                if is_built_in {
                    check_router_rules(request)?;
                }
                plain(request, |encoding| {
                    let list = ApiResourceList::new(group, served);
                    encode(encoding, list.api_version, "APIResourceList", &list)
                })
            }
        }
    }

    /// Returns `/api` or `/apis`, aggregated if the client accepts that.
    fn root(
        &self,
        request: &DiscoveryRequest<'_>,
        aggregated_offered: bool,
        plain: impl FnOnce(Encoding) -> Bytes,
    ) -> Result<DiscoveryResponse, Status> {
        let format = negotiate(request.accept, aggregated_offered).ok_or_else(not_acceptable)?;
        if !format.aggregated {
            return Ok(DiscoveryResponse::Document(Document {
                encoding: format.encoding,
                content_type: format.encoding.media_type(),
                etag: None,
                body: plain(format.encoding),
            }));
        }
        let core = !request.path.starts_with("/apis");
        let peer_groups = self.peer_groups.as_deref().filter(|_| !core && !format.excludes_peers);
        let list = || match peer_groups {
            Some(groups) => GroupDiscoveryList::discovered(groups),
            None => GroupDiscoveryList::new(&self.served, core),
        };
        let cache = match (core, peer_groups) {
            (true, _) => &self.aggregated_core,
            (false, None) => &self.aggregated_groups,
            (false, Some(_)) => &self.aggregated_peer_groups,
        };
        if let Some(metrics) = &self.metrics {
            metrics.count(format.excludes_peers, peer_groups.is_some(), cache.get().is_some());
        }
        let aggregated = cache.get_or_init(|| AggregatedDocument::new(list()));
        if request.if_none_match == aggregated.etag {
            return Ok(DiscoveryResponse::NotModified { etag: aggregated.etag.clone() });
        }
        let (content_type, body) = match format.encoding {
            Encoding::Json => {
                ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", aggregated.json.clone())
            }
            Encoding::Yaml => {
                ("application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", yaml(&aggregated.json))
            }
            // Discovery is never encoded in CBOR.
            Encoding::Protobuf | Encoding::Cbor => (
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                envelope(AGGREGATED[0], AGGREGATED[1], &list()).into(),
            ),
        };
        let etag = Some(aggregated.etag.clone());
        Ok(DiscoveryResponse::Document(Document { encoding: format.encoding, content_type, etag, body }))
    }
}

/// The only group without an APIService, whose requests are routed like those for a resource.
const REGISTRATION: &str = "apiregistration.k8s.io";
/// Version and kind of aggregated documents.
const AGGREGATED: [&str; 2] = ["apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"];

impl<'a> DocumentPath<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        // Trailing slashes are ignored, except that `/apis` and `/apis/` differ.
        let trimmed = path.trim_end_matches('/');
        let slash = path.len() > trimmed.len();
        let mut segments = trimmed.split('/');
        let root = segments.next()?;
        let rest: Vec<&str> = segments.take(4).collect();
        match (root, rest.as_slice()) {
            (_, segments) if segments.contains(&"") => None,
            ("apis", []) if path.len() > trimmed.len() + 1 => None,
            ("api", []) => Some(Self::Core),
            ("api", [version]) => Some(Self::Version("", version)),
            ("apis", []) => Some(Self::Groups { slash }),
            ("apis", [group]) => Some(Self::Group(group)),
            ("apis", [group, version]) => Some(Self::Version(group, version)),
            _ => None,
        }
    }
}

impl AggregatedDocument {
    fn new(mut list: GroupDiscoveryList<'_>) -> Self {
        let mut hashed = json(&list).to_vec();
        hashed.pop();
        let etag = Sha512::digest(&hashed).iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        [list.api_version, list.kind] = AGGREGATED;
        Self { etag: format!("\"{etag}\""), json: json(&list) }
    }
}

/// Checks a request for a path of kube-apiserver's router, which accepts only GET and known media types. Documents of
/// custom groups have no router.
fn check_router_rules(request: &DiscoveryRequest<'_>) -> Result<(), Status> {
    if request.method != "GET" {
        return Err(Status::method_not_allowed());
    }
    let media_types = Encodings::STANDARD.media_types();
    if !content_type_names(request.content_type, &media_types) {
        return Err(Status::router_unsupported_media_type());
    }
    if !accept_names(request.accept, &media_types) {
        return Err(Status::router_not_acceptable(&media_types));
    }
    Ok(())
}

/// Returns a document that has no aggregated format.
fn plain(
    request: &DiscoveryRequest<'_>,
    encode_as: impl FnOnce(Encoding) -> Bytes,
) -> Result<DiscoveryResponse, Status> {
    let encoding = negotiate(request.accept, false).ok_or_else(not_acceptable)?.encoding;
    let (content_type, body) = (encoding.media_type(), encode_as(encoding));
    Ok(DiscoveryResponse::Document(Document { encoding, content_type, etag: None, body }))
}

fn not_acceptable() -> Status {
    Status::not_acceptable(&Encodings::STANDARD.media_types())
}

fn encode(encoding: Encoding, api_version: &str, kind: &str, document: &(impl Serialize + Message)) -> Bytes {
    match encoding {
        Encoding::Json => json(document),
        Encoding::Yaml => yaml(&json(document)),
        Encoding::Protobuf | Encoding::Cbor => envelope(api_version, kind, document).into(),
    }
}

/// Encodes compact JSON with the line feed at the end of every JSON response.
fn json(document: &impl Serialize) -> Bytes {
    let mut bytes = Vec::new();
    // Serialization of strings, lists and structs to memory cannot fail.
    let written = serde_json::to_writer(&mut bytes, document);
    debug_assert!(written.is_ok());
    bytes.push(b'\n');
    bytes.into()
}

/// Converts the document to YAML, with members sorted by name, as in kube-apiserver.
fn yaml(json: &[u8]) -> Bytes {
    let unlimited = Limits { max_bytes: usize::MAX, ..Limits::default() };
    // `json` is the output of serde_json above, at most eight levels deep.
    let document = binnacle_schema::json::parse(json, &unlimited).expect("JSON that was just written");
    binnacle_schema::yaml::to_string(&document).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_document_paths() {
        for (path, expected) in [
            ("/api", Some(DocumentPath::Core)),
            ("/api/", Some(DocumentPath::Core)),
            ("/api/v1", Some(DocumentPath::Version("", "v1"))),
            ("/api/v1/", Some(DocumentPath::Version("", "v1"))),
            ("/api/v1/pods", None),
            ("/apis", Some(DocumentPath::Groups { slash: false })),
            ("/apis/", Some(DocumentPath::Groups { slash: true })),
            ("/apis/apps", Some(DocumentPath::Group("apps"))),
            ("/apis/apps/", Some(DocumentPath::Group("apps"))),
            ("/apis/apps/v1", Some(DocumentPath::Version("apps", "v1"))),
            ("/apis/apps/v1/", Some(DocumentPath::Version("apps", "v1"))),
            ("/apis/apps/v1/deployments", None),
            ("/apis//v1", None),
            ("/api//", Some(DocumentPath::Core)),
            ("/api/v1//", Some(DocumentPath::Version("", "v1"))),
            ("/apis/apps//", Some(DocumentPath::Group("apps"))),
            ("/apis//", None),
            ("//api", None),
            ("/apiserver", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(DocumentPath::of(path), expected, "{path}");
        }
    }
}
