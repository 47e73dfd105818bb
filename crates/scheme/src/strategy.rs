//! The [`Strategy`] of kube-apiserver's registry, the rules by which one kind's writes differ from another's, as one
//! trait whose defaults suit a kind without spec, status or rules of its own.
//!
//! Strategies see objects in the storage version of their kind, except for [`Strategy::set_defaults`].

use binnacle_features::Features;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

/// The context of a request, for strategies.
#[derive(Clone, Copy, Debug)]
pub struct StrategyContext<'a> {
    /// Seconds since the epoch.
    pub now: i64,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The version that the client speaks (`events.k8s.io/v1`): a few rules are for newer versions only.
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
    /// Stays for so many seconds; 0 deletes at once.
    Seconds(i64),
}

/// The number and order of the checks of a change of metadata as a whole (`all`) and of the domains in the names of its
/// finalizers (`domains`), beside the check that is common to all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataCheck {
    /// `domains`
    Once,
    /// `all`, `domains`
    All,
    /// `all`, `domains`, `domains`
    AllThenChange,
    /// `domains`, `all`, `domains`
    ChangeThenAll,
}

/// The rules of one kind. Every method has the behaviour of a plain kind as its default.
pub trait Strategy: Send + Sync + 'static {
    /// Fills in the defaults of the kind's API version, in place; `object` is in that version. Constants of the field
    /// tables have been applied already. Called for every object that a client sends and after every patch.
    fn set_defaults(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Fills in the defaults that a stored object may lack, because their values were reset or became known after the
    /// object had got its defaults. True when there were any. Go applies all defaults whenever it reads.
    fn complete_stored(&self, object: &mut Value) -> bool {
        let _ = object;
        false
    }

    /// True when [`Strategy::complete_stored`] does anything.
    fn completes_stored(&self) -> bool {
        false
    }

    /// A default that is known only later (it needs the name, or the time) although Go has it from the start:
    /// its path and its value for now. The writer of the object owns it as they own other defaults.
    fn pending_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        let _ = object;
        None
    }

    /// Called before validation on create: resets fields that clients may not set (status), starts the generation.
    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        let _ = (situation, object);
    }

    /// Called before validation on update: restores fields that this endpoint may not change (status), bumps the
    /// generation.
    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let _ = (situation, object, old);
    }

    /// Called before validation of an update through a subresource such as `status`: restores fields that it may not
    /// change. The default restores everything but `status` and the fields of the metadata that status updates may
    /// change.
    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        let _ = (subresource, situation);
        keep_all_but_status(object, old);
    }

    /// The rules of the kind; those of `metadata` are checked by the registry.
    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let _ = (situation, object);
        FieldErrors::new()
    }

    /// Rules for objects that clients create, beside those of [`Strategy::validate`], which hold for every object.
    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let _ = (situation, object);
        FieldErrors::new()
    }

    /// The rules for a change, those of [`Strategy::validate`] included where kube-apiserver does so.
    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let _ = old;
        self.validate(situation, object)
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let _ = (subresource, situation, object, old);
        FieldErrors::new()
    }

    /// Texts for `Warning` headers; `old` is `None` on create.
    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (object, old);
        Vec::new()
    }

    /// Texts for `Warning` headers about an object to be created as the client sent it, before it is prepared.
    fn warnings_on_receipt(&self, object: &Value) -> Vec<String> {
        let _ = object;
        Vec::new()
    }

    /// Texts for `Warning` headers of an update through a subresource.
    fn warnings_on_subresource(&self, subresource: &str, object: &Value) -> Vec<String> {
        let _ = (subresource, object);
        Vec::new()
    }

    /// Texts for `Warning` headers of a delete; `propagation_given`: the client names a propagation policy.
    fn warnings_on_delete(&self, propagation_given: bool) -> Vec<String> {
        let _ = propagation_given;
        Vec::new()
    }

    /// The rule for `metadata.name` (and `generateName` when `prefix`): returns the messages of errors. The default is
    /// a DNS-1123 subdomain.
    fn validate_name(&self, features: &Features, name: &str, prefix: bool) -> Vec<String> {
        let _ = features;
        binnacle_validation::names::dns1123_subdomain_name(name, prefix)
    }

    /// True when errors of a new object's metadata are reported together with those of the kind's rules; else they are
    /// reported only where the rules find none, because the rules ignore metadata or check it themselves.
    fn reports_metadata(&self) -> bool {
        true
    }

    /// True when the kind's rules want a domain in the name of each finalizer that is not the system's.
    fn checks_finalizer_domains(&self) -> bool {
        true
    }

    /// The further check of metadata as a whole by the kind's rules for a change, beside the registry's own check: its
    /// errors are then reported twice, as by kube-apiserver.
    fn checks_metadata_on_update(&self) -> MetadataCheck {
        MetadataCheck::Once
    }

    /// The grace period of a delete, from the one asked for (`None`: not given).
    fn delete_grace(&self, object: &Value, asked: Option<i64>) -> DeleteGrace {
        let _ = (object, asked);
        DeleteGrace::Unsupported
    }
}

/// A kind without rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}

/// Sets `metadata.generation`: 1 on create (`old` is `None`), one more when `changed`, the old one otherwise.
pub fn spec_generation(object: &mut Value, old: Option<&Value>, changed: impl FnOnce(&Value, &Value) -> bool) {
    let generation = match old {
        None => 1,
        Some(old) => old.int_at(&["metadata", "generation"]).unwrap_or(0) + i64::from(changed(object, old)),
    };
    object.make_at(&["metadata"]).insert("generation", generation);
}

/// Restores all but the status and the metadata, of which a status update may change all that is not the main
/// endpoint's alone.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let Some(members) = object.as_object_mut() else { return };
    let status = members.remove("status");
    let metadata = members.remove("metadata");
    let mut kept = old.as_object().cloned().unwrap_or_default();
    kept.remove("status");
    if let Some(metadata) = metadata {
        kept.insert("metadata", metadata);
    }
    if let Some(status) = status {
        kept.insert("status", status);
    }
    *members = kept;
}
