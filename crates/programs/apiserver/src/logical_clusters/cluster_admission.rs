//! Admission of the objects `logicalclusters`: each gets the finalizer that keeps it until its data are deleted, and a fork
//! needs a permission, since it has all of its source, Secrets included.

use std::sync::Arc;

use binnacle_authz::{Attributes as Question, Authorizer};
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::admission::{Admission, Attributes, Operation};
use binnacle_registry::{RequestNotes, WriteObject};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::definition::{GROUP, PLURAL, VERSION};
use super::finalizer;
use super::forks::Source;

/// Admission that adds the finalizer to new objects, and refuses to create a fork unless the user has the verb `fork` on its
/// source. The source does not change later.
pub(crate) struct ClusterAdmission {
    inner: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
}

impl ClusterAdmission {
    pub(crate) fn new(inner: Arc<dyn Admission>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { inner, authorizer }
    }

    async fn check(&self, attributes: &Attributes, source: &Source) -> Result<(), Status> {
        let user = &attributes.user;
        let question = Question {
            verb: "fork",
            is_resource_request: true,
            api_group: GROUP,
            api_version: VERSION,
            resource: PLURAL,
            name: &source.cluster,
            ..Question::nothing(user)
        };
        let decision = self.authorizer.authorize(&question).await.map_err(Status::internal)?;
        if decision.is_allow() {
            return Ok(());
        }
        let why = format!("User {:?} cannot fork the logical cluster {:?}", &*user.name, &*source.cluster);
        Err(Status::forbidden(&GroupResource::new(GROUP, PLURAL), &attributes.name, why))
    }
}

fn is_creation(attributes: &Attributes) -> bool {
    let resource = &attributes.resource;
    attributes.operation == Operation::Create
        && attributes.subresource.is_empty()
        && (&*resource.group, &*resource.resource) == (GROUP, PLURAL)
}

impl Admission for ClusterAdmission {
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a mut WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        if is_creation(attributes) {
            // At once, since another write would delay the cluster.
            finalizer::add(object);
        }
        self.inner.mutate(attributes, object, old, notes)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let source = if is_creation(attributes) && !attributes.by_server { Source::of(object) } else { None };
        let Some(source) = source else { return self.inner.validate(attributes, object, old, notes) };
        Box::pin(async move {
            self.check(attributes, &source).await?;
            self.inner.validate(attributes, object, old, notes).await
        })
    }
}
