//! The domain of logical clusters (`--logical-cluster-domain`): each has the name `NAME.DOMAIN`.

/// A domain whose direct subdomains are clusters.
#[derive(Clone, Debug)]
pub(crate) struct Domain(String);

impl Domain {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_ascii_lowercase())
    }

    /// Returns the name of a cluster's host.
    pub(crate) fn host_of(&self, cluster: &str) -> String {
        format!("{cluster}.{}", self.0)
    }

    /// Returns the cluster with this host, which may have a port.
    pub(super) fn cluster_of(&self, host: &str) -> Option<String> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        let cluster = name.strip_suffix(self.0.as_str())?.strip_suffix('.')?;
        (!cluster.is_empty() && !cluster.contains('.')).then(|| cluster.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_direct_subdomains_are_clusters() {
        let domain = Domain::new("Clusters.example.com");
        for (host, want) in [
            ("team-a.clusters.example.com", Some("team-a")),
            ("Team-A.CLUSTERS.example.com:6443", Some("team-a")),
            ("clusters.example.com", None),
            (".clusters.example.com", None),
            ("a.b.clusters.example.com", None),
            ("aclusters.example.com", None),
            ("team-a.example.com", None),
            ("10.0.0.1:6443", None),
            ("[::1]:6443", None),
        ] {
            assert_eq!(domain.cluster_of(host).as_deref(), want, "{host}");
        }
        assert_eq!(domain.host_of("a"), "a.clusters.example.com");
    }
}
