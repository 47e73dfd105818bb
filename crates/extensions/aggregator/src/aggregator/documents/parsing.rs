//! Parsing of discovery documents: aggregated ones, and legacy ones of a single version. Both follow Go's decoder:
//! absent and null members are equivalent, and a member of another type invalidates the document.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use binnacle_discovery::{DiscoveredGroup, DiscoveredVersion};
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_scheme::{RemoteResource, RemoteSubresource, scope};
use binnacle_work::{WorkLimits, allocate, charge, limited};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A list of texts; `None` if it is null or absent.
type Texts = Option<List<String>>;

/// The limits of the work on one document. A document with a thousand resources needs less than a tenth.
const LIMITS: WorkLimits = WorkLimits { steps: 50_000_000, memory: 16 << 20 };
/// The bytes that are parsed in ten nanoseconds.
const BYTES_PER_STEP: usize = 2;

/// A list whose elements are charged to the work budget: an empty element has two bytes of text, but takes a hundred
/// times as many in memory.
struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = elements.next_element()? {
                    // Each element is later converted to a value of the same size.
                    allocate(2 * size_of::<T>()).map_err(A::Error::custom)?;
                    list.push(element);
                }
                Ok(List(list))
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    kind: Option<String>,
    api_version: Option<String>,
}

#[derive(Deserialize)]
struct GroupList {
    items: Option<List<Group>>,
}

#[derive(Deserialize)]
struct Group {
    metadata: Option<Metadata>,
    versions: Option<List<Version>>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Version {
    version: Option<String>,
    resources: Option<List<Resource>>,
    freshness: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: Option<String>,
    response_kind: Option<Kind>,
    scope: Option<String>,
    singular_resource: Option<String>,
    verbs: Texts,
    short_names: Texts,
    categories: Texts,
    subresources: Option<List<Subresource>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subresource {
    subresource: Option<String>,
    response_kind: Option<Kind>,
    accepted_types: Option<List<Kind>>,
    verbs: Texts,
}

#[derive(Default, Deserialize)]
struct Kind {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct LegacyList {
    resources: Option<List<LegacyResource>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource {
    name: Option<String>,
    singular_name: Option<String>,
    namespaced: Option<bool>,
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    verbs: Texts,
    short_names: Texts,
    categories: Texts,
}

/// Returns true for the media type of aggregated documents, in either version. The media type and the names of
/// parameters are case-insensitive, values are not.
pub(crate) fn is_aggregated(media_type: &str) -> bool {
    let (name, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let mut parameter_values: HashMap<String, &str> = HashMap::new();
    // An empty last part is allowed.
    let parameters = parameters.trim_end().strip_suffix(';').unwrap_or(parameters);
    for parameter in parameters.split(';').filter(|_| !parameters.trim().is_empty()) {
        let Some((name, value)) = parameter.split_once('=') else { return false };
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        if parameter_values.insert(name.trim().to_ascii_lowercase(), value).is_some_and(|former| former != value) {
            return false;
        }
    }
    let [group, version, kind] = ["g", "v", "as"].map(|name| parameter_values.get(name).copied().unwrap_or_default());
    name.trim().eq_ignore_ascii_case("application/json")
        && group == "apidiscovery.k8s.io"
        && kind == "APIGroupDiscoveryList"
        && matches!(version, "v2" | "v2beta1")
}

/// Parses an aggregated document.
pub(crate) fn parse_aggregated(body: &[u8]) -> Result<Vec<DiscoveredGroup>, String> {
    within_limits(body, || aggregated(body))
}

/// Parses a document within its work limits.
fn within_limits<T>(body: &[u8], parse: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let parsed = limited(LIMITS, || {
        charge((body.len() / BYTES_PER_STEP) as u64).map_err(|exceeded| exceeded.to_string())?;
        parse()
    });
    parsed.map_err(|exceeded| exceeded.to_string())?
}

fn aggregated(body: &[u8]) -> Result<Vec<DiscoveredGroup>, String> {
    let versions = ["apidiscovery.k8s.io/v2", "apidiscovery.k8s.io/v2beta1"];
    check_kind(body, "APIGroupDiscoveryList", |version| versions.contains(&version))?;
    let list: GroupList = parse(body)?;
    let groups = list.items.into_iter().flatten().map(|group| {
        let versions = group.versions.into_iter().flatten().map(|version| DiscoveredVersion {
            version: text(version.version),
            is_stale: version.freshness.as_deref() == Some("Stale"),
            resources: version.resources.into_iter().flatten().map(aggregated_resource).collect(),
        });
        DiscoveredGroup { name: text(group.metadata.and_then(|metadata| metadata.name)), versions: versions.collect() }
    });
    Ok(groups.collect())
}

fn aggregated_resource(resource: Resource) -> RemoteResource {
    let subresources = resource.subresources.into_iter().flatten().map(|subresource| RemoteSubresource {
        name: text(subresource.subresource),
        kind: subresource.response_kind.unwrap_or_default().into(),
        accepted: subresource.accepted_types.into_iter().flatten().map(GroupVersionKind::from).collect(),
        verbs: subresource.verbs.map(texts),
    });
    RemoteResource {
        plural: text(resource.resource),
        singular: text(resource.singular_resource),
        kind: resource.response_kind.unwrap_or_default().into(),
        scope: text(resource.scope),
        verbs: resource.verbs.map(texts),
        short_names: resource.short_names.map(texts).unwrap_or_default(),
        categories: resource.categories.map(texts).unwrap_or_default(),
        subresources: subresources.collect(),
        storage_version_hash: Text::default(),
    }
}

/// Parses the legacy document of a version, with subresources below their resources.
pub(super) fn parse_legacy(body: &[u8]) -> Result<Vec<RemoteResource>, String> {
    within_limits(body, || legacy(body))
}

fn legacy(body: &[u8]) -> Result<Vec<RemoteResource>, String> {
    // The kind belongs to no version, so any version is accepted.
    check_kind(body, "APIResourceList", |_| true)?;
    let list: LegacyList = parse(body)?;
    let (subresources_of, top_level): (Vec<_>, Vec<_>) =
        list.resources.into_iter().flatten().partition(|entry| entry.name.as_deref().unwrap_or_default().contains('/'));
    let mut resources: Vec<RemoteResource> = top_level.into_iter().map(legacy_resource).collect();
    // The last resource with a name takes precedence.
    let mut positions: HashMap<Text, usize> =
        resources.iter().enumerate().map(|(at, resource)| (resource.plural.clone(), at)).collect();
    for entry in subresources_of {
        let Some((parent, name)) = entry.name.as_deref().and_then(|name| name.split_once('/')) else { continue };
        let scope = scope(entry.namespaced.unwrap_or_default());
        let position = *positions.entry(Text::from(parent)).or_insert_with(|| {
            resources.push(without_own_entry(parent, scope));
            resources.len() - 1
        });
        let parent_scope = &resources[position].scope;
        if parent_scope != scope {
            return Err(format!(
                "Error: Parent {parent} (scope: {parent_scope}) and subresource {name} (scope: {scope}) scope do not match"
            ));
        }
        let name = name.into();
        let kind = match entry.kind.as_deref() {
            None | Some("") => GroupVersionKind::new("", "", ""),
            Some(_) => Kind { group: entry.group, version: entry.version, kind: entry.kind }.into(),
        };
        let verbs = entry.verbs.map(texts);
        resources[position].subresources.push(RemoteSubresource { name, kind, accepted: Vec::new(), verbs });
    }
    Ok(resources)
}

fn legacy_resource(entry: LegacyResource) -> RemoteResource {
    RemoteResource {
        plural: text(entry.name),
        singular: text(entry.singular_name),
        kind: Kind { group: entry.group, version: entry.version, kind: entry.kind }.into(),
        scope: scope(entry.namespaced.unwrap_or_default()).into(),
        verbs: entry.verbs.map(texts),
        short_names: entry.short_names.map(texts).unwrap_or_default(),
        categories: entry.categories.map(texts).unwrap_or_default(),
        subresources: Vec::new(),
        storage_version_hash: Text::default(),
    }
}

/// Returns a resource that serves only subresources.
fn without_own_entry(plural: &str, scope: &str) -> RemoteResource {
    RemoteResource {
        plural: plural.into(),
        singular: Text::default(),
        kind: GroupVersionKind::new("", "", ""),
        scope: scope.into(),
        verbs: None,
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: Text::default(),
    }
}

/// Fails unless the document has the expected kind and an expected version. An absent kind or version is accepted.
fn check_kind(body: &[u8], expected: &str, is_expected_version: impl Fn(&str) -> bool) -> Result<(), String> {
    let type_meta: TypeMeta = parse(body)?;
    let (kind, version) = (type_meta.kind.unwrap_or_default(), type_meta.api_version.unwrap_or_default());
    let is_kind = kind.is_empty() || kind == expected;
    if is_kind && (version.is_empty() || is_expected_version(&version)) {
        return Ok(());
    }
    Err(format!("no kind {kind:?} is registered for version {version:?}"))
}

fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

impl From<Kind> for GroupVersionKind {
    fn from(kind: Kind) -> Self {
        Self { group: text(kind.group), version: text(kind.version), kind: text(kind.kind) }
    }
}

fn text(text: Option<String>) -> Text {
    text.unwrap_or_default().into()
}

fn texts<T: FromIterator<Text>>(texts: List<String>) -> T {
    texts.into_iter().map(Text::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_aggregated_media_types() {
        for (media_type, want) in [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io", true),
            ("Application/JSON;G=apidiscovery.k8s.io;V=v2;AS=APIGroupDiscoveryList;", true),
            ("application/json;g=\"apidiscovery.k8s.io\";v=v2;as=APIGroupDiscoveryList;charset=utf-8", true),
            ("application/json;g=APIDiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false),
            ("application/json;g=apidiscovery.k8s.io;v=v2;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json;g=apidiscovery.k8s.io;v=v3;v=v2;as=APIGroupDiscoveryList", false),
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;x", false),
            ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", false),
            ("application/json", false),
            ("application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false),
            ("", false),
        ] {
            assert_eq!(is_aggregated(media_type), want, "{media_type}");
        }
    }

    #[test]
    fn parses_aggregated_documents() {
        let groups = parse_aggregated(
            br#"{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2beta1",
            "items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "resources": [
              {"resource": "things", "responseKind": {"group": "g", "version": "v1", "kind": "Thing"}, "scope": "Namespaced",
               "verbs": ["get"], "subresources": [{"subresource": "scale", "responseKind": null, "verbs": []}]},
              {"resource": "odd", "scope": "Universe"}]},
            {"version": "v2", "freshness": "Stale"}]}]}"#,
        );
        let groups = groups.unwrap();
        let [first, second] = &groups[0].versions[..] else { panic!() };
        let [things, odd] = &first.resources[..] else { panic!() };
        assert_eq!((things.is_namespaced(), things.kind.kind.as_str()), (true, "Thing"));
        assert_eq!(things.subresources[0].kind, GroupVersionKind::new("", "", ""));
        assert_eq!(things.subresources[0].verbs.as_deref(), Some(&[][..]));
        assert_eq!((odd.is_namespaced(), odd.scope.as_str(), &odd.verbs), (false, "Universe", &None));
        assert!(second.resources.is_empty() && second.is_stale);
    }

    #[test]
    fn rejects_malformed_documents() {
        for (body, is_good) in [
            ("{}", true),
            (r#"{"items": null}"#, true),
            (r#"{"apiVersion": "apidiscovery.k8s.io/v2"}"#, true),
            (r#"{"kind": "APIGroupDiscoveryList"}"#, true),
            (r#"{"kind": "APIGroupList"}"#, false),
            (r#"{"kind": "APIGroupDiscovery", "apiVersion": "apidiscovery.k8s.io/v2"}"#, false),
            (r#"{"kind": "APIGroupDiscoveryList", "apiVersion": "v2"}"#, false),
            (r#"{"items": [{"versions": "v1"}]}"#, false),
            (r#"{"items": [{"versions": [{"resources": [{"verbs": "get"}]}]}]}"#, false),
            ("[1]", false),
            ("{", false),
        ] {
            assert_eq!(parse_aggregated(body.as_bytes()).is_ok(), is_good, "{body}");
        }
        for (body, is_good) in [
            (r#"{"kind": "APIResourceList", "apiVersion": "v1"}"#, true),
            (r#"{"kind": "APIResourceList", "apiVersion": "g/v1", "resources": []}"#, true),
            (r#"{"kind": "Status", "apiVersion": "v1"}"#, false),
            (r#"{"resources": [{"name": "a"}, {"name": "a/b", "namespaced": true}]}"#, false),
            (r#"{"resources": [{"name": 1}]}"#, false),
        ] {
            assert_eq!(parse_legacy(body.as_bytes()).is_ok(), is_good, "{body}");
        }
    }

    /// Documents that are many times larger in memory than as text, and real ones with a large margin.
    #[test]
    fn bounds_memory_of_documents() {
        let refused = "the request needs more memory than the server uses for one request";
        let many = |element: &str, number: usize| vec![element; number].join(",");
        for body in [
            format!("{{\"items\":[{}]}}", many("{}", 1_000_000)),
            format!("{{\"items\":[{{\"versions\":[{{\"resources\":[{}]}}]}}]}}", many("{}", 500_000)),
            format!(
                "{{\"items\":[{{\"versions\":[{{\"resources\":[{{\"verbs\":[{}]}}]}}]}}]}}",
                many("\"\"", 1_000_000)
            ),
        ] {
            let error = parse_aggregated(body.as_bytes()).expect_err("too large");
            assert!(error.starts_with(refused), "{error}");
        }
        let body = format!("{{\"resources\":[{}]}}", many("{\"name\":\"a/b\"}", 500_000));
        let error = parse_legacy(body.as_bytes()).expect_err("too large");
        assert!(error.starts_with(refused), "{error}");
        let verbs = "[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]";
        let resource = format!(
            "{{\"resource\":\"things\",\"responseKind\":{{\"group\":\"g\",\"kind\":\"Thing\",\"version\":\"v1\"}},\
             \"scope\":\"Namespaced\",\"shortNames\":[\"th\"],\"categories\":[\"all\"],\"verbs\":{verbs},\
             \"subresources\":[{{\"subresource\":\"status\",\"verbs\":[\"get\"]}},{{\"subresource\":\"scale\"}}]}}"
        );
        let body = format!("{{\"items\":[{{\"versions\":[{{\"resources\":[{}]}}]}}]}}", many(&resource, 5_000));
        assert_eq!(parse_aggregated(body.as_bytes()).expect("not too large")[0].versions[0].resources.len(), 5_000);
    }

    /// Looking up each parent by scanning the list would take quadratic time.
    #[test]
    fn parses_many_subresources_in_linear_time() {
        let entries: Vec<String> = (0..10_000).map(|n| format!("{{\"name\":\"r{n}/status\"}}")).collect();
        let body = format!("{{\"resources\":[{}]}}", entries.join(","));
        assert_eq!(parse_legacy(body.as_bytes()).expect("valid").len(), 10_000);
    }

    #[test]
    fn parses_legacy_documents() {
        let resources = parse_legacy(br#"{"resources": [
            {"name": "things/scale", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"], "shortNames": ["th"]},
            {"name": "hidden/status"}
        ]}"#).unwrap();
        let [things, hidden] = &resources[..] else { panic!() };
        assert_eq!(things.kind, GroupVersionKind::new("", "", "Thing"));
        assert_eq!(things.subresources[0].kind.group, "autoscaling");
        assert_eq!(things.short_names, ["th"]);
        assert_eq!((hidden.scope.as_str(), &hidden.verbs, &hidden.subresources[0].verbs), ("Cluster", &None, &None));
    }
}
