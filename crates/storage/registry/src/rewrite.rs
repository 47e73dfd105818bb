//! Changes without admission and the rules of updates, for operations with stricter rules, such as the binding of pods.

use binnacle_meta::{Status, Text};
use binnacle_schema::Value;
use binnacle_store::{Expect, Op, Txn, TxnResponse};

use crate::context::Context;
use crate::object;
use crate::resource::Resource;
use crate::store_failure::store_failure;

/// The conditions on the object. Empty values match any object.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    pub uid: Text,
    pub resource_version: Text,
}

/// A function that changes an object in the storage version, or returns an error. It is called again after a conflict.
pub type Rewrite<'a> = dyn FnMut(&mut Value) -> Result<(), Status> + Send + 'a;

impl Resource {
    /// Writes the object that `rewrite` has changed; a dry run only calls it.
    ///
    /// # Errors
    ///
    /// 404, 409 if the preconditions do not match, and the errors of `rewrite`.
    pub async fn rewrite(
        &self,
        context: &Context,
        name: &str,
        preconditions: &Preconditions,
        rewrite: &mut Rewrite<'_>,
    ) -> Result<(), Status> {
        let collection = &self.collection;
        let key = collection.key(&context.namespace, name)?;
        let (mut current, _) = collection.store.get(key.clone(), None).await.map_err(store_failure)?;
        loop {
            let kv = current.ok_or_else(|| Status::not_found(&self.group_resource(), name))?;
            let mut object = collection.decode(&kv.value, kv.mod_revision)?;
            for (field, expected, found) in [
                ("UID", &preconditions.uid, object::uid(&object)),
                ("ResourceVersion", &preconditions.resource_version, object::resource_version(&object)),
            ] {
                if !expected.is_empty() && *expected != found {
                    let why = self.precondition_failed(context, &key, field, expected, found);
                    return Err(Status::conflict(&self.group_resource(), name, why));
                }
            }
            rewrite(&mut object)?;
            if context.dry_run {
                return Ok(());
            }
            let op = Op::Put { value: collection.encode(&mut object).await?, lease: kv.lease };
            let txn = Txn { key: key.clone(), expect: Expect::ModRevision(kv.mod_revision), op };
            match collection.store.txn(txn).await.map_err(store_failure)? {
                TxnResponse::Done { .. } => return Ok(()),
                TxnResponse::Unmet { current: newer, .. } => current = newer,
            }
        }
    }
}
