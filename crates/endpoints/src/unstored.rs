//! Objects of resources that are not stored: what clients may ask for, and the answers.

use std::time::SystemTime;

use binnacle_features::Features;
use binnacle_meta::Status;
use binnacle_registry::ListOptions;
use binnacle_request::{Request, Response};
use binnacle_schema::{Message, Object, Value, canonical};
use binnacle_scheme::{Columns, ResourceDescription};

use crate::negotiate::{MetaVersion, Output, Transform};
use crate::table::{Include, table};
use crate::{params, respond};

/// The options of a list, refused as the reference does.
pub fn list_options(
    request: &Request,
    resource: &ResourceDescription,
    features: &Features,
) -> Result<ListOptions, Status> {
    params::collection(&request.query, &request.info, resource, features, false).map(|params| params.list)
}

/// An object, or a list of such, in the negotiated form. `columns` are needed where the special has a table.
pub fn respond(
    output: Output,
    include: Include,
    code: u16,
    mut value: Value,
    message: &Message,
    columns: Option<&dyn Columns>,
) -> Result<Response, Status> {
    let transform = output.transform;
    let items = value.get("items").is_some().then(|| value.list_at(&["items"]).to_vec());
    let (value, message) = match transform {
        Transform::None => {
            canonical::canonicalize(&mut value, message);
            (value, Some(message))
        }
        Transform::Table(version) => {
            let rows = items.as_deref().unwrap_or(std::slice::from_ref(&value));
            let rows = rows.iter().map(|object| row(object, include, version, columns)).collect();
            let mut metadata = Object::new();
            let resource_version = value.str_at(&["metadata", "resourceVersion"]);
            if !resource_version.is_empty() {
                metadata.insert("resourceVersion", resource_version);
            }
            (table(version, metadata, columns, rows), transformed("Table"))
        }
        Transform::PartialMetadata(version) => match items {
            None => (partial(&value, version), transformed("PartialObjectMetadata")),
            Some(_) => return Err(refuse("PartialObjectMetadata", "a list", message)),
        },
        Transform::PartialMetadataList(version) => match items {
            Some(items) => (partial_list(&value, &items, version), transformed("PartialObjectMetadataList")),
            None => return Err(refuse("PartialObjectMetadataList", "not a list", message)),
        },
    };
    let body = respond::encode(&value, message, output.encoding, output.pretty);
    Ok(respond::bytes(code, output.encoding.media_type(), body))
}

/// Names the internal Go type as well: `*authorization.SubjectAccessReview` of `io.k8s.api.authorization.v1.S...`.
fn refuse(wanted: &str, is: &str, message: &Message) -> Status {
    let mut parts = message.name.rsplit('.');
    let (name, version, group) = (parts.next(), parts.next(), parts.next());
    let package = if group == Some("meta") { version } else { group };
    let (package, name) = (package.unwrap_or_default(), name.unwrap_or_default());
    Status::not_acceptable_text(&format!(
        "you requested {wanted}, but the requested object is {is} (*{package}.{name})"
    ))
}

fn transformed(kind: &str) -> Option<&'static Message> {
    binnacle_apimachinery::message(kind)
}

fn row(object: &Value, include: Include, version: MetaVersion, columns: Option<&dyn Columns>) -> Value {
    let mut row = Object::new();
    let cells = columns.map_or_else(Vec::new, |columns| columns.cells(object, SystemTime::now()));
    row.insert("cells", Value::List(cells));
    let shown = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object, version),
        Include::Object => object.clone(),
    };
    row.insert("object", shown);
    Value::Object(row)
}

fn partial(object: &Value, version: MetaVersion) -> Value {
    let mut partial = Object::with_capacity(3);
    partial.insert("kind", "PartialObjectMetadata");
    partial.insert("apiVersion", version.api_version());
    partial.insert("metadata", object.get("metadata").cloned().unwrap_or_else(|| Object::new().into()));
    Value::Object(partial)
}

fn partial_list(list: &Value, items: &[Value], version: MetaVersion) -> Value {
    let mut partials = Object::with_capacity(4);
    partials.insert("kind", "PartialObjectMetadataList");
    partials.insert("apiVersion", version.api_version());
    partials.insert("metadata", list.get("metadata").cloned().unwrap_or_else(|| Object::new().into()));
    partials.insert("items", Value::List(items.iter().map(|item| partial(item, version)).collect()));
    Value::Object(partials)
}
