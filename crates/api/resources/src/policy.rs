//! `policy`: limits on the number of pods that are disrupted at the same time.

use binnacle_scheme::{GroupDescription, SubresourceDescription, VersionDescription, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17100,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                namespaced!(NAME, "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget")
                    .short(&["pdb"])
                    .only_conditional_update()
                    .resets(&["status"])
                    .subresources(&[SubresourceDescription::status(&["spec"])])
                    .since(21)
            ],
        }],
    }
}

const NAME: &str = "policy";
