//! The admission plugin trait.

use std::fmt;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::Status;
use binnacle_registry::RequestNotes;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::{AuditLevel, BoxFuture};
use binnacle_schema::Value;

use crate::reinvocation::Reinvocation;

/// The admission stage: before or after the object is prepared and validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Mutate,
    Validate,
}

/// A request without its object.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub attributes: &'a Attributes,
    /// The existing object, on update and delete.
    pub old: Option<&'a Value>,
    notes: &'a RequestNotes,
    /// `None` in the validating stage.
    reinvocation: Option<&'a Reinvocation>,
}

/// An admission plugin. The default methods admit every request unchanged.
pub trait Plugin: Send + Sync + 'static {
    /// Returns the name of the plugin in flags and errors.
    fn name(&self) -> &'static str;

    /// Returns true if the plugin handles requests with these attributes. If not, the methods below are not called.
    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool;

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (request, object);
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (request, object);
        Box::pin(async { Ok(()) })
    }
}

impl<'a> Request<'a> {
    pub fn new(attributes: &'a Attributes, old: Option<&'a Value>, notes: &'a RequestNotes) -> Self {
        Self { attributes, old, notes, reinvocation: None }
    }

    /// Sets the passes of the mutating stage.
    #[must_use]
    pub fn in_pass(self, reinvocation: &'a Reinvocation) -> Self {
        Self { reinvocation: Some(reinvocation), ..self }
    }

    /// Returns the passes of the mutating stage; `None` in the validating stage.
    pub fn reinvocation(&self) -> Option<&'a Reinvocation> {
        self.reinvocation
    }

    /// Adds a `Warning` header to the response.
    pub fn warn(&self, text: impl Into<String>) {
        self.notes.warn(text);
    }

    /// Adds an annotation to all audit events of this request.
    pub fn annotate(&self, key: &str, value: impl fmt::Display) {
        self.annotate_from(AuditLevel::Metadata, key, value);
    }

    /// Adds an annotation to the audit events of this request at this level and above.
    pub fn annotate_from(&self, level: AuditLevel, key: &str, value: impl fmt::Display) {
        self.notes.annotate(level, key, value);
    }

    pub fn is_create(&self) -> bool {
        self.attributes.operation == Operation::Create
    }

    pub fn is_update(&self) -> bool {
        self.attributes.operation == Operation::Update
    }
}

/// Returns the Status of a rejection: 403 with the name of the object, or its `generateName` if it has no name yet.
pub fn forbidden(attributes: &Attributes, object: &Value, why: impl fmt::Display) -> Status {
    let metadata = binnacle_fields::metadata(object);
    let [name, generate_name] = [ObjectMeta::NAME, ObjectMeta::GENERATE_NAME].map(|field| metadata.at(field).str());
    let names = [attributes.name.as_str(), name, generate_name, "Unknown"];
    let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    Status::forbidden(&attributes.resource.group_resource(), name, why)
}

/// Returns true if a request is for this resource and not for one of its subresources.
pub(crate) fn is_resource(attributes: &Attributes, group: &str, plural: &str) -> bool {
    attributes.subresource.is_empty() && is_any_of(attributes, group, plural)
}

/// Returns true if a request is for this resource or one of its subresources.
pub(crate) fn is_any_of(attributes: &Attributes, group: &str, plural: &str) -> bool {
    attributes.resource.resource == plural && attributes.resource.group == group
}
