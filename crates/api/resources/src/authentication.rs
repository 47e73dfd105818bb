//! `authentication.k8s.io`: the identity of a token or a caller. Nothing here is stored.

use binnacle_scheme::Verbs;
use binnacle_scheme::{GroupDescription, VersionDescription, cluster, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17700,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                cluster!(NAME, "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview")
                    .without_storage(Verbs::CREATE)
                    .since(28),
                cluster!(NAME, "v1", "tokenreviews", "tokenreview", "TokenReview")
                    .without_storage(Verbs::CREATE)
                    .since(6),
            ],
        }],
    }
}

const NAME: &str = "authentication.k8s.io";
