//! The networks of destinations.

/// The network of a connection's destination, as in the egress selector configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    ControlPlane,
    Etcd,
    Cluster,
}

impl Network {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name.to_lowercase().as_str() {
            "controlplane" => Some(Self::ControlPlane),
            "etcd" => Some(Self::Etcd),
            "cluster" => Some(Self::Cluster),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Etcd => "etcd",
            Self::Cluster => "cluster",
        }
    }
}
