//! Requests for objects that are not stored, and their responses.

use binnacle_features::Features;
use binnacle_meta::Status;
use binnacle_registry::ListOptions;
use binnacle_request::{Request, Response};
use binnacle_schema::{Message, Value, canonical};
use binnacle_scheme::{Columns, ResourceDescription};

use crate::negotiate::Output;
use crate::object_view::ObjectView;
use crate::table::Include;
use crate::{params, respond};

/// Returns the options of a list of objects that are not stored, with kube-apiserver's errors. Versions, limits and
/// continue tokens are not parsed, because only the storage reads them.
///
/// # Errors
///
/// Returns 400 or 422 for invalid parameters, and 405 for a watch.
pub fn list_options(
    request: &Request,
    resource: &ResourceDescription,
    features: &Features,
) -> Result<ListOptions, Status> {
    let (params, _) = params::collection_without_version(&request.query, &request.info, resource, features, false)?;
    match params.watch {
        true => Err(Status::method_not_supported(&resource.group_resource(), "watch")),
        false => Ok(params.list),
    }
}

/// Returns an object or a list in the negotiated output. `columns` are required if the handler has a table.
pub fn respond(
    output: Output,
    include: Include,
    code: u16,
    mut value: Value,
    message: &Message,
    columns: Option<&dyn Columns>,
) -> Result<Response, Status> {
    let (view, go_type) = (ObjectView::without_resource(columns), || go_type(message));
    let transformed = match value.get("items") {
        Some(_) => view.list(output.transform, include, &value, go_type)?,
        None => view.object(output.transform, include, &value, go_type)?,
    };
    let (value, message) = match transformed {
        Some(transformed) => (transformed, output.transform.message()),
        None => {
            canonical::canonicalize(&mut value, message);
            (value, Some(message))
        }
    };
    let body = respond::encode(&value, message, output.encoding, output.pretty);
    Ok(respond::bytes(code, output.encoding.media_type(), body))
}

/// Returns the internal Go type of a message: `*authorization.SubjectAccessReview` for
/// `io.k8s.api.authorization.v1.S...`.
fn go_type(message: &Message) -> String {
    let mut parts = message.name.rsplit('.');
    let (name, version, group) = (parts.next(), parts.next(), parts.next());
    let package = if group == Some("meta") { version } else { group };
    format!("*{}.{}", package.unwrap_or_default(), name.unwrap_or_default())
}
