//! `resource.k8s.io`: devices, and pods' claims to them.

use binnacle_fields::resource::v1::{ResourceSlice, ResourceSliceSpec};
use binnacle_scheme::fields::{FieldLabels, NAME as METADATA_NAME, SelectableField, UnknownLabel, text};
use binnacle_scheme::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, cluster, namespaced, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16200,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 21,
                served_by_default: true,
                resources: shared![
                    device_classes("v1").since(34),
                    resource_claims("v1").since(34),
                    resource_claim_templates("v1").since(34),
                    resource_slices("v1", "resource.k8s.io/v1, Kind=ResourceSlice").since(34),
                ],
            },
            VersionDescription {
                version: "v1beta2",
                priority: 15,
                served_by_default: false,
                resources: shared![
                    device_classes("v1beta2").since(33).deprecated(36).removed(39),
                    device_taint_rules("v1beta2").since(36).deprecated(39).removed(42),
                    resource_claims("v1beta2").since(33).deprecated(36).removed(39),
                    resource_claim_templates("v1beta2").since(33).deprecated(36).removed(39),
                    resource_slices("v1beta2", "resource.k8s.io/v1beta2, Kind=ResourceSlice")
                        .since(33)
                        .deprecated(36)
                        .removed(39),
                ],
            },
            VersionDescription {
                version: "v1beta1",
                priority: 9,
                served_by_default: false,
                resources: shared![
                    device_classes("v1beta1").since(32).deprecated(35).removed(38),
                    resource_claims("v1beta1").since(32).deprecated(35).removed(38),
                    resource_claim_templates("v1beta1").since(32).deprecated(35).removed(38),
                    resource_slices("v1beta1", "resource.k8s.io/v1beta1, Kind=ResourceSlice")
                        .since(32)
                        .deprecated(35)
                        .removed(38),
                ],
            },
            VersionDescription {
                version: "v1alpha3",
                priority: 1,
                served_by_default: false,
                resources: shared![
                    device_taint_rules("v1alpha3").since(33).deprecated(36).removed(39),
                    cluster!(
                        NAME,
                        "v1alpha3",
                        "resourcepoolstatusrequests",
                        "resourcepoolstatusrequest",
                        "ResourcePoolStatusRequest"
                    )
                    .returns_deleted_object()
                    .only_conditional_update()
                    .resets(&["status"])
                    .subresources(status())
                    .since(36)
                    .deprecated(39)
                    .removed(42),
                ],
            },
        ],
    }
}

const NAME: &str = "resource.k8s.io";

fn status() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::status(&["metadata", "spec"]).without_table()]
}

fn device_classes(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "deviceclasses", "deviceclass", "DeviceClass").stored_in("v1").returns_deleted_object()
}

fn device_taint_rules(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "devicetaintrules", "devicetaintrule", "DeviceTaintRule")
        .stored_in("v1alpha3")
        .returns_deleted_object()
        .resets(&["status"])
        .subresources(status())
}

fn resource_claims(version: &'static str) -> ResourceDescription {
    namespaced!(NAME, version, "resourceclaims", "resourceclaim", "ResourceClaim")
        .stored_in("v1")
        .returns_deleted_object()
        .resets(&["status"])
        .subresources(status())
}

fn resource_claim_templates(version: &'static str) -> ResourceDescription {
    namespaced!(NAME, version, "resourceclaimtemplates", "resourceclaimtemplate", "ResourceClaimTemplate")
        .stored_in("v1")
        .returns_deleted_object()
}

fn resource_slices(version: &'static str, shown_kind: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "resourceslices", "resourceslice", "ResourceSlice")
        .stored_in("v1")
        .returns_deleted_object()
        .selectable(SLICE_FIELDS, FieldLabels::new(SLICE_LABELS, UnknownLabel::NotSupportedFor(shown_kind)))
}

const SLICE_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    text("spec.nodeName", path![ResourceSlice::SPEC, ResourceSliceSpec::NODE_NAME]),
    text("spec.driver", path![ResourceSlice::SPEC, ResourceSliceSpec::DRIVER]),
];

const SLICE_LABELS: &[(&str, &str)] =
    &[("metadata.name", "metadata.name"), ("spec.nodeName", "spec.nodeName"), ("spec.driver", "spec.driver")];
