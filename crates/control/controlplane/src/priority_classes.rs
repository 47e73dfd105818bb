//! The priority classes of pods that every cluster needs.

use binnacle_meta::Status;
use binnacle_registry::Catalog;
use binnacle_schema::value;

use binnacle_controllers::Objects;

/// Name, value, description.
const SYSTEM: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Creates missing priority classes.
pub(crate) async fn ensure(resources: &Catalog) -> Result<(), Status> {
    let classes = Objects::new(resources, "scheduling.k8s.io", "v1", "priorityclasses")?;
    let system = SYSTEM.iter().map(|(name, value, description)| {
        value!({"metadata": {"name": (*name)}, "value": (*value), "description": (*description)})
    });
    classes.create_missing(system.collect()).await
}
