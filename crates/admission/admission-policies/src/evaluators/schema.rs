//! The schema of the kind that a policy matched, and the decoding of changed objects.

use std::sync::Arc;

use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{GroupVersion, GroupVersionKind, go_quote};
use binnacle_registry::{Resource, Snapshot};
use binnacle_schema::{Message, Value, decode, defaults, json};

/// The name of kube-apiserver's scheme in errors.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

pub(crate) struct Schema<'s> {
    snapshot: &'s Snapshot,
    kind: &'s GroupVersionKind,
    pub(crate) message: &'s Message,
    /// `None` for kinds that are not stored.
    resource: Option<&'s Arc<Resource>>,
}

impl<'s> Schema<'s> {
    pub(crate) fn find(snapshot: &'s Snapshot, kind: &'s GroupVersionKind) -> Option<Self> {
        match snapshot.find_kind(&kind.group, &kind.version, &kind.kind) {
            Some(resource) => Some(Self { snapshot, kind, message: &resource.message, resource: Some(resource) }),
            None => {
                let message = snapshot.kinds().kind(&kind.group, &kind.version, &kind.kind)?;
                Some(Self { snapshot, kind, message, resource: None })
            }
        }
    }

    /// Decodes a changed object and sets its defaults; unknown fields are dropped.
    pub(crate) fn decode(&self, changed: Value) -> Result<Value, String> {
        self.complete(changed, false)
    }

    /// Like [`Schema::decode`], but unknown fields and another kind are errors, except in custom resources.
    pub(crate) fn decode_strictly(&self, changed: Value) -> Result<Value, String> {
        let changed = if self.is_custom() { changed } else { self.as_kind(changed)? };
        self.complete(changed, true)
    }

    fn is_custom(&self) -> bool {
        self.resource.is_some_and(|resource| resource.collection.kind.custom.is_some())
    }

    /// Checks that a changed object still has its kind, and sets the kind if it is missing.
    fn as_kind(&self, mut changed: Value) -> Result<Value, String> {
        let kind = self.kind;
        json::check_type_meta(&changed).map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
        let typed = FieldRef::<AnyKind>::root(&changed);
        let version = match typed.at(AnyKind::API_VERSION).str() {
            "" => kind.group_version(),
            api_version => GroupVersion::parse(api_version)
                .ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?,
        };
        let name = Some(typed.at(AnyKind::KIND).str()).filter(|name| !name.is_empty());
        let name = name.unwrap_or(&kind.kind).to_owned();
        if version == kind.group_version() && name == kind.kind {
            let mut typed = FieldMut::<AnyKind>::root(&mut changed);
            typed.set(AnyKind::KIND, kind.kind.clone());
            typed.set(AnyKind::API_VERSION, kind.api_version());
            return Ok(changed);
        }
        let Some(message) = self.snapshot.kinds().kind(&version.group, &version.version, &name) else {
            let (name, version) = (go_quote(&name), go_quote(&version.to_string()));
            return Err(format!("no kind {name} is registered for version {version} in scheme {}", go_quote(SCHEME)));
        };
        // It is decoded as its new kind, which cannot be converted to the original one.
        let decoded = decode::value(changed, message).map_err(|error| error.to_string())?;
        if let Some(error) = decoded.findings.strict_error() {
            return Err(error);
        }
        let package = kind.group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
        let (version, kind) = (&version.version, &kind.kind);
        Err(format!(
            "failed to convert object: converting ({version}.{name}) to ({package}.{kind}): unknown conversion"
        ))
    }

    fn complete(&self, changed: Value, strict: bool) -> Result<Value, String> {
        let mut object = changed;
        match self.resource {
            Some(resource) if self.is_custom() => resource.set_defaults(&mut object),
            resource => {
                let decoded = decode::value(object, self.message).map_err(|error| error.to_string())?;
                if let Some(error) = decoded.findings.strict_error().filter(|_| strict) {
                    return Err(error);
                }
                object = decoded.value;
                match resource {
                    Some(resource) => resource.set_defaults(&mut object),
                    None => defaults::apply_constants(&mut object, self.message),
                }
            }
        }
        Ok(object)
    }
}
