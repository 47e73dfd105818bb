//! `authentication.k8s.io`: who a token or a caller is. Nothing here is stored.

use crate::description::{GroupDescription, VersionDescription, cluster};
use crate::verbs::Verbs;

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17700,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[
            cluster!(NAME, "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview")
                .unstored(Verbs::CREATE)
                .since(28),
            cluster!(NAME, "v1", "tokenreviews", "tokenreview", "TokenReview").unstored(Verbs::CREATE).since(6),
        ],
    }],
};

const NAME: &str = "authentication.k8s.io";
