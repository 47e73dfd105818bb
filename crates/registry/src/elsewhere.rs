//! Objects in other versions, for those who track the fields of managers that wrote through one: they cannot wait for a
//! converter, so they note what they lack, and are asked again when that is there.

use binnacle_meta::{Status, Text};
use binnacle_schema::{Value, json};
use parking_lot::Mutex;

use crate::context::Context;
use crate::resource::Resource;
use crate::sent::Sent;
use crate::update::Change;

/// Each manager's version asks for no more than a few objects; who still lacks one after so many rounds asks forever.
const MAX_ROUNDS: usize = 64;

/// What one request knows of other versions.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    /// The text of an object, the wanted version, and the object there.
    known: Vec<(String, Text, Value)>,
    missing: Vec<(Value, Text)>,
}

impl Context {
    /// An object in the version of another `apiVersion`, made by a converter. `None` where it has not been made yet:
    /// then what is done now is done again when it has.
    pub fn elsewhere(&self, object: &Value, api_version: &str) -> Option<Value> {
        let text = json::to_string(object);
        let mut found = self.elsewhere.0.lock();
        let known = found.known.iter().find(|(from, version, _)| *version == api_version && *from == text);
        if let Some((_, _, converted)) = known {
            return Some(converted.clone());
        }
        found.missing.push((object.clone(), api_version.into()));
        None
    }
}

impl Resource {
    /// What `change` makes of an object, with all that it asks of other versions.
    pub(crate) async fn changed(
        &self,
        context: &Context,
        change: &mut Change<'_>,
        live: Option<&Value>,
    ) -> Result<Sent, Status> {
        for _ in 0..MAX_ROUNDS {
            let changed = change(live);
            let missing = std::mem::take(&mut context.elsewhere.0.lock().missing);
            if missing.is_empty() {
                return changed;
            }
            for (object, version) in missing {
                let text = json::to_string(&object);
                let converted = self.converted(object, &version).await?;
                context.elsewhere.0.lock().known.push((text, version, converted));
            }
        }
        Err(Status::internal("the versions of an object cannot be converted"))
    }

    /// A custom resource of any of the definition's versions in another one, whose schema it fits.
    ///
    /// Errors: 500 in the converter's words, and for kinds that have no versions of this sort.
    pub async fn converted(&self, object: Value, api_version: &str) -> Result<Value, Status> {
        let mut converted = self.converted_as_is(object, api_version).await?;
        if let Some(custom) = &self.collection.kind.custom {
            custom.fit(&mut converted).map_err(|why| Status::unknown(500, &why))?;
        }
        Ok(converted)
    }

    /// [`Resource::converted`] with whatever the schema of the other version does not know.
    ///
    /// Errors: as there.
    pub async fn converted_as_is(&self, mut object: Value, api_version: &str) -> Result<Value, Status> {
        let Some(custom) = &self.collection.kind.custom else {
            return Err(Status::internal("nothing converts between the versions of an object"));
        };
        let Some(converter) = custom.converter() else {
            object.make_object().insert("apiVersion", api_version);
            return Ok(object);
        };
        let converted = converter.convert(vec![object], api_version).await;
        let converted = converted.map_err(|why| Status::unknown(500, &why))?;
        // One for one is what a converter gives.
        Ok(converted.into_iter().next().unwrap_or_default())
    }
}
