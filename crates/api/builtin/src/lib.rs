//! The built-in kinds as resource types: the descriptions of `resources`, with the schemas and rules of `kinds` and the
//! columns of `columns`. Only programs and tests use this crate; the code that serves resources sees only the types.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use binnacle_features::Gates;
use binnacle_kinds::{BuiltInKinds, tables};
use binnacle_meta::Text;
use binnacle_registry::{Catalog, Installer, Resource};
use binnacle_resources::storage_version;
use binnacle_schema::MessageRef;
use binnacle_scheme::{
    Conversion, Kinds, Release, ResourceDescription, ResourceType, ServedResources, Shared, StoredType,
    VersionDescription, WriteVersion,
};

pub use binnacle_resources::{default_served, groups};

/// Returns all built-in kinds.
pub fn kinds() -> Shared<dyn Kinds> {
    Shared::Static(&BuiltInKinds)
}

/// The emulated release, and the oldest one whose servers must be able to read the written objects.
#[derive(Clone, Copy, Debug)]
pub struct Releases {
    pub emulated: Release,
    pub compatible: Release,
    /// True if discovery shows hashes of storage versions.
    pub storage_version_hashes: bool,
}

impl Default for Releases {
    /// Returns the releases for the default feature gates.
    fn default() -> Self {
        Self::of(&Gates::default())
    }
}

impl Releases {
    /// Returns the releases of a server with these gates.
    pub fn of(gates: &Gates) -> Self {
        let [emulated, compatible] = [gates.emulated(), gates.compatible()]
            .map(|version| Release { major: version.major, minor: version.minor });
        Self { emulated, compatible, storage_version_hashes: gates.enabled("StorageVersionHash") }
    }
}

/// Returns the built-in resources that are served, with the storage versions that servers of these releases announce.
pub fn served(
    releases: Releases,
    enabled: impl Fn(&VersionDescription, &ResourceDescription) -> bool,
) -> ServedResources {
    ServedResources::built_in(groups(), |version, description| {
        enabled(version, description).then(|| {
            let announced = binnacle_resources::announced(description, releases.emulated, releases.compatible);
            match releases.storage_version_hashes || announced.storage.is_none() {
                true => announced,
                false => Arc::new(ResourceDescription::clone(&announced).unannounced()),
            }
        })
    })
}

/// The built-in resources of a server, and of all clusters that it serves: their types do not depend on the store.
pub struct BuiltInTypes {
    served: ServedResources,
    types: Vec<ResourceType>,
}

impl BuiltInTypes {
    pub fn new(served: ServedResources, releases: Releases) -> Self {
        Self { types: types(&served, releases), served }
    }

    /// Returns the resources that are served, stored or not.
    pub fn served(&self) -> &ServedResources {
        &self.served
    }

    /// Adds the resources to a catalog, with `installer`'s store.
    pub fn install(&self, catalog: &Catalog, installer: &Installer) -> Vec<Arc<Resource>> {
        let resources = installer.install(&self.types);
        catalog.change(|snapshot| {
            snapshot.serve(|shown| *shown = self.served.clone());
            snapshot.insert(resources.iter().cloned());
        });
        resources
    }
}

/// Adds all served and stored resources to a catalog, with `installer`'s store.
pub fn install(
    catalog: &Catalog,
    installer: &Installer,
    served: ServedResources,
    releases: Releases,
) -> Vec<Arc<Resource>> {
    BuiltInTypes::new(served, releases).install(catalog, installer)
}

/// Returns the types of served and stored resources, in the order of discovery.
pub fn types(served: &ServedResources, releases: Releases) -> Vec<ResourceType> {
    let mut stored: HashMap<&str, Arc<StoredType>> = HashMap::new();
    let mut types = Vec::new();
    for description in binnacle_resources::all() {
        let served = served.find(&description.group, &description.version, &description.plural);
        let (Some(served), Some(storage)) = (served, &description.storage) else { continue };
        let of_version = kind_type(description, storage.key_prefix.as_str(), &mut stored, releases);
        types.extend(of_version.map(|kind| ResourceType { description: served.clone(), ..kind }));
    }
    types
}

/// Returns the type of a resource, served or not; `None` for resources that are not stored.
pub fn stored_type(description: &ResourceDescription, releases: Releases) -> Option<StoredType> {
    let storage = description.storage.clone()?;
    let message = tables::kind(&storage.group, &storage.version, &storage.kind)?;
    Some(StoredType {
        // All clusters of a server have the same built-in types.
        identity: Some(Text::default()),
        indexed: OnceLock::new(),
        plural: description.plural.clone(),
        namespaced: description.namespaced,
        selectable_fields: description.selectable_fields.clone(),
        message: MessageRef::Static(message),
        custom: None,
        strategy: Shared::Static(binnacle_kinds::strategy(&storage.group, &storage.kind)),
        columns: Shared::Static(binnacle_columns::table_for(&storage.group, &storage.kind)),
        written: written(description, releases),
        scale: None,
        kinds: kinds(),
        storage,
    })
}

/// Returns the type of objects that servers store under a kind without a resource: allocated addresses and ports.
pub fn stored_type_without_resource(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
) -> Option<StoredType> {
    stored_type(&ResourceDescription::from_static([group, version, "", "", kind, ""], true), Releases::default())
}

fn kind_type<'d>(
    description: &'d Arc<ResourceDescription>,
    prefix: &'d str,
    stored: &mut HashMap<&'d str, Arc<StoredType>>,
    releases: Releases,
) -> Option<ResourceType> {
    let d = &**description;
    let message = tables::kind(&d.group, &d.version, &d.kind)?;
    let stored = match stored.get(prefix) {
        Some(stored) => stored.clone(),
        None => {
            let built = Arc::new(stored_type(d, releases)?);
            stored.insert(prefix, built.clone());
            built
        }
    };
    let storage = &stored.storage;
    let is_storage_version = (&storage.group, &storage.version, &storage.kind) == (&d.group, &d.version, &d.kind);
    let conversion = if is_storage_version { None } else { conversion(&d.group, &d.version, &d.kind) };
    // A version without a conversion is not served, since it would be served wrongly.
    if !is_storage_version && conversion.is_none() {
        tracing::warn!(
            group = %d.group,
            version = %d.version,
            resource = %d.plural,
            "no conversion to the stored version: not served"
        );
        return None;
    }
    Some(ResourceType { description: description.clone(), message: MessageRef::Static(message), conversion, stored })
}

/// Returns the version in which objects are written; `None` if that is the one in which they are handled.
fn written(description: &ResourceDescription, releases: Releases) -> Option<WriteVersion> {
    let storage = description.storage.as_ref()?;
    let version = storage_version(description, releases.emulated, releases.compatible)?;
    if version == storage.version {
        return None;
    }
    let message = tables::kind(&storage.group, &version, &storage.kind);
    let (Some(message), Some(conversion)) = (message, conversion(&storage.group, &version, &storage.kind)) else {
        tracing::error!(
            group = %storage.group,
            %version,
            kind = %storage.kind,
            "no conversion to the written version"
        );
        return None;
    };
    let api_version = binnacle_meta::GroupVersion::new(storage.group.clone(), version.clone())
        .with_kind(storage.kind.clone())
        .api_version();
    Some(WriteVersion { version, api_version, message: MessageRef::Static(message), conversion })
}

fn conversion(group: &str, version: &str, kind: &str) -> Option<Conversion> {
    BuiltInKinds.conversion(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_resource_types() {
        let make = || types(&served(Releases::default(), |_, _| true), Releases::default());
        let (one, other) = (make(), make());
        assert!(one.len() > 50 && one.len() == other.len());
        for (one, other) in one.iter().zip(&other) {
            let (a, b) = (&*one.stored, &*other.stored);
            assert!(std::ptr::eq(&*one.message, &*other.message), "{}", a.plural);
            assert!(std::ptr::eq(&*a.message, &*b.message), "{}", a.plural);
            for (shared, again) in [
                (std::ptr::from_ref(&*a.strategy).cast::<()>(), std::ptr::from_ref(&*b.strategy).cast::<()>()),
                (std::ptr::from_ref(&*a.columns).cast::<()>(), std::ptr::from_ref(&*b.columns).cast::<()>()),
            ] {
                assert_eq!(shared, again, "{}", a.plural);
            }
        }
    }
}
