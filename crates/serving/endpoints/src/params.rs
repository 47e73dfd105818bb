//! Query parameters of each verb, with kube-apiserver's errors.

use std::num::ParseIntError;

use binnacle_features::Features;
use binnacle_meta::{
    FieldError, FieldErrors, FieldPath, FieldSelector, FieldTerm, GroupKind, LabelSelector, ShardSelector, Status,
    Text, int_error,
};
use binnacle_registry::admission::WriteOptions;
use binnacle_registry::{ContinueToken, DeleteOptions, ListOptions, Match};
use binnacle_request::{Query, RequestInfo};
use binnacle_scheme::ResourceDescription;
use binnacle_validation::checks::of_named_type;

use crate::shards;

/// The options of a list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectionParams {
    pub list: ListOptions,
    pub watch: bool,
    pub resource_version: String,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    /// Zero for the default; a negative value ends a watch immediately.
    pub timeout_seconds: Option<i64>,
}

/// `fieldManager`, `dryRun` and `fieldValidation` of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteParams {
    pub field_manager: String,
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub force: Option<bool>,
    /// `fieldValidation` as sent by the client.
    sent_validation: Text,
}

impl WriteParams {
    /// Returns the options for admission.
    pub fn options(&self) -> WriteOptions {
        WriteOptions {
            dry_run: self.dry_run,
            field_manager: self.field_manager.as_str().into(),
            field_validation: self.sent_validation.clone(),
        }
    }
}

/// The handling of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The kind of a write's options, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Create,
    Update,
    Patch,
    Apply,
}

/// Parses the parameters of a list or watch of stored objects.
pub(crate) fn collection(
    query: &Query,
    info: &RequestInfo,
    resource: &ResourceDescription,
    features: &Features,
    force_watch: bool,
) -> Result<CollectionParams, Status> {
    let (mut params, version_match) = collection_without_version(query, info, resource, features, force_watch)?;
    if !params.watch {
        let in_one_scope = !resource.namespaced || !info.namespace.is_empty();
        let single = in_one_scope && params.list.fields.requires_exact_match("metadata.name").is_some();
        params.list.version = list_version(&params, version_match, single)?;
    }
    Ok(params)
}

/// Parses the parameters that do not depend on a storage, and returns them with `resourceVersionMatch`.
pub(crate) fn collection_without_version<'q>(
    query: &'q Query,
    info: &RequestInfo,
    resource: &ResourceDescription,
    features: &Features,
    force_watch: bool,
) -> Result<(CollectionParams, &'q str), Status> {
    let mut params = CollectionParams { watch: force_watch || query.flag("watch"), ..CollectionParams::default() };
    params.allow_bookmarks = query.flag("allowWatchBookmarks");
    params.timeout_seconds = integer(query, "timeoutSeconds")?;
    let limit = integer(query, "limit")?.unwrap_or(0);
    let label = query.get("labelSelector").unwrap_or("");
    params.list.labels = LabelSelector::parse(label).map_err(|e| Status::bad_request(e.to_string()))?;
    let field = query.get("fieldSelector").unwrap_or("");
    let fields = FieldSelector::parse(field).map_err(|e| Status::bad_request(e.to_string()))?;
    params.send_initial_events = query.contains("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
    params.resource_version = query.get("resourceVersion").unwrap_or("").to_owned();
    let mut version_match = query.get("resourceVersionMatch").unwrap_or("");
    let continue_token = query.get("continue").unwrap_or("");
    // Deprecated watch paths follow the rules of lists, unless `watch` is also set.
    let watch = query.flag("watch");
    let is_default_version = matches!(params.resource_version.as_str(), "" | "0");
    let is_default_match = params.send_initial_events.is_none() && version_match.is_empty();
    if watch && is_default_version && is_default_match && features.enabled("WatchList") {
        // Such watches have always started with the current objects; now a bookmark ends these (KEP-3157).
        params.send_initial_events = Some(true);
        version_match = NOT_OLDER_THAN;
    }
    validate_match(&params, features, watch, version_match, continue_token)?;
    params.list.fields = fields
        .transform(|label, value| resource.field_labels.resolve(label).map(|field| (field.into(), value.into())))
        .map_err(Status::bad_request)?;
    if !info.name.is_empty() {
        narrow_to_name(&mut params.list.fields, &info.name)?;
    }
    params.list.limit = limit.max(0) as usize;
    if !continue_token.is_empty() {
        params.list.continue_token = Some(continue_token.to_owned());
    }
    Ok((params, version_match))
}

/// Returns the shard that a client requests. kube-apiserver ignores it for objects that are not stored.
pub(crate) fn shard(query: &Query, features: &Features) -> Result<Option<ShardSelector>, Status> {
    let text = query.get("shardSelector").filter(|text| !text.is_empty() && features.enabled("ShardedListAndWatch"));
    let parsed = text.map(shards::parse).transpose();
    parsed.map_err(|why| Status::unknown(500, &format!("invalid shard selector: {why}")))
}

const NOT_OLDER_THAN: &str = "NotOlderThan";

/// Returns the requested version of a list; `single` if it can have only one object.
fn list_version(params: &CollectionParams, version_match: &str, single: bool) -> Result<Match, Status> {
    let text = params.resource_version.as_str();
    if text.is_empty() {
        return Ok(Match::Consistent);
    }
    if params.list.continue_token.is_some() {
        if text != "0" {
            // An invalid token is reported first.
            params.list.continue_token.as_deref().map(ContinueToken::decode).transpose()?;
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        return Ok(Match::Consistent);
    }
    let version = resource_version(text).map_err(|why| invalid_resource_version(&why))?;
    Ok(match version_match {
        // Zero in another notation does not match exactly.
        "Exact" if version == 0 => Match::Consistent,
        "Exact" => Match::Exact(version),
        "NotOlderThan" if version == 0 => Match::Any,
        "NotOlderThan" => Match::NotOlderThan(version),
        // Without a match, a page of a limited list is read at exactly that version.
        // kube-apiserver reads the newest object in the store instead, if there can be only one.
        _ if version > 0 && params.list.limit > 0 && single => Match::Reached(version),
        _ if version > 0 && params.list.limit > 0 => Match::Exact(version),
        // Only the text `0` means any version.
        _ if text != "0" => Match::NotOlderThan(version),
        _ => Match::Any,
    })
}

fn validate_match(
    params: &CollectionParams,
    features: &Features,
    watch: bool,
    version_match: &str,
    continue_token: &str,
) -> Result<(), Status> {
    let path = FieldPath::new("resourceVersionMatch");
    let mut errors = FieldErrors::new();
    let forbid_continue = |errors: &mut FieldErrors| {
        if !continue_token.is_empty() {
            errors.push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
        }
    };
    if watch {
        if params.send_initial_events.is_some() {
            if version_match != NOT_OLDER_THAN {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(&path, detail));
            }
            if !features.enabled("WatchList") {
                let path = FieldPath::new("sendInitialEvents");
                let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                errors.push(FieldError::forbidden(&path, detail));
            }
        }
        if !version_match.is_empty() {
            if params.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&path, detail));
            }
            if version_match != NOT_OLDER_THAN {
                errors.push(FieldError::not_supported(&path, of_named_type(version_match), &["NotOlderThan"]));
            }
            forbid_continue(&mut errors);
        }
    } else {
        if !version_match.is_empty() {
            if params.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(&path, detail));
            }
            forbid_continue(&mut errors);
            if version_match != "Exact" && version_match != "NotOlderThan" {
                errors.push(FieldError::not_supported(
                    &path,
                    of_named_type(version_match),
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if version_match == "Exact" && params.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(&path, detail));
            }
        }
        if params.send_initial_events.is_some() {
            let path = FieldPath::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
    }
    invalid("ListOptions", errors)
}

/// Restricts a list or watch to the name in the path.
///
/// # Errors
///
/// Fails if a field selector has another name.
fn narrow_to_name(fields: &mut FieldSelector, name: &str) -> Result<(), Status> {
    if fields.is_everything() {
        *fields =
            FieldSelector::new(vec![FieldTerm { field: "metadata.name".into(), value: name.into(), negated: false }]);
        return Ok(());
    }
    if fields.requires_exact_match("metadata.name") != Some(name) {
        return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    Ok(())
}

pub fn write(query: &Query, kind: WriteKind) -> Result<WriteParams, Status> {
    let mut errors = FieldErrors::new();
    let force = query.contains("force").then(|| query.flag("force"));
    let field_manager = query.get("fieldManager").unwrap_or("");
    match kind {
        WriteKind::Apply if field_manager.is_empty() => {
            let path = FieldPath::new("fieldManager");
            errors.push(FieldError::required(&path, "is required for apply patch"));
        }
        WriteKind::Patch if force.is_some() => {
            let path = FieldPath::new("force");
            errors.push(FieldError::forbidden(&path, "may not be specified for non-apply patch"));
        }
        _ => {}
    }
    binnacle_validation::options::field_manager(field_manager, &FieldPath::new("fieldManager"), &mut errors);
    let dry_run = dry_run(query);
    binnacle_validation::options::dry_run(&dry_run, &mut errors);
    let validation = query.get("fieldValidation").unwrap_or("");
    binnacle_validation::options::field_validation(validation, &mut errors);
    let options_kind = match kind {
        WriteKind::Create => "CreateOptions",
        WriteKind::Update => "UpdateOptions",
        WriteKind::Patch | WriteKind::Apply => "PatchOptions",
    };
    invalid(options_kind, errors)?;
    Ok(WriteParams {
        field_manager: field_manager.to_owned(),
        dry_run: !dry_run.is_empty(),
        validation: match validation {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        },
        force,
        sent_validation: validation.into(),
    })
}

/// Parses DeleteOptions from the query, for deletes without a body.
pub(crate) fn delete(query: &Query) -> Result<DeleteOptions, Status> {
    // Preconditions are separate parameters in queries but an object in bodies.
    let precondition = |name: &str| query.get(name).filter(|value| !value.is_empty()).map(Text::from);
    let (uid, resource_version) = (precondition("uid"), precondition("resourceVersion"));
    Ok(DeleteOptions {
        has_preconditions: uid.is_some() || resource_version.is_some(),
        uid,
        resource_version,
        grace_period_seconds: integer(query, "gracePeriodSeconds")?,
        orphan_dependents: query.contains("orphanDependents").then(|| query.flag("orphanDependents")),
        propagation_policy: query.get("propagationPolicy").map(Text::from),
        dry_run: dry_run(query),
        ignore_read_error: query.flag("ignoreStoreReadErrorWithClusterBreakingPotential"),
    })
}

/// Parses a resource version.
///
/// # Errors
///
/// Returns the message about an invalid version.
pub(crate) fn resource_version(text: &str) -> Result<u64, String> {
    let why = match text.parse() {
        Ok(version) if text.starts_with(|c: char| c.is_ascii_digit()) => return Ok(version),
        Err(error) if !text.starts_with('+') => int_error(&error),
        _ => "invalid syntax",
    };
    let quoted = binnacle_meta::go_quote(text);
    Err(format!("resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"))
}

/// Returns the storage layer's error for an invalid version.
pub(crate) fn invalid_resource_version(why: &str) -> Status {
    Status::bad_request(format!("invalid resource version: {why}"))
}

/// Returns 422 for the options of a request, if there are errors.
fn invalid(kind: &str, errors: FieldErrors) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &errors)) }
}

/// Returns the values of `dryRun`. An empty value is included and invalid; it must not turn a dry run into a write.
pub fn dry_run(query: &Query) -> Vec<String> {
    query.get_all("dryRun").map(str::to_owned).collect()
}

/// Rejects `export`, which returned objects without cluster-specific fields before 1.18.
///
/// # Errors
///
/// Returns 400 for such a read.
pub fn reject_export(query: &Query) -> Result<(), Status> {
    match query.flag("export") {
        true => Err(Status::bad_request("the export parameter, deprecated since v1.14, is no longer supported")),
        false => Ok(()),
    }
}

/// Returns an integer parameter. As in kube-apiserver, an empty value is invalid.
fn integer(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    match query.get(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|e: ParseIntError| {
            let why = int_error(&e);
            Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", binnacle_meta::go_quote(text)))
        }),
    }
}

#[cfg(test)]
mod tests;
