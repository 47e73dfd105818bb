//! `authorization.k8s.io`: what a user may do. Nothing here is stored.

use crate::description::{GroupDescription, VersionDescription, cluster, namespaced};
use crate::verbs::Verbs;

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17600,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[
            namespaced!(
                NAME,
                "v1",
                "localsubjectaccessreviews",
                "localsubjectaccessreview",
                "LocalSubjectAccessReview"
            )
            .unstored(Verbs::CREATE)
            .since(19),
            cluster!(NAME, "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview")
                .unstored(Verbs::CREATE)
                .since(19),
            cluster!(NAME, "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview")
                .unstored(Verbs::CREATE)
                .since(19),
            cluster!(NAME, "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview")
                .unstored(Verbs::CREATE)
                .since(6),
        ],
    }],
};

const NAME: &str = "authorization.k8s.io";
