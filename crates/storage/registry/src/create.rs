//! The creation of objects.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_meta::{FieldErrors, GroupResource, Status, StatusReason};
use binnacle_request::CreatePermit;
use binnacle_schema::Value;
use binnacle_store::{Expect, KeyValue, Op, StoreError, Txn, TxnResponse};
use binnacle_validation::metadata as validate_metadata;
use uuid::Uuid;

use crate::admission::{Attributes, Operation};
use crate::context::Context;
use crate::create_gate::CreateGate;
use crate::hooks::Review;
use crate::metadata_accessor::with_accessor_metadata;
use crate::object;
use crate::resource::Resource;
use crate::store_failure::store_failure;
use crate::stored::StoredObject;
use crate::write_failure::WriteFailure;
use crate::write_object::WriteObject;
use crate::{names, time};

/// The source of the name under which a new object is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameSource<'a> {
    /// The object's own name.
    OwnName,
    /// The name in the request of an update that creates. As in kube-apiserver, it is used even if a webhook renames
    /// the object.
    Named(&'a str),
}

impl NameSource<'_> {
    fn name<'v>(&'v self, object: &'v Value) -> &'v str {
        match self {
            Self::OwnName => object::name(object),
            Self::Named(name) => name,
        }
    }
}

impl Resource {
    /// Creates an object, which is in the storage version with defaults and managed fields.
    ///
    /// # Errors
    ///
    /// 400 if the namespaces of object and request differ, 403 and others from admission, 409 if the name exists (after
    /// several attempts for a generated name), 422 if the object is invalid.
    pub async fn create(
        &self,
        context: &Context,
        permit: &CreatePermit,
        object: impl Into<WriteObject>,
    ) -> Result<StoredObject, Status> {
        let mut object: WriteObject = object.into();
        // Clients cannot set system metadata; admission, and an update that creates, can.
        object::clear_system_metadata(&mut object);
        self.create_with_gate(context, permit, object, NameSource::OwnName).await
    }

    /// Creates an object like [`Resource::create`], with a gate that may query the authorizers for the permit.
    pub(crate) async fn create_with_gate(
        &self,
        context: &Context,
        gate: &dyn CreateGate,
        mut object: WriteObject,
        name_source: NameSource<'_>,
    ) -> Result<StoredObject, Status> {
        let name = object::name(&object).to_owned();
        let attributes = self.attributes(context, Operation::Create, &name, "");
        // The namespace is checked before admission.
        ensure_namespace(self.namespace_of(context), &mut object)?;
        self.collection.admission.mutate(&attributes, &mut object, None, &context.notes).await?;
        if let Some(uids) = object::dedup_owner_references(&mut object) {
            context.warn(format!("{}{uids}", DUPLICATE_OWNERS_AFTER_ADMISSION));
        }
        let generated = name.is_empty() && !object::generate_name(&object).is_empty();
        if let NameSource::Named(_) = name_source {
            if object::name(&object).is_empty() && !object::generate_name(&object).is_empty() {
                return Err(Status::internal("metadata.name was not generated"));
            }
            drop_version(&mut object)?;
        }
        for _ in 1..if generated { names::ATTEMPTS } else { 1 } {
            match self.create_once(context, gate, object.clone(), &attributes, name_source).await {
                Err(status) if status.is(StatusReason::AlreadyExists) => {}
                done => return done,
            }
        }
        self.create_once(context, gate, object, &attributes, name_source).await
    }

    async fn create_once(
        &self,
        context: &Context,
        gate: &dyn CreateGate,
        mut object: WriteObject,
        attributes: &Attributes,
        name_source: NameSource<'_>,
    ) -> Result<StoredObject, Status> {
        self.prepare_create(context, &mut object).await?;
        let result = self.finish_create(context, gate, &mut object, attributes, name_source).await;
        match &result {
            Err(failure) if failure.outcome_unknown => {
                tracing::warn!(name = object::name(&object), "an object may or may not have been created");
            }
            Err(_) => self.collection.hooks.abort(context, &object, None).await,
            Ok(stored) if context.dry_run => self.collection.hooks.abort(context, &stored.object, None).await,
            Ok(_) => {}
        }
        result.map_err(|failure| failure.status)
    }

    /// Sets the system fields and the name, and resets the fields of the kind's strategy.
    async fn prepare_create(&self, context: &Context, object: &mut WriteObject) -> Result<(), Status> {
        let collection = &self.collection;
        let mut metadata = object::metadata_fields(object);
        metadata.set(ObjectMeta::CREATION_TIMESTAMP, time::rfc3339(context.now));
        metadata.set(ObjectMeta::UID, Uuid::new_v4().to_string());
        let prefix = metadata.str(ObjectMeta::GENERATE_NAME);
        if !prefix.is_empty() && metadata.str(ObjectMeta::NAME).is_empty() {
            let name = match collection.kind.strategy.generates_names() {
                true => names::generate(prefix),
                false => prefix.into(),
            };
            metadata.set(ObjectMeta::NAME, name);
        }
        ensure_namespace(self.namespace_of(context), object)?;
        collection.kind.strategy.warnings_on_receipt(object).into_iter().for_each(|warning| context.warn(warning));
        object.restore_lists();
        collection.kind.strategy.prepare_for_create(&self.strategy_context(context), object);
        collection.hooks.begin_create(context, object).await
    }

    async fn finish_create(
        &self,
        context: &Context,
        gate: &dyn CreateGate,
        object: &mut WriteObject,
        attributes: &Attributes,
        name_source: NameSource<'_>,
    ) -> Result<StoredObject, WriteFailure> {
        let collection = &self.collection;
        self.validate_create(context, object).await?;
        let permit = gate.permit().await?;
        object.remove_empty_fields();
        // A generated name is set at this point.
        let with_generated_name = attributes.name.is_empty().then(|| {
            let name = object::name(object).into();
            Attributes { name, ..attributes.clone() }
        });
        let attributes = with_generated_name.as_ref().unwrap_or(attributes);
        collection.admission.validate(attributes, object, None, &context.notes).await?;
        self.insert(context, &permit, object, name_source).await
    }

    /// Writes the object if the key does not exist; a dry run only checks that.
    async fn insert(
        &self,
        context: &Context,
        permit: &CreatePermit,
        object: &mut WriteObject,
        name_source: NameSource<'_>,
    ) -> Result<StoredObject, WriteFailure> {
        let collection = &self.collection;
        let name = name_source.name(object).to_owned();
        self.check_permit(context, permit, &name)?;
        let key = collection.key(&context.namespace, &name)?;
        // A resourceVersion that is not a number is ignored: only the store rejects it, and a dry run never reaches the
        // store.
        let sent_version = object::resource_version(object).to_owned();
        if !context.dry_run && object::version_number(&sent_version).is_ok_and(|version| version != 0) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::unknown(500, why).into());
        }
        collection.prune_admitted(object.is_unpruned(), object)?;
        let value = collection.encode(object).await?;
        let size = value.len();
        if context.dry_run {
            let (existing, _) = collection.store.get(key, None).await.map_err(store_failure)?;
            return match existing {
                Some(existing) => Err(self.already_exists(object, Some(&existing)).into()),
                None => {
                    // A dry run applies the changes of the stored encoding, too.
                    collection.apply_storage_round_trip(object, &value).await?;
                    collection.stamp(object, binnacle_store::Revision(0));
                    let mut metadata = object::metadata_fields(object);
                    match sent_version.is_empty() {
                        true => drop(metadata.remove(ObjectMeta::RESOURCE_VERSION)),
                        false => metadata.set(ObjectMeta::RESOURCE_VERSION, sent_version),
                    }
                    Ok(StoredObject::new(std::mem::take(&mut **object), binnacle_store::Revision(0)))
                }
            };
        }
        let lease = match &collection.ttl {
            Some(leases) => Some(leases.get().await.map_err(store_failure)?),
            None => None,
        };
        let stored_value = value.clone();
        let txn = Txn { key: key.clone(), expect: Expect::Absent, op: Op::Put { value, lease } };
        let response = match collection.store.txn(txn).await {
            Ok(response) => response,
            // Either the existing value is unreadable, or encryption fails.
            Err(error @ StoreError::Transform { .. }) => {
                let unreadable = collection.store.get(key, None).await.is_err_and(|error| error.is_unreadable());
                return Err(if unreadable { self.already_exists(object, None) } else { store_failure(error) }.into());
            }
            Err(error) => return Err(collection.write_failure(error, object, size)),
        };
        match response {
            TxnResponse::Done { revision, .. } => {
                collection.apply_storage_round_trip(object, &stored_value).await?;
                collection.stamp(object, revision);
                Ok(collection.stored_object(std::mem::take(&mut **object), revision, stored_value))
            }
            TxnResponse::Unmet { current: Some(existing), .. } => {
                Err(self.already_exists(object, Some(&existing)).into())
            }
            TxnResponse::Unmet { current: None, .. } => {
                let why = "the object was deleted while it was created";
                Err(Status::conflict(&self.group_resource(), &name, why).into())
            }
        }
    }

    /// Returns the namespace of the request, empty for cluster-scoped objects.
    pub(crate) fn namespace_of<'a>(&self, context: &'a Context) -> &'a str {
        if self.collection.kind.namespaced { &context.namespace } else { "" }
    }

    /// Checks that the permit is for this object. A mismatch is a bug, which must not allow the write.
    fn check_permit(&self, context: &Context, permit: &CreatePermit, name: &str) -> Result<(), Status> {
        let (group, plural) = (self.description.group.as_str(), self.description.plural.as_str());
        if permit.covers(group, plural, &context.namespace, name) {
            return Ok(());
        }
        tracing::error!(group, plural, ?permit, "the permit to create is for another object");
        Err(Status::internal("the permit to create is for another object"))
    }

    /// Validates the metadata and the object, then adds the kind's warnings.
    async fn validate_create(&self, context: &Context, object: &WriteObject) -> Result<(), Status> {
        let object = &*with_accessor_metadata(object);
        let collection = &self.collection;
        let strategy = &*collection.kind.strategy;
        let root = FieldRef::<AnyKind>::root(object);
        let metadata = root.at(AnyKind::METADATA);
        let path = metadata.path();
        let mut errors = validate_metadata::validate(
            metadata.value(),
            collection.kind.namespaced,
            |name, prefix| strategy.validate_name(&collection.features, name, prefix),
            &path,
        );
        if strategy.checks_finalizer_domains() {
            errors.extend(validate_metadata::finalizers_have_domains(metadata.value(), &path));
        }
        let ctx = self.strategy_context(context);
        let mut found = strategy.validate(&ctx, object);
        found.extend(strategy.validate_client_create(&ctx, object));
        if !found.is_empty() && (self.is_of_another_type(object) || !strategy.reports_metadata()) {
            errors = FieldErrors::new();
        }
        let review = Review { context, subresource: "", object, old: None };
        errors.extend(collection.hooks.review(review, found).await);
        if !errors.is_empty() {
            return Err(Status::invalid(&collection.kind_of(object), object::name(object), &errors));
        }
        let name = metadata.at(ObjectMeta::NAME);
        // The rule for all names comes after the kind's rule, whose errors would hide it.
        let problems = binnacle_validation::names::path_segment(name.str(), false).into_iter();
        let errors: FieldErrors = problems.map(|problem| name.invalid_as(name.str(), problem)).collect();
        if !errors.is_empty() {
            return Err(Status::invalid(&collection.kind_of(object), name.str(), &errors));
        }
        for warning in strategy.warnings(object, None) {
            context.warn(warning);
        }
        Ok(())
    }

    /// Returns true for an object of another kind or version, which is only possible for custom resources. Their
    /// validation then ends at the type, before metadata.
    pub fn is_of_another_type(&self, object: &Value) -> bool {
        let object = FieldRef::<AnyKind>::root(object);
        self.collection.kind.custom.is_some()
            && (object.at(AnyKind::KIND).str(), object.at(AnyKind::API_VERSION).str())
                != (self.description.kind.as_str(), self.api_version())
    }

    /// Returns the error for an existing name. Its message differs for generated names and for objects in deletion.
    fn already_exists(&self, object: &Value, existing: Option<&KeyValue>) -> Status {
        let name = object::name(object);
        let resource = self.group_resource();
        let status = if !object::generate_name(object).is_empty() {
            // In kube-apiserver, the group of the stored kind.
            let group = self.collection.kind_of(object).group;
            Status::generate_name_conflict(&GroupResource::new(group, resource.resource), name, 1)
        } else {
            Status::already_exists(&resource, name)
        };
        let existing = existing.and_then(|kv| self.collection.open(kv).ok());
        if existing.is_some_and(|existing| object::is_deleting(&existing.object)) {
            let message = format!("object is being deleted: {}", status.message());
            return status.with_message(message);
        }
        status
    }
}

pub(crate) const DUPLICATE_OWNERS_AFTER_ADMISSION: &str = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ";

/// The message for an object with another namespace than its request.
pub const NAMESPACE_MISMATCH: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Removes the resourceVersion of an object that an update creates. Returns 500 if it is not a number (`Store.Update`,
/// which parses it after mutating admission, and before it checks whether the object exists).
fn drop_version(object: &mut WriteObject) -> Result<(), Status> {
    let version = object::resource_version(object);
    if !version.is_empty() {
        object::version_number(version)?;
    }
    object::metadata_fields(object).remove(ObjectMeta::RESOURCE_VERSION);
    Ok(())
}

impl Resource {
    /// Returns 400 if the object of a request has another namespace than the request.
    pub fn check_namespace(&self, context: &Context, object: &Value) -> Result<(), Status> {
        let (given, namespace) = (object::namespace(object), self.namespace_of(context));
        match given.is_empty() || namespace.is_empty() || given == namespace {
            true => Ok(()),
            false => Err(Status::bad_request(NAMESPACE_MISMATCH)),
        }
    }
}

/// Sets the namespace of the request, which is empty for cluster-scoped objects. Returns 400 if the object has another
/// one.
pub fn ensure_namespace(namespace: &str, object: &mut Value) -> Result<(), Status> {
    let given = object::namespace(object);
    if given == namespace {
        return Ok(());
    }
    if given.is_empty() {
        object::metadata_fields(object).set(ObjectMeta::NAMESPACE, namespace);
        return Ok(());
    }
    if namespace.is_empty() {
        object::metadata_fields(object).remove(ObjectMeta::NAMESPACE);
        return Ok(());
    }
    Err(Status::bad_request(NAMESPACE_MISMATCH))
}
