//! `authorization.k8s.io`: reviews of a user's rights. They are not stored.

use binnacle_scheme::Verbs;
use binnacle_scheme::{GroupDescription, VersionDescription, cluster, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17600,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                namespaced!(
                    NAME,
                    "v1",
                    "localsubjectaccessreviews",
                    "localsubjectaccessreview",
                    "LocalSubjectAccessReview"
                )
                .without_storage(Verbs::CREATE)
                .since(19),
                cluster!(NAME, "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview")
                    .without_storage(Verbs::CREATE)
                    .since(19),
                cluster!(NAME, "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview")
                    .without_storage(Verbs::CREATE)
                    .since(19),
                cluster!(NAME, "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview")
                    .without_storage(Verbs::CREATE)
                    .since(6),
            ],
        }],
    }
}

const NAME: &str = "authorization.k8s.io";
