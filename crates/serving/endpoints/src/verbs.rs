//! Handlers of the verbs, one file each: they parse a request, call the registry and build the response.

pub(crate) mod create;
mod create_gate;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod patcher;
pub(crate) mod scale;
mod scale_admission;
mod scale_columns;
mod scale_object;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::Arc;
use std::time::Duration;

use binnacle_authz::Authorizer;
use binnacle_meta::{Status, Text};
use binnacle_registry::admission::WriteOptions;
use binnacle_registry::{Context, RequestNotes, Resource, Warnings};
use binnacle_request::{Request, Response};
use binnacle_schema::Value;

use self::delete::UnsafeDeleteAuthorizer;
use crate::negotiate::{self, Encoding, Encodings, OfferedOutputs, Output, Transform};
use crate::params::WriteParams;
use crate::table::Include;

/// A request for an object or collection of one resource, with the data that all verbs need.
pub(crate) struct Call {
    pub request: Request,
    pub resource: Arc<Resource>,
    /// Empty for the resource itself.
    pub subresource: Text,
    pub warnings: Warnings,
    /// The minimum duration of a watch without a timeout.
    pub watch_timeout: Duration,
    pub authorizer: Arc<dyn Authorizer>,
    pub unsafe_deletes: Option<Arc<dyn UnsafeDeleteAuthorizer>>,
    /// The encodings of bodies and responses.
    pub encodings: Encodings,
}

pub type HandlerResult = Result<Response, Status>;

impl Call {
    /// Returns the registry's context for the request.
    pub(crate) fn context(&self, options: WriteOptions) -> Context {
        let info = &self.request.info;
        Context::new((*self.request.user).clone(), info.namespace.clone(), options.dry_run)
            .with_options(options, self.request.deadline)
            .with_name(info.name.clone())
            .with_verb(&info.verb)
            .with_notes(RequestNotes::new(self.warnings.clone(), self.request.record.clone()))
    }

    /// Returns the context of a read.
    pub(crate) fn read_context(&self) -> Context {
        self.context(WriteOptions::default())
    }

    pub(crate) fn name(&self) -> &str {
        &self.request.info.name
    }

    pub(crate) fn output(&self, is_watch: bool) -> Result<Output, Status> {
        let table = self.resource.description.subresource(&self.subresource).is_none_or(|found| found.has_table);
        let protobuf = self.resource.collection.kind.custom.is_none();
        negotiate::output(&self.request, is_watch, OfferedOutputs { table, protobuf, encodings: self.encodings })
    }

    /// Returns the encoding of the body.
    pub(crate) fn input(&self) -> Result<Encoding, Status> {
        negotiate::input(self.request.header("content-type"), self.encodings)
    }

    /// Returns the part of objects that rows include; it is parsed for tables only.
    pub(crate) fn include(&self, output: Output) -> Result<Include, Status> {
        match output.transform {
            Transform::Table(_) => Include::of(&self.request.query),
            _ => Ok(Include::default()),
        }
    }

    pub(crate) fn manager(&self, params: &WriteParams) -> Text {
        manager(&self.request, params)
    }
}

/// Returns the field manager of a write: that of the request, or the prefix of its user agent.
pub fn manager(request: &Request, params: &WriteParams) -> Text {
    if !params.field_manager.is_empty() {
        return params.field_manager.as_str().into();
    }
    let agent = request.header("user-agent").unwrap_or("");
    let prefix = agent.split('/').next().unwrap_or("");
    // Control characters are dropped, and managers are limited to 128 bytes.
    let mut manager: String = prefix.chars().filter(|c| !c.is_control()).collect();
    while manager.len() > 128 {
        manager.pop();
    }
    if manager.is_empty() { "unknown".into() } else { manager.into() }
}

/// Checks that the object of a PUT or PATCH matches the name in the URL.
pub(crate) fn check_name(object: &Value, name: &str, resource: &Resource, context: &Context) -> Result<(), Status> {
    let given = object.str_at(&["metadata", "namespace"]);
    if resource.description.namespaced && !given.is_empty() && given != context.namespace {
        return Err(Status::bad_request(binnacle_registry::NAMESPACE_MISMATCH));
    }
    let given = object.str_at(&["metadata", "name"]);
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// The warning about duplicate owner references.
pub const DUPLICATE_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ";
