//! Server-side apply: merges a configuration into an object, prunes fields that the manager no longer applies and no
//! other one owns, and changes fields of other managers only if forced.

use binnacle_meta::{GroupVersion, Text, Time};
use binnacle_schema::{Message, Object, Value};

use crate::order::same;

use super::compare::Comparison;
use super::conflict::{ApplyError, FieldConflict, conflicts_of, manager_identifier};
use super::managed::{self, Entry, OwnedFields};
use super::prune::prune;
use super::shape::{Shape, empty};
use super::{Apply, Update, field_set, last_applied, merging, track, validate};

/// The manager of the fields that an object without managers has before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The result of an apply.
#[derive(Debug)]
pub struct ApplyResult {
    /// The new object, with its `metadata.managedFields`.
    pub object: Value,
    /// False if the object is the live one, apart from its managers.
    pub changed: bool,
}

/// Applies `config` to `live` (`None` to create an object).
///
/// `live` is decoded, in the version of the request; `config` is as the client sent it. The result contains the values
/// of `config` as sent: the caller decodes it and sets defaults. If nothing changes, the result is `live`, including
/// its timestamps.
pub fn apply(request: &Apply<'_>, live: Option<&Value>, config: &Value) -> Result<ApplyResult, ApplyError> {
    let update = &request.update;
    let shape = Shape::of_message(update.message);
    let mut entries = match live {
        Some(live) => managed::decode(live.list_at(&["metadata", "managedFields"]), true).map_err(
            |managed::InvalidManagedFields(_)| ApplyError::Failed("failed to decode managed fields".to_owned()),
        )?,
        None => Vec::new(),
    };
    if let Some(live) = live
        && entries.is_empty()
    {
        let before = Update { manager: BEFORE_FIRST_APPLY, ..*update };
        let failed = |why: String| ApplyError::Failed(format!("failed to create manager for existing fields: {why}"));
        validate::validate_live(update.message, live).map_err(|errors| {
            failed(format!("failed to convert new object ({}) to smd typed: {errors}", describe(live)))
        })?;
        entries = track::updated(&before, entries, empty(), live, None).map_err(|error| failed(error.to_string()))?;
    }
    if has_managers(config) {
        return Err(ApplyError::HasManagers);
    }
    validate::validate(shape, config).map_err(|errors| {
        ApplyError::Failed(format!("failed to create typed patch object ({}): {errors}", describe(config)))
    })?;
    if let Some(live) = live {
        validate::validate_live(update.message, live).map_err(|errors| {
            ApplyError::Failed(format!("failed to create typed live object ({}): {errors}", describe(live)))
        })?;
    }
    let merge = Applier { request, shape, live: live.unwrap_or_else(|| empty()), config };
    let applied = match merge.apply(entries.clone(), request.force) {
        Err(ApplyFailure::Conflicts(conflicts)) => {
            let left = last_applied::without_last_applied(update, merge.live, conflicts);
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left.into_iter().map(|found| found.conflict).collect()));
            }
            merge.apply(entries, true)
        }
        other => other,
    };
    let (changed, entries) = match applied {
        Ok(applied) => applied,
        Err(ApplyFailure::Conflicts(conflicts)) => {
            return Err(ApplyError::Conflicts(conflicts.into_iter().map(|found| found.conflict).collect()));
        }
        Err(ApplyFailure::Failed(message)) => return Err(ApplyError::Failed(message)),
    };
    let (changed, mut object) = (changed.is_some(), changed.unwrap_or_else(|| merge.live.clone()));
    // `managedFields` is overwritten or removed below.
    object.make_at(&["metadata"]);
    track::store(&mut object, entries);
    last_applied::update_annotation(update, config, &mut object);
    Ok(ApplyResult { object, changed })
}

/// Returns true if a configuration has managed fields. A list that Go cannot decode counts as absent.
fn has_managers(config: &Value) -> bool {
    const TEXTS: [&str; 5] = ["apiVersion", "fieldsType", "manager", "operation", "subresource"];
    let is_entry = |entry: &Value| {
        entry.as_object().is_some_and(|entry| {
            let mut texts = TEXTS.iter().filter_map(|name| entry.get(name));
            texts.all(|value| matches!(value, Value::Str(_) | Value::Null))
        })
    };
    let managed_fields = config.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    managed_fields.and_then(Value::as_list).is_some_and(|entries| entries.iter().all(is_entry))
}

/// `namespace/name; group/version, Kind=kind`
pub fn describe(config: &Value) -> String {
    let version = config.str_at(&["apiVersion"]);
    let kind = GroupVersion::parse(version).unwrap_or_else(|| GroupVersion::new("", version));
    let (namespace, name) = (config.str_at(&["metadata", "namespace"]), config.str_at(&["metadata", "name"]));
    format!("{namespace}/{name}; {}/{}, Kind={}", kind.group, kind.version, config.str_at(&["kind"]))
}

/// The reason why an apply failed.
pub(super) enum ApplyFailure {
    Conflicts(Vec<FieldConflict>),
    Failed(String),
}

struct Applier<'a> {
    request: &'a Apply<'a>,
    shape: Shape<'a>,
    live: &'a Value,
    config: &'a Value,
}

impl Applier<'_> {
    /// Returns the new object, `None` if it has not changed, and the entries.
    fn apply(&self, mut entries: Vec<Entry>, force: bool) -> Result<(Option<Value>, Vec<Entry>), ApplyFailure> {
        let update = &self.request.update;
        self.reconcile(&mut entries)?;
        let merged = merging::merge(self.shape, Some(self.live), Some(self.config))
            .map_err(|errors| ApplyFailure::Failed(format!("failed to merge config: {errors}")))?
            .unwrap_or_else(|| Value::Object(Object::new()));
        let mut own = Entry::new(update.manager, true, update.api_version, update.subresource);
        let mut set = field_set::of_value(self.shape, self.config);
        set.subtract_recursively(&track::reset_fields(update.reset));
        own.owned = OwnedFields::Set(set);
        let last = entries.iter().position(|entry| entry.is_same(&own)).map(|at| entries.remove(at));
        own.time = last.as_ref().and_then(|last| last.time.clone());
        entries.push(own);
        let merged = match last {
            Some(last) => prune(self.request, merged, &mut entries, last)
                .map_err(|message| ApplyFailure::Failed(format!("failed to prune fields: {message}")))?,
            None => merged,
        };
        self.disown_changed_fields(&mut entries, &merged, force)?;
        entries.retain(|entry| !entry.owns_nothing());
        let changed = !same(self.live, &merged);
        if let Some(own) = entries.iter_mut().find(|entry| entry.is_same(&self.own_entry())) {
            own.set().subtract(&track::untracked());
            if changed {
                own.time = Some(Time::from_unix(update.now, 0).to_string().into());
            }
        }
        entries.retain(|entry| !entry.owns_nothing());
        Ok((changed.then_some(merged), entries))
    }

    fn own_entry(&self) -> Entry {
        let update = &self.request.update;
        Entry::new(update.manager, true, update.api_version, update.subresource)
    }

    /// Reconciles entries with the current schema, and removes those of versions that are no longer served.
    fn reconcile(&self, entries: &mut Vec<Entry>) -> Result<(), ApplyFailure> {
        let mut messages: Vec<(Text, Option<&Message>)> = Vec::new();
        let mut failure = None;
        entries.retain_mut(|entry| {
            if entry.api_version == self.request.update.api_version {
                entry.set().reconcile(self.shape);
                return true;
            }
            let existing = messages.iter().position(|(version, _)| *version == entry.api_version);
            let at = existing.unwrap_or_else(|| {
                let converted = track::converted(self.request.versions, self.live, &entry.api_version);
                let converted = converted.unwrap_or_else(|errors| {
                    failure = Some(ApplyFailure::Failed(errors.to_string()));
                    None
                });
                messages.push((entry.api_version.clone(), converted.map(|(_, message)| message)));
                messages.len() - 1
            });
            match messages[at].1 {
                Some(message) => {
                    entry.set().reconcile(Shape::of_message(message));
                    true
                }
                None => false,
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Removes the changed fields from the entries of other managers, or returns conflicts.
    fn disown_changed_fields(&self, entries: &mut Vec<Entry>, merged: &Value, force: bool) -> Result<(), ApplyFailure> {
        let update = &self.request.update;
        let failed = |error: track::CompareError| ApplyFailure::Failed(error.to_string());
        let own = self.own_entry();
        let mut versions: Vec<(Text, Option<Comparison>)> =
            vec![(update.api_version.into(), Some(track::changes(update, self.live, merged).map_err(failed)?))];
        for entry in entries.iter().filter(|entry| !entry.is_same(&own)) {
            if !versions.iter().any(|(version, _)| *version == entry.api_version) {
                let comparison =
                    track::in_version(update, self.request.versions, &entry.api_version, self.live, merged);
                let comparison = comparison.map_err(failed)?.map(|(comparison, _)| comparison);
                versions.push((entry.api_version.clone(), comparison));
            }
        }
        let comparison = |entry: &Entry| {
            versions.iter().find(|(version, _)| *version == entry.api_version).and_then(|(_, c)| c.as_ref())
        };
        entries.retain(|entry| entry.is_same(&own) || comparison(entry).is_some());
        if !force {
            let mut conflicts: Vec<(String, Vec<FieldConflict>)> = Vec::new();
            for entry in entries.iter_mut().filter(|entry| !entry.is_same(&own)) {
                let Some(comparison) = comparison(entry) else { continue };
                let fields = entry.set().intersection(&comparison.changed);
                if !fields.is_empty() {
                    conflicts.push((manager_identifier(entry), conflicts_of(entry, &fields)));
                }
            }
            if !conflicts.is_empty() {
                conflicts.sort_by(|a, b| a.0.cmp(&b.0));
                return Err(ApplyFailure::Conflicts(conflicts.into_iter().flat_map(|(_, found)| found).collect()));
            }
        }
        for entry in entries.iter_mut().filter(|entry| !entry.is_same(&own)) {
            if let Some(comparison) = comparison(entry) {
                entry.take(&comparison.changed, None);
                entry.take(&comparison.removed, None);
            }
        }
        Ok(())
    }
}
