//! Definitions that the model has as types of their own, not as messages.

use binnacle_tables::Ty;

/// The type of a definition with an encoding of its own; `None` for an ordinary structure.
pub(crate) fn special(definition: &str) -> Option<Ty> {
    let rest = definition.strip_prefix("io.k8s.")?;
    Some(match rest {
        "apimachinery.pkg.apis.meta.v1.Time" => Ty::Time,
        "apimachinery.pkg.apis.meta.v1.MicroTime" => Ty::MicroTime,
        "apimachinery.pkg.apis.meta.v1.Duration" => Ty::Duration,
        "apimachinery.pkg.apis.meta.v1.FieldsV1" => Ty::FieldsV1,
        "apimachinery.pkg.api.resource.Quantity" => Ty::Quantity,
        "apimachinery.pkg.util.intstr.IntOrString" => Ty::IntOrString,
        "apimachinery.pkg.runtime.RawExtension" => Ty::RawExtension,
        _ => {
            let in_apiextensions = rest.strip_prefix("apiextensions-apiserver.pkg.apis.apiextensions.")?;
            let (version, name) = in_apiextensions.split_once('.')?;
            let props = format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.JSONSchemaProps");
            match name {
                "JSON" => Ty::Json,
                "JSONSchemaPropsOrBool" => Ty::SchemaOrBool(props),
                "JSONSchemaPropsOrArray" => Ty::SchemaOrArray(props),
                "JSONSchemaPropsOrStringArray" => Ty::SchemaOrStrings(props),
                _ => return None,
            }
        }
    })
}

/// The definition behind a special type, as OpenAPI refers to it; a duration is plain text there.
pub(crate) fn definition_of(ty: &Ty) -> Option<String> {
    let beside = |props: &str, suffix: &str| format!("{props}{suffix}");
    Some(match ty {
        Ty::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time".into(),
        Ty::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime".into(),
        Ty::FieldsV1 => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1".into(),
        Ty::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".into(),
        Ty::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".into(),
        Ty::RawExtension => "io.k8s.apimachinery.pkg.runtime.RawExtension".into(),
        Ty::SchemaOrBool(props) => beside(props, "OrBool"),
        Ty::SchemaOrArray(props) => beside(props, "OrArray"),
        Ty::SchemaOrStrings(props) => beside(props, "OrStringArray"),
        Ty::Message(name) => name.clone(),
        _ => return None,
    })
}
