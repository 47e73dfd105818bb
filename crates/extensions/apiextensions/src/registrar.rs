//! The interface for registering the group versions that definitions serve.

use binnacle_meta::Text;

/// Registers the group versions of custom resources. kube-apiserver maintains an APIService for each of them.
pub trait VersionRegistrar: Send + Sync + 'static {
    /// Registers a group version with the priorities of group and version.
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
