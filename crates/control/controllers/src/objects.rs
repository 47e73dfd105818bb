//! The server's own reads and writes. Writes are handled like those of clients from defaulting on, including admission.

use std::sync::Arc;

use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::{FieldMut, metadata};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_patch::apply::{Apply, Versions, apply, track_update};
use binnacle_registry::{
    Catalog, Context, DeleteOptions, ListOptions, MANAGER, Match, Page, Resource, StoredObject, UpdateOptions,
    WriteObject,
};
use binnacle_request::{CreatePermit, User};
use binnacle_schema::{Message, Value};
use binnacle_store::Revision;
use binnacle_watchcache::Entry;
use bytes::Bytes;
use futures::future::join_all;
use http::Method;

use crate::write_audit::{WriteAuditor, WriteTrail};

/// A client of one resource for the server's own controllers. Objects are in the version of the resource, which is the
/// storage version for all resources that controllers write.
#[derive(Clone)]
pub struct Objects {
    resource: Arc<Resource>,
    manager: &'static str,
    /// The user in whose name requests are made, or `None` for the server itself.
    user: Option<Arc<User>>,
    /// Records the writes of that user.
    auditor: Option<Arc<WriteAuditor>>,
}

impl Objects {
    pub fn new(resources: &Catalog, group: &str, version: &str, plural: &str) -> Result<Self, Status> {
        resources.require(group, version, plural).map(Self::of)
    }

    /// Creates a client of a resource that was found before.
    pub fn of(resource: Arc<Resource>) -> Self {
        Self { resource, manager: MANAGER, user: None, auditor: None }
    }

    /// Makes requests in the name of a user. Webhooks and policies treat them like those of any client.
    #[must_use]
    pub fn in_name_of(self, user: Arc<User>) -> Self {
        Self { user: Some(user), ..self }
    }

    /// Makes writes appear in the audit log, if they are in the name of a user.
    #[must_use]
    pub fn audited_by(self, auditor: Option<Arc<WriteAuditor>>) -> Self {
        Self { auditor, ..self }
    }

    /// Sets another manager in `managedFields`.
    pub fn managed_by(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Returns the context of a request.
    pub fn context(&self, namespace: &str) -> Context {
        match &self.user {
            Some(user) => Context::new(User::clone(user), namespace.into(), false),
            None => Context::internal(namespace),
        }
    }

    /// Returns the context and the audit events of a write.
    async fn begin(
        &self,
        method: Method,
        (namespace, name, subresource): (&str, &str, &str),
    ) -> Result<(Context, WriteTrail), Status> {
        let context = self.context(namespace);
        let (Some(auditor), Some(user)) = (&self.auditor, &self.user) else {
            return Ok((context, WriteTrail::default()));
        };
        let trail = auditor.begin(method, &self.path(namespace, name, subresource), user).await?;
        Ok((trail.annotated(context), trail))
    }

    /// Returns the path of an object, of its subresource, or of a collection.
    fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let description = &self.resource.description;
        let root = if description.group.is_empty() { "/api" } else { "/apis" };
        let is_namespaced = description.namespaced && !namespace.is_empty();
        let namespace = if is_namespaced { ["namespaces", namespace] } else { [""; 2] };
        let parts =
            [root, self.resource.api_version(), namespace[0], namespace[1], &description.plural, name, subresource];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/")
    }

    /// Returns a stored object in the version of the resource.
    fn in_version(&self, stored: &StoredObject) -> Value {
        let mut object = stored.object.clone();
        self.resource.from_stored(&mut object);
        object
    }

    /// Reads an object, including all writes acknowledged before; `None` if it does not exist.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        self.entry(namespace, name).await?.map(|entry| self.decode(&entry)).transpose()
    }

    /// Reads an object like [`Objects::get`], but does not decode it.
    pub async fn entry(&self, namespace: &str, name: &str) -> Result<Option<Arc<Entry>>, Status> {
        self.resource.find(&self.context(namespace), name, Match::Consistent).await
    }

    pub fn decode(&self, entry: &Entry) -> Result<Value, Status> {
        self.resource.collection.decode_entry(entry)
    }

    /// Lists objects, including all writes acknowledged before.
    pub async fn list(&self, namespace: &str) -> Result<Vec<Value>, Status> {
        self.list_as(namespace, Match::Consistent).await
    }

    pub async fn list_as(&self, namespace: &str, version: Match) -> Result<Vec<Value>, Status> {
        let options = ListOptions { version, ..ListOptions::default() };
        let mut page = self.resource.list(&self.context(namespace), &options).await?;
        let mut objects = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            for entry in chunk {
                objects.push(self.resource.collection.decode_entry(&entry)?);
            }
        }
        Ok(objects)
    }

    /// Lists the names of objects, including all writes acknowledged before.
    pub async fn names(&self, namespace: &str) -> Result<Vec<Text>, Status> {
        let options = ListOptions { version: Match::Consistent, ..ListOptions::default() };
        let mut page = self.resource.list(&self.context(namespace), &options).await?;
        let mut names = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            names.extend(chunk.iter().map(|entry| Text::from(entry.name())));
        }
        Ok(names)
    }

    pub async fn create(&self, namespace: &str, mut object: Value) -> Result<StoredObject, Status> {
        let (context, trail) = self.begin(Method::POST, (namespace, "", "")).await?;
        self.set_type(&mut object);
        self.resource.set_defaults(&mut object);
        trail.request_object(&object);
        self.track(&context, "", None, &mut object);
        self.resource.to_stored(&mut object);
        #[expect(clippy::disallowed_methods, reason = "nobody asked for it: clusters have it")]
        let permit = CreatePermit::system();
        let created = self.resource.create(&context, &permit, object).await;
        trail.end(201, &created, |stored| Some(self.in_version(stored))).await;
        created
    }

    /// Creates those of the objects that do not exist, concurrently. Ignores objects that another client creates
    /// meanwhile.
    pub async fn create_missing(&self, objects: Vec<Value>) -> Result<(), Status> {
        let there = self.list("").await?;
        self.create_missing_of(&there, objects).await
    }

    /// Like [`Objects::create_missing`], with a list of the existing objects.
    pub async fn create_missing_of(&self, there: &[Value], objects: Vec<Value>) -> Result<(), Status> {
        let key = |object: &Value| {
            let metadata = metadata(object);
            (metadata.at(ObjectMeta::NAMESPACE).str().to_owned(), metadata.at(ObjectMeta::NAME).str().to_owned())
        };
        let there: std::collections::HashSet<_> = there.iter().map(key).collect();
        let missing = objects.into_iter().filter(|object| !there.contains(&key(object)));
        let created = join_all(missing.map(|object| async move {
            let namespace = metadata(&object).at(ObjectMeta::NAMESPACE).str().to_owned();
            match self.create(&namespace, object).await {
                Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
                created => created.map(|_| ()),
            }
        }));
        created.await.into_iter().collect()
    }

    /// Updates an existing object; does not write it if `change` leaves it unchanged.
    pub async fn update(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<(), Status> {
        self.update_to(namespace, name, subresource, change).await.map(drop)
    }

    /// Like [`Objects::update`], and returns the new revision of the object.
    pub async fn update_to(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<Revision, Status> {
        let (context, trail) = self.begin(Method::PUT, (namespace, name, subresource)).await?;
        let options = UpdateOptions { subresource: subresource.into(), ..UpdateOptions::default() };
        let mut change = self.changing(&context, &trail, (name, subresource), change);
        let updated = self.resource.update(&context, name, &options, &mut change).await;
        drop(change);
        trail.end(200, &updated, |updated| Some(self.in_version(&updated.stored))).await;
        updated.map(|updated| updated.stored.revision)
    }

    /// Like [`Objects::update_to`], for an object that was decoded before.
    pub async fn update_known(
        &self,
        known: (&StoredObject, &Bytes),
        (namespace, name, subresource): (&str, &str, &str),
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<Revision, Status> {
        let (context, trail) = self.begin(Method::PUT, (namespace, name, subresource)).await?;
        let options = UpdateOptions { subresource: subresource.into(), ..UpdateOptions::default() };
        let mut change = self.changing(&context, &trail, (name, subresource), change);
        let updated = self.resource.update_known(&context, name, &options, &mut change, known).await;
        drop(change);
        trail.end(200, &updated, |updated| Some(self.in_version(&updated.stored))).await;
        updated.map(|updated| updated.stored.revision)
    }

    /// Converts a change of objects in this version to a change of stored objects.
    fn changing(
        &self,
        context: &Context,
        trail: &WriteTrail,
        (name, subresource): (&str, &str),
        mut change: impl FnMut(&mut Value) + Send,
    ) -> impl FnMut(Option<&Value>) -> Result<WriteObject, Status> + Send {
        move |old| {
            let Some(old) = old else {
                return Err(Status::not_found(&self.resource.group_resource(), name));
            };
            let mut object = old.clone();
            self.resource.from_stored(&mut object);
            change(&mut object);
            self.resource.set_defaults(&mut object);
            trail.request_object(&object);
            self.track(context, subresource, Some(old), &mut object);
            self.resource.to_stored(&mut object);
            Ok(object.into())
        }
    }

    /// Deletes an object; succeeds if it does not exist.
    pub async fn delete(&self, namespace: &str, name: &str) -> Result<(), Status> {
        self.delete_with(namespace, name, &DeleteOptions::default()).await
    }

    /// Deletes an object like [`Objects::delete`], with options.
    pub async fn delete_with(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), Status> {
        let (context, trail) = self.begin(Method::DELETE, (namespace, name, "")).await?;
        let deleted = self.resource.delete(&context, name, options).await;
        trail.end(200, &deleted, |_| None).await;
        match deleted {
            Err(status) if status.is(StatusReason::NotFound) => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    }

    /// Deletes the objects of a namespace, `workers` at a time, and returns them.
    pub async fn delete_all(&self, namespace: &str, options: &DeleteOptions, workers: usize) -> Result<Page, Status> {
        let (context, trail) = self.begin(Method::DELETE, (namespace, "", "")).await?;
        let context = context.with_verb("deletecollection");
        let deleted = self.resource.delete_collection_with(&context, &ListOptions::default(), options, workers).await;
        trail.end(200, &deleted, |_| None).await;
        deleted
    }

    /// Applies a status of a cluster-scoped object by server-side apply as `manager`, with force.
    pub async fn apply_status(&self, name: &str, manager: &str, config: Value) -> Result<(), Status> {
        self.apply((name, "status"), manager, config).await
    }

    /// Applies a cluster-scoped object, or its subresource, by server-side apply as `manager`, with force. The object must
    /// exist.
    pub async fn apply(
        &self,
        (name, subresource): (&str, &str),
        manager: &str,
        mut config: Value,
    ) -> Result<(), Status> {
        let (context, trail) = self.begin(Method::PATCH, ("", name, subresource)).await?;
        self.set_type(&mut config);
        trail.request_object(&config);
        let options = UpdateOptions { subresource: subresource.into(), ..UpdateOptions::default() };
        let mut change = |old: Option<&Value>| {
            let update = self.resource.update_by(&context, manager, subresource);
            let request = Apply { update, force: true, versions: &SingleVersion(&self.resource) };
            apply(&request, old, &config)
                .map(|applied| applied.object.into())
                .map_err(|error| Status::internal(error.to_string()))
        };
        let applied = self.resource.update(&context, name, &options, &mut change).await;
        trail.end(200, &applied, |applied| Some(self.in_version(&applied.stored))).await;
        applied.map(|_| ())
    }

    /// Sets the version and kind of an object.
    fn set_type(&self, object: &mut Value) {
        let mut object = FieldMut::<PartialObjectMetadata>::root(object);
        object.set(PartialObjectMetadata::API_VERSION, self.resource.api_version());
        object.set(PartialObjectMetadata::KIND, self.resource.description.kind.clone());
    }

    fn track(&self, context: &Context, subresource: &str, live: Option<&Value>, object: &mut Value) {
        track_update(&self.resource.update_by(context, self.manager, subresource), live, object);
    }
}

/// Conversions of a resource that has only its own version.
struct SingleVersion<'a>(&'a Resource);

impl Versions for SingleVersion<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        (api_version == self.0.api_version()).then(|| (object.clone(), &*self.0.message))
    }
}
