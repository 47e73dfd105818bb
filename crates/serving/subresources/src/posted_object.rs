//! Common steps of POST requests for objects that are not stored: body, options, decoding, metadata, field managers,
//! admission.

use std::sync::Arc;

use binnacle_endpoints::{
    ExpectedKind, SubresourceCall, WriteKind, decode_body, field_manager, input_encoding, read_body, respond_status,
    respond_subresource, sent_dry_run, write_params,
};
use binnacle_fields::meta::v1::PartialObjectMetadata;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_kinds::{BuiltInKinds, tables};
use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status};
use binnacle_patch::apply::{Update, track_update};
use binnacle_registry::admission::{Admission, Attributes, Operation, OperationOptions};
use binnacle_registry::{Context, RequestNotes, WriteObject, ensure_namespace, object, record_request_object};
use binnacle_request::Response;
use binnacle_schema::{Message, Value, defaults, json, proto, yaml};

/// The kind that a path accepts.
#[derive(Clone, Copy)]
pub(crate) struct PostedKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// Other accepted versions of bodies, with the same fields.
    pub(crate) other_versions: &'static [&'static str],
    /// True if the client's uid is a precondition; otherwise the object gets a new one.
    pub(crate) keeps_uid: bool,
    /// Sets the defaults that are not in the field table.
    pub(crate) set_defaults: fn(&mut Value),
}

impl PostedKind {
    pub(crate) const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group, version, kind, other_versions: &[], keeps_uid: false, set_defaults: |_| {} }
    }

    pub(crate) fn message(&self) -> Result<&'static Message, Status> {
        tables::kind(self.group, self.version, self.kind)
            .ok_or_else(|| Status::internal(format!("the schema of {} is missing", self.kind)))
    }
}

/// An object of a request, ready for its handler.
pub(crate) struct PostedObject {
    pub(crate) context: Context,
    pub(crate) object: WriteObject,
    pub(crate) message: &'static Message,
    attributes: Attributes,
    output: binnacle_endpoints::Output,
    /// `dryRun` as sent by the client.
    pub(crate) dry_run: Vec<String>,
}

impl PostedObject {
    /// Reads the body of a call and runs mutating admission.
    pub(crate) async fn read(
        call: SubresourceCall,
        kind: &PostedKind,
        admission: &Arc<dyn Admission>,
    ) -> Result<Self, Status> {
        let SubresourceCall { mut request, output, warnings, encodings, .. } = call;
        let encoding = input_encoding(request.header("content-type"), encodings)?;
        let bytes = read_body(&mut request).await?;
        let params = write_params(&request.query, WriteKind::Create)?;
        let info = Arc::clone(&request.info);
        let user = (*request.user).clone();
        let notes = RequestNotes::new(warnings, request.record.clone());
        let context = Context::new(user, info.namespace.clone(), params.dry_run)
            .with_notes(notes)
            .with_options(params.options(), request.deadline);
        let message = kind.message()?;

        let sent = api_version(&bytes, encoding);
        let other_version = kind
            .other_versions
            .iter()
            .find(|other_versions| sent.as_deref() == Some(&*format!("{}/{other_versions}", kind.group)));
        let version = other_version.unwrap_or(&kind.version);
        let expected = ExpectedKind { group: kind.group, version, kind: kind.kind, kinds: &BuiltInKinds };
        let (mut object, _) = decode_body(&context, &expected, message, encoding, &bytes, params.validation)?;
        let api_version = GroupVersionKind::new(kind.group, kind.version, kind.kind).api_version();
        FieldMut::root(&mut object).set(PartialObjectMetadata::API_VERSION, api_version.clone());
        defaults::apply_constants(&mut object, message);
        (kind.set_defaults)(&mut object);
        record_request_object(&request.record, &object);
        if !kind.keeps_uid {
            object::clear_system_metadata(&mut object);
        }
        ensure_namespace(&context.namespace, &mut object)?;
        if let Some(uids) = object::dedup_owner_references(&mut object) {
            context.warn(format!("{}{uids}", binnacle_endpoints::DUPLICATE_OWNERS));
        }
        track_update(
            &Update {
                message,
                api_version: &api_version,
                manager: &field_manager(&request, &params),
                subresource: &info.subresource,
                now: context.now_seconds(),
                reset: &[],
            },
            None,
            &mut object,
        );

        let name = if info.name.is_empty() { object::name(&object).into() } else { info.name.clone() };
        let attributes = Attributes {
            operation: Operation::Create,
            kind: GroupVersionKind::new(kind.group, kind.version, kind.kind),
            resource: GroupVersionResource::new(
                info.api_group.clone(),
                info.api_version.clone(),
                info.resource.clone(),
            ),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name,
            user: context.user.clone(),
            dry_run: context.dry_run,
            options: OperationOptions::Create(context.options.clone()),
            deadline: context.deadline,
            by_server: false,
        };
        let mut object = WriteObject::from(object);
        admission.mutate(&attributes, &mut object, None, &context.notes).await?;
        let dry_run = sent_dry_run(&request.query);
        Ok(Self { context, object, message, attributes, output, dry_run })
    }

    /// Returns the name in the path, or the name of the object if there is none.
    pub(crate) fn name(&self) -> &str {
        &self.attributes.name
    }

    /// Runs validating admission.
    pub(crate) async fn validate(&self, admission: &Arc<dyn Admission>) -> Result<(), Status> {
        admission.validate(&self.attributes, &self.object, None, &self.context.notes).await
    }

    /// Returns 201 with an object of the same kind.
    pub(crate) fn respond(&self, object: Value) -> Result<Response, Status> {
        let include = binnacle_endpoints::Include::default();
        respond_subresource(self.output, include, 201, object, self.message, None)
    }

    /// Returns 201 with a Status instead of an object.
    pub(crate) fn success_response(&self) -> Response {
        respond_status(self.output, 201, &Status::carried_out())
    }
}

/// Returns the apiVersion of a body, if it can be read without the schema.
fn api_version(body: &[u8], encoding: binnacle_endpoints::Encoding) -> Option<String> {
    use binnacle_endpoints::Encoding;
    let limits = binnacle_schema::Limits::default();
    match encoding {
        Encoding::Json => Some(json::type_meta(body, &limits).ok()?.api_version.to_string()),
        Encoding::Yaml => {
            let object = yaml::parse(body, &limits).ok()?.0;
            Some(FieldRef::root(&object).at(PartialObjectMetadata::API_VERSION).str().to_owned())
        }
        Encoding::Protobuf => Some(proto::unwrap(body).ok()?.api_version.to_string()),
        Encoding::Cbor => Some(binnacle_schema::decode::cbor_type_meta(body, &limits).ok()?.api_version.to_string()),
    }
}
