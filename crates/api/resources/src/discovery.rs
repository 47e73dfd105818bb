//! `discovery.k8s.io`: the endpoints of services, in slices.

use binnacle_scheme::{GroupDescription, VersionDescription, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16200,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![namespaced!(NAME, "v1", "endpointslices", "endpointslice", "EndpointSlice").since(21)],
        }],
    }
}

const NAME: &str = "discovery.k8s.io";
