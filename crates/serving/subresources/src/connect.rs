//! Common steps of requests that connect to another server: authorization, admission, and cancellation at shutdown.

use std::sync::Arc;
use std::time::Instant;

use binnacle_authz::{Authorizer, authorize_with_permit};
use binnacle_endpoints::HandlerResult;
use binnacle_features::Features;
use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::PartialObjectMetadata;
use binnacle_meta::{GroupVersionKind, Status};
use binnacle_registry::admission::{Admission, Attributes, Operation, OperationOptions};
use binnacle_registry::{RequestNotes, Warnings, WriteObject};
use binnacle_request::{Request, RequestInfo, Shutdown, User};
use binnacle_schema::Value;

/// The user and the parameters of a request.
pub(crate) struct Caller {
    pub(crate) info: Arc<RequestInfo>,
    pub(crate) user: Arc<User>,
    deadline: Option<Instant>,
    notes: RequestNotes,
}

impl Caller {
    /// Dry runs are rejected, because the effects of a connection are unknown.
    pub(crate) fn of(request: &Request, warnings: Warnings) -> Result<Self, Status> {
        if request.query.contains("dryRun") {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let notes = RequestNotes::new(warnings, request.record.clone());
        Ok(Self { info: request.info.clone(), user: request.user.clone(), deadline: request.deadline, notes })
    }

    /// Runs admission for the options of a connection, an object of the core group.
    pub(crate) async fn admit(&self, admission: &Arc<dyn Admission>, options: Value) -> Result<(), Status> {
        let mut options = WriteObject::from(options);
        let info = &self.info;
        let attributes = Attributes {
            operation: Operation::Connect,
            kind: GroupVersionKind::new("", "v1", FieldRef::root(&options).at(PartialObjectMetadata::KIND).str()),
            resource: info.group_version_resource(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            user: (*self.user).clone(),
            dry_run: false,
            options: OperationOptions::None,
            deadline: self.deadline,
            by_server: false,
        };
        let notes = &self.notes;
        admission.mutate(&attributes, &mut options, None, notes).await?;
        admission.validate(&attributes, &options, None, notes).await
    }
}

/// Checks that a caller with `get` also has `create`, which running commands requires. WebSockets are opened by GET and
/// SPDY connections by POST, so the verb depended on the protocol (<https://issues.k8s.io/133515>).
pub(crate) async fn require_create(
    features: &Features,
    authorizer: &dyn Authorizer,
    caller: &Caller,
) -> Result<(), Status> {
    let info = &caller.info;
    if info.verb == "create" || !features.enabled("AuthorizePodWebsocketUpgradeCreatePermission") {
        return Ok(());
    }
    let attributes =
        binnacle_authz::Attributes { verb: "create", ..binnacle_authz::Attributes::of(info, &caller.user) };
    let authorized = authorize_with_permit(authorizer, &attributes).await;
    let (decision, permit) = authorized.map_err(|error| Status::unknown(500, &error.to_string()))?;
    match permit {
        Some(_) => Ok(()),
        None => Err(Status::forbidden(&info.group_resource(), &info.name, decision.reason())),
    }
}

/// Waits for a response, at most until the server stops.
pub(crate) async fn until_shutdown(shutdown: &Shutdown, result: impl Future<Output = HandlerResult>) -> HandlerResult {
    tokio::select! {
        result = result => result,
        () = shutdown.fired() => Err(Status::service_unavailable("apiserver is shutting down.")),
    }
}
