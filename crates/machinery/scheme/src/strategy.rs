//! The [`Strategy`] of kube-apiserver's registry: the rules for writes that differ between kinds, as a trait whose
//! default methods suit a kind without spec, status or its own rules.
//!
//! Strategies receive objects in the storage version of their kind, except for [`Strategy::set_defaults`].

use binnacle_features::Features;
use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::PartialObjectMetadata;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

/// The context of a request, passed to strategies.
#[derive(Clone, Copy, Debug)]
pub struct StrategyContext<'a> {
    /// Seconds since the epoch.
    pub now: i64,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The client's API version (`events.k8s.io/v1`): a few rules apply to newer versions only.
    pub api_version: &'a str,
    pub dry_run: bool,
    /// The feature gates and options of the server.
    pub features: &'a Features,
}

/// The grace period of an object's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteGrace {
    /// The kind has no graceful deletion.
    Unsupported,
    /// The object stays for this number of seconds; 0 deletes at once.
    Seconds(i64),
}

/// A check of the metadata of an updated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataCheck {
    /// The change, as for every update.
    Change,
    /// The new metadata as a whole, as for a create.
    Whole,
}

/// The ordered checks before the rules of a kind's updates, in addition to the [`MetadataCheck::Change`] that the
/// registry runs on every update. kube-apiserver runs some of them several times, and reports an error each time. Checks
/// between or after the rules are in [`Strategy::validate_change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    pub main: &'static [MetadataCheck],
    pub subresources: &'static [MetadataCheck],
}

impl MetadataChecks {
    pub const NONE: Self = Self { main: &[], subresources: &[] };
    pub const CHANGE: Self = Self { main: &[MetadataCheck::Change], subresources: &[MetadataCheck::Change] };
    /// Nothing for subresources.
    pub const WHOLE: Self = Self { main: &[MetadataCheck::Whole], subresources: &[] };
    /// The change for subresources, as in [`MetadataChecks::CHANGE`].
    pub const WHOLE_OR_CHANGE: Self = Self { main: &[MetadataCheck::Whole], ..Self::CHANGE };
    pub const WHOLE_THEN_CHANGE: Self = Self { main: &[MetadataCheck::Whole, MetadataCheck::Change], ..Self::CHANGE };
    pub const CHANGE_THEN_WHOLE: Self = Self { main: &[MetadataCheck::Change, MetadataCheck::Whole], ..Self::CHANGE };

    /// Returns the checks for a write to a subresource, or to the main endpoint if that is empty.
    pub fn of(&self, subresource: &str) -> &'static [MetadataCheck] {
        if subresource.is_empty() { self.main } else { self.subresources }
    }
}

/// The rules of one kind. The default methods are those of a plain kind; most kinds override a few of them.
///
/// | concern | methods |
/// | --- | --- |
/// | defaults | [`set_defaults`](Strategy::set_defaults) for objects of clients, [`complete_stored`](Strategy::complete_stored) for stored ones, [`pending_default`](Strategy::pending_default) and [`shared_default`](Strategy::shared_default) for those that are set late |
/// | preparation | `prepare_for_*`, before validation |
/// | validation | `validate*`, by the rules of the kind |
/// | metadata | [`validate_name`](Strategy::validate_name), [`metadata_checks`](Strategy::metadata_checks), and which errors are reported |
/// | warnings | `warnings*`, for valid writes and for deletes |
/// | deletion | [`forbids_delete`](Strategy::forbids_delete), [`delete_grace`](Strategy::delete_grace) |
/// | storage | [`is_rarely_read`](Strategy::is_rarely_read), [`is_read_from_store`](Strategy::is_read_from_store) |
///
/// They are in one trait, because most kinds have rules of most concerns: 67 kinds implement 3.7 of the seven on average.
/// A trait for each concern, with a struct of handles to those that a kind has, would make kinds longer without making
/// them clearer (a Deployment by 13 lines, a Pod by 21, a ConfigMap by 5, for further `impl` blocks and their
/// registration). It would also accept a kind whose rules are implemented but not registered, which then validates
/// nothing. Traits as supertraits would need an empty implementation for each concern without rules.
pub trait Strategy: Send + Sync + 'static {
    // === Defaults ===

    /// Sets the defaults of the kind's API version, in place; `object` is in that version. Constants of the field
    /// tables are already set. Called for every object from a client and after every patch.
    fn set_defaults(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Sets the defaults that a stored object may lack, because their values were reset or determined after defaulting.
    /// Returns true if any was set. Go applies all defaults on every read.
    fn complete_stored(&self, object: &mut Value) -> bool {
        let _ = object;
        false
    }

    /// Returns true if [`Strategy::complete_stored`] does anything.
    fn completes_stored(&self) -> bool {
        false
    }

    /// Returns the path and provisional value of a default that is set later because it depends on the name or the
    /// time, although Go sets it immediately. The writer of the object owns it like other defaults.
    fn pending_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        let _ = object;
        None
    }

    /// Returns the path and value of a default that mutating webhooks and policies see, although it is not set before
    /// [`Strategy::prepare_for_create`]: kube-apiserver sets it on decoding, but as a map shared by two fields. A
    /// webhook or policy that changes the object separates them, so that the default becomes a separate value.
    fn shared_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        let _ = object;
        None
    }

    // === Preparation of writes ===

    /// Called before validation on create: resets fields that clients cannot set (status), starts the generation.
    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let _ = (ctx, object);
    }

    /// Called before validation on update: restores fields that this endpoint cannot change (status), and increments
    /// the generation.
    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let _ = (ctx, object, old);
    }

    /// Called before validation of an update through a subresource such as `status`: restores fields that it may not
    /// change. By default everything but `status` and the metadata fields that status updates may change.
    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let _ = (subresource, ctx);
        keep_all_but_status(object, old);
    }

    // === Validation ===

    /// Validates an object by the rules of the kind; the registry validates `metadata`.
    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let _ = (ctx, object);
        FieldErrors::new()
    }

    /// Validates an object that a client creates, by rules in addition to those of [`Strategy::validate`].
    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let _ = (ctx, object);
        FieldErrors::new()
    }

    /// Validates an update, including [`Strategy::validate`] where kube-apiserver does so.
    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let _ = old;
        self.validate(ctx, object)
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let _ = (subresource, ctx, object, old);
        FieldErrors::new()
    }

    /// [`Strategy::validate_update`], or [`Strategy::validate_subresource`] if `subresource` is not empty. Errors that
    /// the old object also has may be tolerated; their texts are added to `tolerated` and become `Warning` headers.
    fn validate_change(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
        tolerated: &mut Vec<String>,
    ) -> FieldErrors {
        let _ = tolerated;
        match subresource {
            "" => self.validate_update(ctx, object, old),
            _ => self.validate_subresource(subresource, ctx, object, old),
        }
    }

    // === Validation of metadata ===

    /// Returns true if an object without a name gets its prefix with random letters, and not the prefix alone.
    fn generates_names(&self) -> bool {
        true
    }

    /// Validates `metadata.name` (or `generateName` if `prefix`), and returns error messages. By default a DNS-1123
    /// subdomain is required.
    fn validate_name(&self, features: &Features, name: &str, prefix: bool) -> Vec<String> {
        let _ = features;
        binnacle_validation::names::dns1123_subdomain_name(name, prefix)
    }

    /// Returns the metadata checks before the kind's update rules.
    fn metadata_checks(&self, ctx: &StrategyContext<'_>) -> MetadataChecks {
        let _ = ctx;
        MetadataChecks::CHANGE
    }

    /// Validates the metadata as a whole, including the domains of finalizers if the kind requires them.
    fn validate_whole_metadata(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let object = FieldRef::<PartialObjectMetadata>::root(object);
        let metadata = object.at(PartialObjectMetadata::METADATA);
        let rule = |name: &str, prefix: bool| self.validate_name(ctx.features, name, prefix);
        let (path, namespaced) = (metadata.path(), !ctx.namespace.is_empty());
        let mut errors = binnacle_validation::metadata::validate(metadata.value(), namespaced, rule, &path);
        if self.checks_finalizer_domains() {
            errors.extend(binnacle_validation::metadata::finalizers_have_domains(metadata.value(), &path));
        }
        errors
    }

    /// Validates the change of the metadata, including the domains of finalizers if the kind requires them.
    fn validate_metadata_change(&self, object: &Value, old: &Value) -> FieldErrors {
        let [new, old] = [object, old].map(FieldRef::<PartialObjectMetadata>::root);
        let (new, old) = (new.at(PartialObjectMetadata::METADATA), old.at(PartialObjectMetadata::METADATA));
        let path = new.path();
        let mut errors = binnacle_validation::metadata::validate_update(new.value(), old.value(), &path);
        if self.checks_finalizer_domains() {
            errors.extend(binnacle_validation::metadata::finalizers_have_domains(new.value(), &path));
        }
        errors
    }

    /// Returns true if errors of a new object's metadata are reported together with those of the kind's rules.
    /// Otherwise they are reported only if the rules find none, since the rules ignore metadata or check it themselves.
    fn reports_metadata(&self) -> bool {
        true
    }

    /// Returns true if the kind's rules require a domain in the name of each finalizer that is not a standard
    /// finalizer.
    fn checks_finalizer_domains(&self) -> bool {
        true
    }

    // === Warnings ===

    /// Returns texts for `Warning` headers; `old` is `None` on create.
    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (object, old);
        Vec::new()
    }

    /// Returns texts for `Warning` headers about a new object as the client sent it, before it is prepared.
    fn warnings_on_receipt(&self, object: &Value) -> Vec<String> {
        let _ = object;
        Vec::new()
    }

    /// Returns texts for `Warning` headers about an update through a subresource.
    fn warnings_on_subresource(&self, subresource: &str, object: &Value) -> Vec<String> {
        let _ = (subresource, object);
        Vec::new()
    }

    /// Returns texts for `Warning` headers about a delete, with or without a propagation policy.
    fn warnings_on_delete(&self, propagation_given: bool) -> Vec<String> {
        let _ = propagation_given;
        Vec::new()
    }

    // === Deletion ===

    /// Returns the reason why the object of this name cannot be deleted, if any. Deletes of a whole collection are not
    /// subject to it, as in kube-apiserver.
    fn forbids_delete(&self, name: &str) -> Option<&'static str> {
        let _ = name;
        None
    }

    /// Returns the grace period of a delete; `requested` is the requested one, if any.
    fn delete_grace(&self, object: &Value, requested: Option<i64>) -> DeleteGrace {
        let _ = (object, requested);
        DeleteGrace::Unsupported
    }

    // === Storage ===

    /// Returns true if objects are large and rarely read, so that the watch cache compresses them.
    fn is_rarely_read(&self) -> bool {
        false
    }

    /// Returns true if kube-apiserver has no watch cache for the kind, so that its storage reports an invalid version of a
    /// read.
    fn is_read_from_store(&self) -> bool {
        false
    }
}

/// The strategy of a kind without its own rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultStrategy;

impl Strategy for DefaultStrategy {}

/// Sets `metadata.generation`: 1 on create (`old` is `None`), one more when `changed`, the old one otherwise.
pub fn spec_generation(object: &mut Value, old: Option<&Value>, changed: impl FnOnce(&Value, &Value) -> bool) {
    let generation = match old {
        None => 1,
        Some(old) => old.int_at(&["metadata", "generation"]).unwrap_or(0) + i64::from(changed(object, old)),
    };
    object.make_at(&["metadata"]).insert("generation", generation);
}

/// Restores everything but the status and the metadata. A status update may change all metadata fields that are not
/// reserved for the main endpoint.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let Some(members) = object.as_object_mut() else { return };
    let status = members.remove("status");
    let metadata = members.remove("metadata");
    let mut merged = old.as_object().cloned().unwrap_or_default();
    merged.remove("status");
    if let Some(metadata) = metadata {
        merged.insert("metadata", metadata);
    }
    if let Some(status) = status {
        merged.insert("status", status);
    }
    *members = merged;
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, json};

    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).expect("it is JSON")
    }

    #[test]
    fn generation_counts_changes_of_the_spec() {
        for (object, old, want) in [
            (r#"{"spec": 1}"#, None, 1),
            (r#"{"spec": 1, "metadata": {"generation": 7}}"#, None, 1),
            (r#"{"spec": 1}"#, Some(r#"{"spec": 1, "metadata": {"generation": 3}}"#), 3),
            (r#"{"spec": 2, "metadata": {"generation": 9}}"#, Some(r#"{"spec": 1, "metadata": {"generation": 3}}"#), 4),
            (r#"{"spec": 2}"#, Some(r#"{"spec": 1}"#), 1),
        ] {
            let (mut object, old) = (parse(object), old.map(parse));
            spec_generation(&mut object, old.as_ref(), |new, old| new.get("spec") != old.get("spec"));
            assert_eq!(object.int_at(&["metadata", "generation"]), Some(want), "{object:?}");
        }
    }

    #[test]
    fn status_update_changes_only_status_and_metadata() {
        for (object, old, want) in [
            (
                r#"{"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": 2, "status": 2, "data": 2}"#,
                r#"{"metadata": {"name": "a"}, "spec": 1, "status": 1}"#,
                r#"{"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": 1, "status": 2}"#,
            ),
            (
                r#"{"metadata": {}}"#,
                r#"{"spec": 1, "status": 1, "data": 1}"#,
                r#"{"metadata": {}, "spec": 1, "data": 1}"#,
            ),
        ] {
            let features = Features::default();
            let ctx = StrategyContext { now: 0, namespace: "", api_version: "", dry_run: false, features: &features };
            let (mut changed, old) = (parse(object), parse(old));
            DefaultStrategy.prepare_for_subresource("status", &ctx, &mut changed, &old);
            assert_eq!(changed, parse(want), "{object}");
        }
    }
}
