//! The namespaces that every cluster has.

use binnacle_meta::Status;
use binnacle_registry::Catalog;
use binnacle_schema::value;

use binnacle_controllers::Objects;

const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// Creates missing namespaces.
pub(crate) async fn ensure(resources: &Catalog) -> Result<(), Status> {
    let namespaces = Objects::new(resources, "", "v1", "namespaces")?;
    namespaces.create_missing(NAMES.iter().map(|name| value!({"metadata": {"name": (*name)}})).collect()).await
}
