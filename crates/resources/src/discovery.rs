//! `discovery.k8s.io`: the addresses behind services, in slices.

use crate::description::{GroupDescription, VersionDescription, namespaced};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 16200,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[namespaced!(NAME, "v1", "endpointslices", "endpointslice", "EndpointSlice").since(21)],
    }],
};

const NAME: &str = "discovery.k8s.io";
