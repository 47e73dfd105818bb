//! The CEL variables `request` and `namespaceObject`.

use binnacle_meta::{GroupVersionKind, GroupVersionResource, Text};
use binnacle_registry::admission::Attributes;
use binnacle_schema::{Object, Value};

/// Returns `request`: the AdmissionRequest of a webhook without the objects. `kind` and `resource` are those that the
/// policy or webhook matched, which may be equivalent to the request's own.
pub fn request_object(attributes: &Attributes, kind: &GroupVersionKind, resource: &GroupVersionResource) -> Value {
    let mut request = Object::with_capacity(14);
    let unless_empty = |request: &mut Object, name: &'static str, text: &Text| {
        if !text.is_empty() {
            request.insert(Text::new_static(name), text.clone());
        }
    };
    request.insert("uid", "");
    request.insert("kind", kind_object(kind));
    request.insert("resource", resource_object(resource));
    unless_empty(&mut request, "subResource", &attributes.subresource);
    request.insert("requestKind", kind_object(&attributes.kind));
    request.insert("requestResource", resource_object(&attributes.resource));
    unless_empty(&mut request, "requestSubResource", &attributes.subresource);
    unless_empty(&mut request, "name", &attributes.name);
    unless_empty(&mut request, "namespace", &attributes.namespace);
    request.insert("operation", attributes.operation.as_str());
    request.insert("userInfo", user_object(attributes));
    request.insert("object", Value::Null);
    request.insert("oldObject", Value::Null);
    request.insert("dryRun", attributes.dry_run);
    request.insert("options", attributes.options.to_value());
    Value::Object(request)
}

/// Returns `namespaceObject`: the fields of a namespace that are available to expressions.
pub fn namespace_object(namespace: &Value) -> Value {
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let mut object = Object::new();
    for member in ["metadata", "spec", "status"] {
        let Some(value) = namespace.get(member) else { continue };
        let value = match value {
            Value::Object(metadata) if member == "metadata" => {
                let shown = metadata.iter().filter(|(name, _)| METADATA.contains(&name.as_str()));
                Value::Object(shown.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            value => value.clone(),
        };
        object.insert(member, value);
    }
    Value::Object(object)
}

fn user_object(attributes: &Attributes) -> Value {
    let user = &attributes.user;
    let mut object = Object::new();
    for (name, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            object.insert(name, text.clone());
        }
    }
    if !user.groups.is_empty() {
        object.insert("groups", texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra: Object = user.extra.iter().map(|(name, values)| (name.clone(), texts(values))).collect();
        object.insert("extra", Value::Object(extra));
    }
    Value::Object(object)
}

fn texts(texts: &[Text]) -> Value {
    Value::List(texts.iter().cloned().map(Value::Str).collect())
}

fn kind_object(kind: &GroupVersionKind) -> Value {
    named([("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)])
}

fn resource_object(resource: &GroupVersionResource) -> Value {
    named([("group", &resource.group), ("version", &resource.version), ("resource", &resource.resource)])
}

fn named(members: [(&'static str, &Text); 3]) -> Value {
    let members = members.map(|(name, text)| (Text::new_static(name), Value::Str(text.clone())));
    Value::Object(Object::from_distinct(members.into()))
}
