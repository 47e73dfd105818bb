//! One file per verb: HTTP in, a call of the registry, HTTP out.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod patched;
pub(crate) mod scale;
mod scale_admission;
mod scale_columns;
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

use crate::api::UnsafeDeletes;
use crate::negotiate::{self, Encoding, Encodings, Forms, Output, Transform};
use crate::params::WriteParams;
use crate::table::Include;

/// A request for an object or collection of one resource, with what all verbs need.
pub(crate) struct Call {
    pub request: Request,
    pub resource: Arc<Resource>,
    /// Empty for the resource itself.
    pub subresource: Text,
    pub warnings: Warnings,
    /// How long a watch lasts at least that names no timeout.
    pub watch_timeout: Duration,
    pub authorizer: Arc<dyn Authorizer>,
    pub unsafe_deletes: Option<Arc<dyn UnsafeDeletes>>,
    /// What bodies and answers may be encoded in.
    pub encodings: Encodings,
}

pub type Answer = Result<Response, Status>;

impl Call {
    /// The registry's view of the request.
    pub(crate) fn context(&self, options: WriteOptions) -> Context {
        let info = &self.request.info;
        Context::new((*self.request.user).clone(), info.namespace.clone(), options.dry_run)
            .asked(options, self.request.deadline)
            .named(info.name.clone())
            .by_verb(&info.verb)
            .with_notes(RequestNotes::new(self.warnings.clone(), self.request.record.clone()))
    }

    /// The same for a request that writes nothing.
    pub(crate) fn read_context(&self) -> Context {
        self.context(WriteOptions::default())
    }

    pub(crate) fn name(&self) -> &str {
        &self.request.info.name
    }

    pub(crate) fn output(&self, watching: bool) -> Result<Output, Status> {
        // Of the others kube-apiserver makes no tables.
        let table = self.subresource.is_empty() || matches!(self.subresource.as_str(), "status" | "scale");
        let protobuf = self.resource.collection.kind.custom.is_none();
        negotiate::output(&self.request, watching, Forms { table, protobuf, encodings: self.encodings })
    }

    /// The encoding of the body.
    pub(crate) fn input(&self) -> Result<Encoding, Status> {
        negotiate::input(self.request.header("content-type"), self.encodings)
    }

    /// What rows carry of their objects; who gets no table is not asked.
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

/// Who is noted as the manager of the fields that a write sets: what it says, else the start of the user agent.
pub fn manager(request: &Request, params: &WriteParams) -> Text {
    if !params.field_manager.is_empty() {
        return params.field_manager.as_str().into();
    }
    let agent = request.header("user-agent").unwrap_or("");
    let prefix = agent.split('/').next().unwrap_or("");
    // What cannot be printed does not count, and 128 bytes are the limit of managers.
    let mut manager: String = prefix.chars().filter(|c| !c.is_control()).collect();
    while manager.len() > 128 {
        manager.pop();
    }
    if manager.is_empty() { "unknown".into() } else { manager.into() }
}

/// A PUT or PATCH must be about the object that its URL names.
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

/// The warning about owner references that stand there twice.
pub const DUPLICATE_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ";
