//! The documents as data, built from the served resources, with members in the order of the API's structs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_scheme::{
    RemoteResource, ResourceDescription, Resources, ServedGroup, ServedResources, ServedVersion, SubresourceKind,
    VerbOrder, Verbs, scope,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::addresses::ServerAddress;
use crate::discovered::DiscoveredGroup;

/// `/api`.
#[derive(Serialize)]
pub(crate) struct ApiVersions {
    kind: &'static str,
    pub(crate) versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub(crate) addresses: Vec<ServerAddress>,
}

/// `/apis`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    pub(crate) groups: Vec<ApiGroup<'a>>,
}

/// `/apis/GROUP`, and an element of `/apis`, which does not repeat kind and apiVersion.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'static str,
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<GroupVersionForDiscovery<'a>>,
    pub(crate) preferred_version: GroupVersionForDiscovery<'a>,
}

#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupVersionForDiscovery<'a> {
    pub(crate) group_version: String,
    pub(crate) version: &'a str,
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiResourceList<'a> {
    kind: &'static str,
    /// Omitted for the core group, as clients of Kubernetes 1.1 expect.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) api_version: &'static str,
    pub(crate) group_version: String,
    pub(crate) resources: Vec<ApiResource<'a>>,
}

/// A resource, or a subresource named `RESOURCE/SUBRESOURCE`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiResource<'a> {
    pub(crate) name: String,
    pub(crate) singular_name: &'a str,
    pub(crate) namespaced: bool,
    /// Group and version are only set if they differ from the list's.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) verbs: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) categories: Vec<&'a str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) storage_version_hash: String,
}

/// The aggregated document of `/api` or `/apis`. Its hash excludes kind and apiVersion.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupDiscoveryList<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) api_version: &'static str,
    metadata: Metadata<'a>,
    pub(crate) items: Vec<GroupDiscovery<'a>>,
}

#[derive(Serialize)]
pub(crate) struct GroupDiscovery<'a> {
    pub(crate) metadata: Metadata<'a>,
    pub(crate) versions: Vec<VersionDiscovery<'a>>,
}

#[derive(Serialize)]
pub(crate) struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'a str,
}

#[derive(Serialize)]
pub(crate) struct VersionDiscovery<'a> {
    pub(crate) version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<ResourceDiscovery<'a>>,
    pub(crate) freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceDiscovery<'a> {
    pub(crate) resource: &'a str,
    pub(crate) response_kind: ResponseKind<'a>,
    pub(crate) scope: &'a str,
    pub(crate) singular_resource: &'a str,
    pub(crate) verbs: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) categories: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) subresources: Vec<SubresourceDiscovery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubresourceDiscovery<'a> {
    pub(crate) subresource: &'a str,
    pub(crate) response_kind: ResponseKind<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) accepted_types: Vec<ResponseKind<'a>>,
    pub(crate) verbs: Option<Vec<&'a str>>,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct ResponseKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

/// Returns the hash by which clients detect a change of a resource's storage version.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&hash[..8])
}

// === Building plain documents ===

impl ApiVersions {
    pub(crate) fn new(addresses: Vec<ServerAddress>) -> Self {
        Self { kind: "APIVersions", versions: ["v1"], addresses }
    }
}

impl<'a> ApiGroupList<'a> {
    /// Lists all groups except the core group.
    pub(crate) fn new(served: &'a ServedResources) -> Self {
        let groups = served.groups().into_iter().filter(|group| !group.name.is_empty()).map(ApiGroup::element);
        Self { kind: "APIGroupList", api_version: "v1", groups: groups.collect() }
    }

    /// Lists these groups.
    pub(crate) fn listed(groups: &'a [ListedGroup]) -> Self {
        let groups = groups.iter().map(ApiGroup::listed_element).collect();
        Self { kind: "APIGroupList", api_version: "v1", groups }
    }
}

/// A group of any server, with its versions in order of preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub name: Text,
    pub versions: Vec<Text>,
}

impl<'a> ApiGroup<'a> {
    pub(crate) fn new(group: &'a ServedGroup) -> Self {
        Self { kind: "APIGroup", api_version: "v1", ..Self::element(group) }
    }

    pub(crate) fn listed(group: &'a ListedGroup) -> Self {
        Self { kind: "APIGroup", api_version: "v1", ..Self::listed_element(group) }
    }

    fn element(group: &'a ServedGroup) -> Self {
        Self::of_versions(&group.name, group.versions.iter().map(|served| served.version.as_str()))
    }

    fn listed_element(group: &'a ListedGroup) -> Self {
        Self::of_versions(&group.name, group.versions.iter().map(|version| version.as_str()))
    }

    fn of_versions(name: &'a str, versions: impl Iterator<Item = &'a str>) -> Self {
        let versions: Vec<_> = versions
            .map(|version| GroupVersionForDiscovery { group_version: group_version(name, version), version })
            .collect();
        let preferred_version = versions.first().cloned().unwrap_or_default();
        Self { kind: "", api_version: "", name, versions, preferred_version }
    }
}

impl<'a> ApiResourceList<'a> {
    pub(crate) fn new(group: &str, served: &'a ServedVersion) -> Self {
        let resources = match &served.resources {
            Resources::BuiltIn(resources) | Resources::Custom(resources) => {
                resources.iter().flat_map(|resource| local_resource(resource)).collect()
            }
            Resources::Remote(resources) => resources.iter().flat_map(remote_resource).collect(),
        };
        Self {
            kind: "APIResourceList",
            api_version: if group.is_empty() { "" } else { "v1" },
            group_version: group_version(group, &served.version),
            resources,
        }
    }
}

/// Returns a resource of this server, followed by its subresources.
fn local_resource(resource: &ResourceDescription) -> impl Iterator<Item = ApiResource<'_>> {
    let main_resource = ApiResource {
        name: resource.plural.to_string(),
        singular_name: &resource.singular,
        namespaced: resource.namespaced,
        group: "",
        version: "",
        kind: &resource.kind,
        verbs: verb_names(resource.verbs.except(resource.unlisted), resource.verb_order),
        short_names: texts(&resource.short_names),
        categories: texts(&resource.categories),
        storage_version_hash: storage_version_hash_of(resource),
    };
    let subresources = resource.subresources.iter().map(|subresource| {
        let ResponseKind { group, version, kind } = response_kind_of(&subresource.kind, &resource.kind);
        ApiResource {
            name: format!("{}/{}", resource.plural, subresource.name),
            singular_name: "",
            namespaced: resource.namespaced,
            group,
            version,
            kind,
            verbs: verb_names(subresource.verbs, VerbOrder::Alphabetical),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: String::new(),
        }
    });
    std::iter::once(main_resource).chain(subresources)
}

/// Returns a resource of another server, followed by its subresources.
fn remote_resource(resource: &RemoteResource) -> impl Iterator<Item = ApiResource<'_>> {
    let main_resource = ApiResource {
        name: resource.plural.to_string(),
        singular_name: &resource.singular,
        namespaced: resource.is_namespaced(),
        group: "",
        version: "",
        kind: &resource.kind.kind,
        verbs: resource.verbs.as_deref().map(texts),
        short_names: texts(&resource.short_names),
        categories: texts(&resource.categories),
        storage_version_hash: resource.storage_version_hash.to_string(),
    };
    let subresources = resource.subresources.iter().map(|subresource| {
        let kind = &subresource.kind;
        let foreign = kind.group != resource.kind.group || kind.version != resource.kind.version;
        ApiResource {
            name: format!("{}/{}", resource.plural, subresource.name),
            singular_name: "",
            namespaced: resource.is_namespaced(),
            group: if foreign { &kind.group } else { "" },
            version: if foreign { &kind.version } else { "" },
            kind: &kind.kind,
            verbs: subresource.verbs.as_deref().map(texts),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: String::new(),
        }
    });
    std::iter::once(main_resource).chain(subresources)
}

// === Building aggregated documents ===

impl<'a> GroupDiscoveryList<'a> {
    /// Lists the core group only, or all other groups.
    pub(crate) fn new(served: &'a ServedResources, core: bool) -> Self {
        let groups = served.groups().into_iter().filter(|group| group.name.is_empty() == core);
        let items = groups.map(|group| GroupDiscovery {
            metadata: Metadata { name: &group.name },
            versions: group.versions.iter().map(VersionDiscovery::new).collect(),
        });
        Self { kind: "", api_version: "", metadata: Metadata { name: "" }, items: items.collect() }
    }

    /// Lists these groups.
    pub(crate) fn discovered(groups: &'a [DiscoveredGroup]) -> Self {
        let items = groups.iter().map(|group| GroupDiscovery {
            metadata: Metadata { name: &group.name },
            versions: group.versions.iter().map(VersionDiscovery::discovered).collect(),
        });
        Self { kind: "", api_version: "", metadata: Metadata { name: "" }, items: items.collect() }
    }
}

impl<'a> VersionDiscovery<'a> {
    fn new(served: &'a ServedVersion) -> Self {
        let resources = match &served.resources {
            Resources::BuiltIn(resources) => resources.iter().map(|resource| local_discovery(resource)).collect(),
            Resources::Custom(resources) => resources.iter().map(|resource| custom_discovery(resource)).collect(),
            Resources::Remote(resources) => resources.iter().map(remote_discovery).collect(),
        };
        Self { version: &served.version, resources, freshness: if served.stale { "Stale" } else { "Current" } }
    }
}

fn local_discovery(resource: &ResourceDescription) -> ResourceDiscovery<'_> {
    let subresources = resource.subresources.iter().map(|subresource| SubresourceDiscovery {
        subresource: &subresource.name,
        response_kind: response_kind_of(&subresource.kind, &resource.kind),
        accepted_types: Vec::new(),
        verbs: verb_names(subresource.verbs, VerbOrder::Alphabetical),
    });
    ResourceDiscovery {
        resource: &resource.plural,
        response_kind: ResponseKind { group: "", version: "", kind: &resource.kind },
        scope: scope(resource.namespaced),
        singular_resource: &resource.singular,
        verbs: verb_names(resource.verbs.except(resource.unlisted), resource.verb_order),
        short_names: texts(&resource.short_names),
        categories: texts(&resource.categories),
        subresources: subresources.collect(),
    }
}

/// Describes a custom resource, which always has group and version, as in apiextensions-apiserver.
fn custom_discovery(resource: &ResourceDescription) -> ResourceDiscovery<'_> {
    let mut discovery = local_discovery(resource);
    let subresources = discovery.subresources.iter_mut().map(|subresource| &mut subresource.response_kind);
    for kind in subresources.chain([&mut discovery.response_kind]) {
        if kind.group.is_empty() && kind.version.is_empty() {
            (kind.group, kind.version) = (&resource.group, &resource.version);
        }
    }
    discovery
}

pub(crate) fn remote_discovery(resource: &RemoteResource) -> ResourceDiscovery<'_> {
    let subresources = resource.subresources.iter().map(|subresource| SubresourceDiscovery {
        subresource: &subresource.name,
        response_kind: full_kind(&subresource.kind),
        accepted_types: subresource.accepted.iter().map(full_kind).collect(),
        verbs: subresource.verbs.as_deref().map(texts),
    });
    ResourceDiscovery {
        resource: &resource.plural,
        response_kind: full_kind(&resource.kind),
        scope: &resource.scope,
        singular_resource: &resource.singular,
        verbs: resource.verbs.as_deref().map(texts),
        short_names: texts(&resource.short_names),
        categories: texts(&resource.categories),
        subresources: subresources.collect(),
    }
}

// === Parts ===

/// Returns the storage version hash; empty for resources that are not stored or do not announce their version.
fn storage_version_hash_of(resource: &ResourceDescription) -> String {
    let storage = resource.storage.as_ref().filter(|storage| storage.is_announced);
    storage
        .map(|storage| storage_version_hash(&storage.group, &storage.announced_version, &storage.kind))
        .unwrap_or_default()
}

fn verb_names(verbs: Verbs, order: VerbOrder) -> Option<Vec<&'static str>> {
    Some(verbs.ordered(order).map(|verb| verb.as_str()).collect())
}

fn texts(texts: &[Text]) -> Vec<&str> {
    texts.iter().map(|text| text.as_str()).collect()
}

/// Returns the kind of a subresource; group and version are only set if they differ from the resource's.
fn response_kind_of<'a>(kind: &'a SubresourceKind, parent: &'a str) -> ResponseKind<'a> {
    let (group, version, kind) = match kind {
        SubresourceKind::Resource => ("", "", parent),
        SubresourceKind::Sibling(kind) => ("", "", kind.as_str()),
        SubresourceKind::Foreign(group, version, kind) => (group.as_str(), version.as_str(), kind.as_str()),
    };
    ResponseKind { group, version, kind }
}

fn full_kind(kind: &GroupVersionKind) -> ResponseKind<'_> {
    ResponseKind { group: &kind.group, version: &kind.version, kind: &kind.kind }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
