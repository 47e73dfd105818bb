//! The documents of version 3, and their paths.

use std::sync::Arc;

use binnacle_meta::{Encodings, Text};
use binnacle_scheme::{Kinds, ResourceDescription, Resources, ServedResources, ServedVersion};

use crate::custom_resources;
use crate::names::id_and_tag;
use crate::operation::{Content, Method, Operation, Path, Response};
use crate::routes::{self, OBJECTS};

/// A document of version 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DocumentName {
    OpenIdConfiguration,
    KeySet,
    /// `/version`.
    Version,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    Group(Text),
    GroupVersion(Text, Text),
    /// A group version of custom resources.
    Custom(Text, Text),
}

/// Returns all documents, with their names in the index.
pub(crate) fn all(served: &ServedResources) -> Vec<(String, DocumentName)> {
    let mut all: Vec<(String, DocumentName)> = [
        DocumentName::OpenIdConfiguration,
        DocumentName::KeySet,
        DocumentName::Version,
        DocumentName::Core,
        DocumentName::Groups,
    ]
    .map(|document| (document.name(), document))
    .into();
    for group in served.groups() {
        let built_in = group.versions.iter().filter(|version| matches!(version.resources, Resources::BuiltIn(_)));
        let versions: Vec<_> =
            built_in.map(|version| DocumentName::GroupVersion(group.name.clone(), version.version.clone())).collect();
        let group_document =
            (!versions.is_empty() && !group.name.is_empty()).then(|| DocumentName::Group(group.name.clone()));
        let custom = group
            .versions
            .iter()
            .filter(|version| matches!(&version.resources, Resources::Custom(resources) if !resources.is_empty()));
        let custom = custom.map(|version| DocumentName::Custom(group.name.clone(), version.version.clone()));
        all.extend(
            group_document.into_iter().chain(versions).chain(custom).map(|document| (document.name(), document)),
        );
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

impl DocumentName {
    /// Returns the name in the index, which is also the path of the resources.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::OpenIdConfiguration => ".well-known/openid-configuration".to_owned(),
            Self::KeySet => "openid/v1/jwks".to_owned(),
            Self::Version => "version".to_owned(),
            Self::Core => "api".to_owned(),
            Self::Groups => "apis".to_owned(),
            Self::Group(group) => format!("apis/{group}"),
            Self::GroupVersion(group, version) | Self::Custom(group, version) => {
                routes::root(group, version)[1..].to_owned()
            }
        }
    }

    /// Returns the group and version of a document of built-in resources.
    pub(crate) fn scope(&self) -> Option<(&str, &str)> {
        match self {
            Self::GroupVersion(group, version) => Some((group, version)),
            _ => None,
        }
    }

    /// Returns the resources of the document.
    pub(crate) fn resources<'a>(&self, served: &'a ServedResources) -> &'a [Arc<ResourceDescription>] {
        match self {
            Self::GroupVersion(group, version) | Self::Custom(group, version) => {
                served.version(group, version).map(resources).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Returns the paths of the document, in order.
    pub(crate) fn paths(&self, served: &ServedResources, kinds: &dyn Kinds, encodings: Encodings) -> Vec<Path> {
        if let Self::Custom(..) = self {
            return custom_resources::paths(kinds, self.resources(served));
        }
        let path = format!("/{}/", self.name());
        let (subject, description, content) = match self {
            Self::OpenIdConfiguration => (
                "ServiceAccountIssuerOpenIDConfiguration",
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                Content::String,
            ),
            Self::KeySet => (
                "ServiceAccountIssuerOpenIDKeyset",
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                Content::String,
            ),
            Self::Version => (
                "CodeVersion",
                "get the version information for this server",
                definition("io.k8s.apimachinery.pkg.version.Info"),
            ),
            Self::Core => ("APIVersions", "get available API versions", meta("APIVersions")),
            Self::Groups => ("APIVersions", "get available API versions", meta("APIGroupList")),
            Self::Group(_) => ("APIGroup", "get information of a group", meta("APIGroup")),
            Self::GroupVersion(..) | Self::Custom(..) => {
                ("APIResources", "get available resources", meta("APIResourceList"))
            }
        };
        let (consumes, produces) = match self {
            Self::OpenIdConfiguration => (NOTHING, JSON),
            Self::KeySet => (NOTHING, KEY_SET),
            Self::Version => (JSON, JSON),
            _ => (OBJECTS, OBJECTS),
        };
        let (id, tag) = id_and_tag("get", subject, &path);
        let get = Operation {
            method: Method::Get,
            description: description.to_owned(),
            id,
            tag,
            parameters: Vec::new(),
            body: None,
            consumes,
            produces,
            responses: vec![Response::ok(content)],
            target: None,
        };
        let mut paths = vec![Path::new(path, vec![get])];
        if let Self::GroupVersion(group, version) = self {
            paths.extend(routes::paths(kinds, group, version, self.resources(served)));
            if encodings.has_cbor() {
                routes::add_cbor(&mut paths);
            }
        }
        paths
    }
}

/// Returns the resources that this server itself serves.
pub(crate) fn resources(version: &ServedVersion) -> &[Arc<ResourceDescription>] {
    version.resources.own()
}

fn definition(name: &'static str) -> Content {
    Content::Definition(Text::new_static(name))
}

fn meta(kind: &str) -> Content {
    Content::Definition(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}").into())
}

const NOTHING: &[&str] = &[];
const JSON: &[&str] = &["application/json"];
const KEY_SET: &[&str] = &["application/jwk-set+json"];
