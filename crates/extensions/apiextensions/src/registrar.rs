//! The seam to whoever registers the group versions that definitions serve.

use binnacle_meta::Text;

/// Registers the group versions of custom resources elsewhere. kube-apiserver keeps an APIService for each of them.
pub trait VersionRegistrar: Send + Sync + 'static {
    /// Registers a group version with its priorities: the group's and the version's.
    fn register(&self, group: &Text, version: &Text, priorities: (i32, i32));

    /// Removes a group version that no definition serves any more.
    fn unregister(&self, group: &str, version: &str);
}

/// Registers nothing.
#[cfg(test)]
pub(crate) struct NoRegistrar;

#[cfg(test)]
impl VersionRegistrar for NoRegistrar {
    fn register(&self, _: &Text, _: &Text, _: (i32, i32)) {}

    fn unregister(&self, _: &str, _: &str) {}
}
