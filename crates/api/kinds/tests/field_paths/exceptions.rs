//! Exceptions: paths that are in no message, and the reasons.

/// kube-apiserver reports an error at a path other than that of the field.
const AS_IN_GO: &str = "the path that kube-apiserver reports";
/// A member of a configuration file, or of JSON in an annotation.
const NO_OBJECT: &str = "not in an object of a kind";
/// The entry of a map.
const KEY: &str = "not the name of a field";
/// Paths of narrowed messages leave the items of lists out.
const THROUGH_LISTS: &str = "leads through a list";

/// File, path, and the reason why it is not in the tables.
pub(crate) const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("admission/config.rs", "cacheSize", NO_OBJECT),
    ("admission/config.rs", "kubeConfigFile", NO_OBJECT),
    ("admission/config.rs", "configuration", NO_OBJECT),
    ("admission/config.rs", "plugins", NO_OBJECT),
    ("admission/config.rs", "podtolerationrestriction", NO_OBJECT),
    ("admission/plugins/image_policy/review.rs", "content-type", KEY),
    ("admission/plugins/image_policy/settings.rs", "imagePolicy.*", NO_OBJECT),
    ("admission/plugins/image_policy/settings.rs", "imagePolicy.defaultAllow", NO_OBJECT),
    ("admission/plugins/image_policy/settings.rs", "imagePolicy.kubeConfigFile", NO_OBJECT),
    ("admission/plugins/pod_security/settings.rs", "defaults", NO_OBJECT),
    ("admission/plugins/pod_security/settings.rs", "defaults.*", NO_OBJECT),
    ("admission/plugins/pod_security/settings.rs", "exemptions.*", NO_OBJECT),
    ("admission/plugins/pod_security/settings.rs", "exemptions.*[]", NO_OBJECT),
    ("admission/plugins/resource_quota/limited.rs", "limitedResources", NO_OBJECT),
    ("admission/plugins/resource_quota/limited.rs", "matchContains", NO_OBJECT),
    ("admission/plugins/resource_quota/limited.rs", "matchScopes", NO_OBJECT),
    ("admission-policies/type_check/openapi.rs", "components.schemas", NO_OBJECT),
    ("admission-policies/type_check/openapi.rs", "x-kubernetes-group-version-kind", NO_OBJECT),
    ("apiextensions/controller/conversion.rs", "metadata.annotation", AS_IN_GO),
    ("apiextensions/controller/partial_decoder.rs", "spec.versions.schema.openAPIV3Schema", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.name", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.served", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.storage", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.deprecated", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.deprecationWarning", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.subresources", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.additionalPrinterColumns", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.selectableFields", THROUGH_LISTS),
    ("apiextensions/definition.rs", "spec.versions.schema.openAPIV3Schema.properties.", THROUGH_LISTS),
    ("kinds/apps/daemon_set.rs", "templateGeneration", AS_IN_GO),
    ("kinds/apps/deployment.rs", "rollback.version", AS_IN_GO),
    ("kinds/apps/stateful_set.rs", "Spec", AS_IN_GO),
    ("kinds/conversion/autoscaling.rs", "targetValue", NO_OBJECT),
    ("kinds/core/node/validation.rs", "AvoidPods", AS_IN_GO),
    ("kinds/core/node/validation.rs", "PodController.Controller", AS_IN_GO),
    ("kinds/core/node/validation.rs", "nodeSwapStatus.capacity", AS_IN_GO),
    ("kinds/core/node/validation.rs", "podController", NO_OBJECT),
    ("kinds/core/node/validation.rs", "podSignature", NO_OBJECT),
    ("kinds/core/node/validation.rs", "preferAvoidPods", NO_OBJECT),
    ("kinds/core/persistent_volume/validation.rs", "persistentvolumesource", AS_IN_GO),
    ("kinds/core/persistent_volume/validation.rs", "storage", KEY),
    ("kinds/internal.rs", "SecurityContext", NO_OBJECT),
    ("kinds/pod_spec/validation/requirements.rs", "containers[][].limits", AS_IN_GO),
    ("kinds/pod_spec/validation/scheduling.rs", "{topologyKey, whenUnsatisfiable}", AS_IN_GO),
];
