//! Updates of the catalog for changed definitions. A change replaces only the resources of its definition; all others
//! stay the same values.

use std::collections::BTreeSet;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_registry::{Catalog, Resource, Snapshot};
use binnacle_scheme::{CUSTOM_RESOURCE_PRIORITIES, ResourceDescription, Resources, ServedVersion, Verb, Verbs};

use crate::registrar::VersionRegistrar;

/// The resources of one definition before and after a change.
#[derive(Clone, Copy, Default)]
pub(super) struct Change<'a> {
    pub(super) before: &'a [Arc<Resource>],
    pub(super) after: &'a [Arc<Resource>],
    /// True when no objects may be created any more.
    pub(super) terminating: bool,
}

/// The numbers of changed catalog entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeCounts {
    pub(super) inserted: usize,
    pub(super) removed: usize,
    pub(super) group_versions: usize,
}

/// Updates the catalog for a changed definition. Built-in group versions are not changed.
pub(super) fn publish(
    catalog: &Catalog,
    registrar: &dyn VersionRegistrar,
    group: &Text,
    change: &Change<'_>,
) -> ChangeCounts {
    publish_groups(catalog, registrar, [(group, change)])
}

/// As [`publish`], for the changed definitions of several groups, in one change of the catalog.
pub(super) fn publish_groups<'c>(
    catalog: &Catalog,
    registrar: &dyn VersionRegistrar,
    changes: impl IntoIterator<Item = (&'c Text, &'c Change<'c>)>,
) -> ChangeCounts {
    let version = |resource: &Arc<Resource>| resource.description.version.clone();
    catalog.change(|snapshot| {
        let mut counts = ChangeCounts::default();
        for (group, change) in changes {
            let versions: BTreeSet<Text> = change.before.iter().chain(change.after).map(version).collect();
            for version in &versions {
                publish_version(snapshot, registrar, (group, version), change, &mut counts);
            }
        }
        counts
    })
}

fn publish_version(
    snapshot: &mut Snapshot,
    registrar: &dyn VersionRegistrar,
    (group, version): (&Text, &Text),
    change: &Change<'_>,
    counts: &mut ChangeCounts,
) {
    let of_version = |resource: &&Arc<Resource>| resource.description.version == *version;
    let served = snapshot.served();
    let mut shown: Vec<Arc<ResourceDescription>> = match served.version(group, version).map(|served| &served.resources)
    {
        Some(Resources::BuiltIn(_)) => return,
        Some(Resources::Custom(known)) => known.to_vec(),
        Some(Resources::Remote(_)) | None => Vec::new(),
    };
    counts.group_versions += 1;
    for resource in change.before.iter().filter(of_version) {
        let plural = &resource.description.plural;
        counts.removed += usize::from(snapshot.remove(group, version, plural).is_some());
        if let Ok(at) = position(&shown, plural) {
            shown.remove(at);
        }
    }
    for resource in change.after.iter().filter(of_version) {
        let description = self::shown(resource, change.terminating);
        match position(&shown, &description.plural) {
            Ok(at) => shown[at] = description,
            Err(at) => shown.insert(at, description),
        }
        counts.inserted += 1;
    }
    if shown.is_empty() {
        snapshot.serve(|served| served.remove(group, version));
        registrar.unregister(group, version);
        return;
    }
    let (group_priority, version_priority) = CUSTOM_RESOURCE_PRIORITIES;
    let resources = Resources::Custom(shown.into());
    snapshot.serve(|served| {
        let version = version.clone();
        served.insert(
            group.clone(),
            ServedVersion { version, group_priority, version_priority, resources, stale: false },
        );
    });
    snapshot.insert(change.after.iter().filter(of_version).cloned());
    registrar.register(group, version, CUSTOM_RESOURCE_PRIORITIES);
}

/// Finds a plural name in discovery, where custom resources are sorted by it.
fn position(shown: &[Arc<ResourceDescription>], plural: &Text) -> Result<usize, usize> {
    shown.binary_search_by(|known| known.plural.cmp(plural))
}

/// Returns the description of a resource for discovery; that of a terminating resource lacks the verbs that are no
/// longer allowed.
fn shown(resource: &Resource, terminating: bool) -> Arc<ResourceDescription> {
    if !terminating {
        return resource.description.clone();
    }
    let unlisted = Verbs::of(&[Verb::Create, Verb::Patch, Verb::Update]);
    Arc::new(ResourceDescription { unlisted, ..ResourceDescription::clone(&resource.description) })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::time::{Duration, Instant};

    use crate::Definition;

    use super::super::testing::{custom_resources, definition};
    use super::*;
    use crate::registrar::NoRegistrar;

    /// Returns all resources of a catalog by their addresses in memory, with their descriptions in discovery.
    fn values(catalog: &Catalog) -> HashMap<Text, (*const Resource, *const ResourceDescription)> {
        let snapshot = catalog.snapshot();
        let shown = |resource: &Resource| {
            let d = &resource.description;
            snapshot.served().find(&d.group, &d.version, &d.plural).map_or(std::ptr::null(), Arc::as_ptr)
        };
        let value =
            |resource: &Arc<Resource>| (resource.description.plural.clone(), (Arc::as_ptr(resource), shown(resource)));
        snapshot.resources().map(value).collect()
    }

    fn serve_all(count: usize, fields: usize, check: impl Fn(&Catalog)) -> (Duration, Vec<Duration>) {
        let (catalog, custom) = custom_resources();
        let start = Instant::now();
        for n in 0..count {
            custom.serve(&definition(n, fields), false, &NoRegistrar);
        }
        let each = start.elapsed() / u32::try_from(count).unwrap_or(u32::MAX);
        let before = values(&catalog);
        assert_eq!(before.len(), count);
        let one_more: Definition = definition(count, fields);
        let mut swaps = Vec::new();
        for _ in 0..10 {
            let served = custom.serve(&one_more, false, &NoRegistrar);
            assert_eq!(served, ChangeCounts { inserted: 1, removed: 0, group_versions: 1 });
            let mut after = values(&catalog);
            assert_eq!(after.len(), count + 1);
            after.retain(|plural, _| before.contains_key(plural));
            assert_eq!(after, before, "the others are not made again");
            let resources = custom.resources_of(&one_more);
            let (change, removed) =
                (Change { after: &resources, ..Change::default() }, Change { before: &resources, ..Change::default() });
            let group = &one_more.group;
            let duration_of = |change: &Change<'_>| {
                let start = Instant::now();
                publish(&catalog, &NoRegistrar, group, change);
                start.elapsed()
            };
            swaps.extend([duration_of(&removed), duration_of(&change)]);
            let stopped = custom.stop(group, &one_more.name, &NoRegistrar);
            assert_eq!(stopped, ChangeCounts { inserted: 0, removed: 1, group_versions: 1 });
            assert_eq!(values(&catalog), before);
        }
        check(&catalog);
        for n in 0..count {
            let definition = definition(n, 0);
            custom.stop(&definition.group, &definition.name, &NoRegistrar);
        }
        assert_eq!(catalog.snapshot().resources().count(), 0);
        assert!(catalog.snapshot().served().group("a.test").is_none());
        (each, swaps)
    }

    #[test]
    fn change_replaces_only_its_resources() {
        serve_all(300, 3, |catalog| {
            let shown = catalog.snapshot().served().version("a.test", "v1").map(|version| {
                version.resources.own().iter().map(|resource| resource.plural.clone()).collect::<Vec<_>>()
            });
            assert!(shown.is_some_and(|shown| shown.is_sorted() && shown.len() == 300));
        });
    }

    /// Returns the resident bytes of this process.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
    }

    /// Takes a minute without optimization, and measures the memory of the whole process. Run it alone, with `cargo
    /// nextest run -p binnacle-apiextensions --run-ignored only ten_thousand`.
    #[test]
    #[ignore = "takes a minute, and measures the whole process"]
    fn frees_memory_of_ten_thousand_types() {
        serve_all(100, 150, |_| {});
        let before = resident();
        let most = Cell::new(0);
        let (each, mut swaps) = serve_all(10_000, 150, |_| most.set(resident()));
        swaps.sort_unstable();
        println!(
            "10,000 types of 150 fields: {each:?} to serve one, {:?} (median) and {:?} (most) to swap one in or out; \
             resident {} MiB before, {} MiB with them",
            swaps[swaps.len() / 2],
            swaps[swaps.len() - 1],
            before >> 20,
            most.get() >> 20
        );
        // The allocator returns pages some time after they are freed.
        let start = Instant::now();
        while resident() > before + before / 10 {
            assert!(start.elapsed() < Duration::from_secs(120), "{} MiB are left", resident() >> 20);
            drop(std::hint::black_box(vec![0u8; 1 << 16]));
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("resident {} MiB after {:?}", resident() >> 20, start.elapsed());
    }
}
