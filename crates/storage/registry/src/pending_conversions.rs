//! Conversions of objects for field managers of other versions. Field tracking is synchronous and cannot wait for a
//! webhook: it records the missing conversions, and is repeated when they are done.

use binnacle_meta::{Status, Text};
use binnacle_schema::{Value, json};
use binnacle_scheme::CustomSource;
use binnacle_work::{allocate, charge_bytes};

use crate::context::Context;
use crate::conversions::Conversion;
use crate::resource::Resource;
use crate::store_failure::conversion_failure;
use crate::write_object::{Change, WriteObject};

/// The maximum number of conversions of a request. Each manager's version needs only a few, so more conversions
/// indicate that they would never end.
const MAX_CONVERSIONS: usize = 256;

impl Context {
    /// Returns an object converted to another `apiVersion`. Returns `None` if the conversion has not been done yet; the
    /// caller is called again after it.
    pub fn convert_deferred(&self, object: &Value, api_version: &str) -> Option<Value> {
        let key = (json::to_string(object), Text::from(api_version));
        let converted = self.pending_conversions.answer_to(&key);
        if converted.is_none() {
            let bytes = key.0.len();
            let work = Conversion { object: object.clone(), api_version: api_version.into(), bytes };
            self.pending_conversions.defer(key, work);
        }
        converted
    }
}

impl Resource {
    /// Returns the result of `change`, after all conversions that it needs.
    pub(crate) async fn apply_change(
        &self,
        context: &Context,
        change: &mut Change<'_>,
        live: Option<&Value>,
    ) -> Result<WriteObject, Status> {
        let mut left = MAX_CONVERSIONS;
        let convert = |work: Conversion| {
            let allowed = left > 0;
            left = left.saturating_sub(1);
            async move {
                if !allowed {
                    return Err(Status::internal("the versions of an object cannot be converted"));
                }
                charge_bytes(2 * work.bytes)?;
                allocate(2 * work.bytes)?;
                // As in kube-apiserver, fields that are not in the schema of the other version are kept, and have no
                // managers.
                let converted = self.converted_as_is(work.object, &work.api_version).await?;
                allocate(converted.tree_bytes())?;
                Ok(converted)
            }
        };
        context.pending_conversions.resolve(|| change(live), convert).await?
    }

    /// Converts a custom resource between any of the definition's versions. The result is pruned by the schema of the
    /// new version.
    ///
    /// # Errors
    ///
    /// 500 with the converter's message, and for kinds without versions.
    pub async fn converted(&self, object: Value, api_version: &str) -> Result<Value, Status> {
        let mut converted = self.converted_as_is(object, api_version).await?;
        if let Some(custom) = &self.collection.kind.custom {
            custom.prune(&mut converted, CustomSource::Server).map_err(|why| Status::unknown(500, &why))?;
        }
        Ok(converted)
    }

    /// Converts a custom resource like [`Resource::converted`], but keeps fields that are not in the schema of the
    /// other version.
    ///
    /// # Errors
    ///
    /// The errors of [`Resource::converted`].
    pub async fn converted_as_is(&self, mut object: Value, api_version: &str) -> Result<Value, Status> {
        let Some(custom) = &self.collection.kind.custom else {
            return Err(Status::internal("nothing converts between the versions of an object"));
        };
        let Some(converter) = custom.converter() else {
            object.make_object().insert("apiVersion", api_version);
            return Ok(object);
        };
        let converted = converter.convert(vec![object], api_version).await;
        let converted = converted.map_err(conversion_failure)?;
        // A converter returns one object per input.
        Ok(converted.into_iter().next().unwrap_or_default())
    }
}
