//! Query parameters: the fields of the options kinds, and a few others.

use std::borrow::Cow;

use binnacle_meta::Text;
use binnacle_schema::{Field, Ty};
use binnacle_scheme::Kinds;

use crate::descriptions;
use crate::operation::{Parameter, ParameterLocation};

/// Returns the parameters of an options kind: its scalar fields, except those in `except`.
pub(crate) fn of_options(kinds: &dyn Kinds, group: &str, version: &str, kind: &str, except: &[&str]) -> Vec<Parameter> {
    let Some(message) = kinds.kind(group, version, kind) else { return Vec::new() };
    let of_field = |field: &Field| {
        Some(Parameter {
            name: field.name.clone(),
            location: ParameterLocation::Query,
            ty: json_type(&field.ty)?,
            description: descriptions::field(&message.name, &field.name).unwrap_or_default().into(),
            shared_name: descriptions::shared_name(kind, &field.name),
        })
    };
    message
        .fields
        .iter()
        .filter(|field| !matches!(field.name.as_str(), "kind" | "apiVersion") && !except.contains(&field.name.as_str()))
        .filter_map(of_field)
        .collect()
}

pub(crate) fn pretty() -> Parameter {
    let description = "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent \
                       indicates a browser or command-line HTTP tool (curl and wget).";
    Parameter {
        name: Text::new_static("pretty"),
        location: ParameterLocation::Query,
        ty: "string",
        description: description.into(),
        shared_name: None,
    }
}

pub(crate) fn namespace() -> Parameter {
    in_path("namespace", "object name and auth scope, such as for teams and projects".into())
}

pub(crate) fn name(kind: &str) -> Parameter {
    in_path("name", format!("name of the {kind}").into())
}

pub(crate) fn path() -> Parameter {
    in_path("path", "path to the resource".into())
}

fn in_path(name: &'static str, description: Cow<'static, str>) -> Parameter {
    Parameter {
        name: Text::new_static(name),
        location: ParameterLocation::Path,
        ty: "string",
        description,
        shared_name: None,
    }
}

/// Returns the JSON type of a parameter. A list is a repeated parameter of its element type; structs and times are not
/// parameters.
fn json_type(ty: &Ty) -> Option<&'static str> {
    if let Some(element) = ty.element() {
        return json_type(element);
    }
    match ty {
        Ty::String => Some("string"),
        Ty::Bool => Some("boolean"),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 => Some("integer"),
        Ty::Double => Some("number"),
        _ => None,
    }
}
