//! The Scale of a workload or custom resource, and its replicas.

use binnacle_fields::apps::v1::{
    Deployment as Workload, DeploymentSpec as WorkloadSpec, DeploymentStatus as WorkloadStatus,
};
use binnacle_fields::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement as Requirement, ObjectMeta};
use binnacle_fields::types::{Map, Str};
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{GroupKind, Status, Text};
use binnacle_registry::object;
use binnacle_schema::{Value, json};
use binnacle_scheme::ScaleFields;
use binnacle_validation::{metadata as validate_metadata, names};

pub(super) const GROUP: &str = "autoscaling";
pub(super) const VERSION: &str = "v1";
pub(super) const KIND: &str = "Scale";
pub(super) const SCALE: &str = "autoscaling/v1";

/// The path of the replicas of built-in workloads. Their fields have the names of a Deployment's.
const REPLICAS_PATH: &str = "spec.replicas";

/// Returns the path of the replicas, if any, in each version of the workload's kind.
pub(super) fn replicas_by_version<'a>(
    fields: Option<&'a ScaleFields>,
    api_version: &'a str,
) -> Vec<(&'a str, Option<&'a str>)> {
    match fields {
        Some(fields) => fields.versions.iter().map(|(version, path)| (version.as_str(), path.as_deref())).collect(),
        None => vec![(api_version, Some(REPLICAS_PATH))],
    }
}

/// Returns the dotted path of a workload's replicas.
pub(super) fn replicas_path(fields: Option<&ScaleFields>) -> String {
    fields.map_or(REPLICAS_PATH.to_owned(), |fields| fields.spec_replicas.join("."))
}

/// Checks that the parents of a custom resource's replicas are objects, as far as they exist.
pub(super) fn check_parents(fields: Option<&ScaleFields>, workload: &Value) -> Result<(), Status> {
    let Some([parents @ .., _]) = fields.map(|fields| &fields.spec_replicas[..]) else { return Ok(()) };
    let mut found = workload;
    for (depth, name) in parents.iter().enumerate() {
        match found.get(name) {
            None => return Ok(()),
            Some(next @ Value::Object(_)) => found = next,
            Some(_) => {
                let path = parents[..=depth].join(".");
                let why = format!("value cannot be set because .{path} is not a map[string]interface{{}}");
                return Err(Status::unknown(500, &why));
            }
        }
    }
    Ok(())
}

/// Writes the replicas of a scale into its workload.
pub(super) fn set_replicas(fields: Option<&ScaleFields>, workload: &mut Value, replicas: i64) {
    match fields.map(|fields| &fields.spec_replicas[..]) {
        None => {
            let mut workload = FieldMut::<Workload>::root(workload);
            workload.entry(Workload::SPEC).set(WorkloadSpec::REPLICAS, replicas);
        }
        Some([parents @ .., member]) => {
            let parents: Vec<&str> = parents.iter().map(Text::as_str).collect();
            workload.make_at(&parents).insert(member.clone(), replicas);
        }
        Some([]) => {}
    }
}

/// Returns the replicas of a Scale; `None` if absent.
pub(super) fn spec_replicas(scale: &Value) -> Option<i64> {
    FieldRef::<Scale>::root(scale).at(Scale::SPEC).at(ScaleSpec::REPLICAS).int()
}

/// Validates the Scale of a built-in workload.
pub(super) fn validate(scale: &Value) -> Result<(), Status> {
    let root = FieldRef::<Scale>::root(scale);
    let own = root.at(Scale::METADATA);
    let path = own.path();
    let mut errors = validate_metadata::validate(own.value(), true, names::dns1123_subdomain_name, &path);
    errors.extend(validate_metadata::finalizers_have_domains(own.value(), &path));
    let spec = root.at(Scale::SPEC);
    let replicas = spec.at(ScaleSpec::REPLICAS);
    if replicas.int_or_zero() < 0 {
        errors.push(replicas.invalid("must be greater than or equal to 0"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new(GROUP, KIND), object::name(scale), &errors))
}

/// Returns the value at a path of members.
pub(super) fn at<'v>(object: &'v Value, path: &[Text]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Returns the replicas, or 0 if absent.
///
/// # Errors
///
/// Returns 500 if the value is not a number.
fn replicas_at(object: &Value, path: &[Text]) -> Result<i64, Status> {
    match at(object, path) {
        None => Ok(0),
        Some(Value::Int(n)) => Ok(*n),
        Some(other) => {
            let path = path.join(".");
            let found = json::json_type(other);
            Err(Status::unknown(
                500,
                &format!(".{path} accessor error: {found} is of the type {found}, expected int64"),
            ))
        }
    }
}

/// Returns the Scale of a workload (in its stored version), or of a custom resource with its configured fields.
pub(super) fn scale_of(fields: Option<&ScaleFields>, workload: &Value) -> Result<Value, Status> {
    let (replicas, status_replicas, selector) = match fields {
        None => {
            let built_in = FieldRef::<Workload>::root(workload);
            let (spec, status) = (built_in.at(Workload::SPEC), built_in.at(Workload::STATUS));
            let replicas = spec.at(WorkloadSpec::REPLICAS).int_or_zero();
            let selector = selector(spec.at(WorkloadSpec::SELECTOR));
            (replicas, status.at(WorkloadStatus::REPLICAS).int_or_zero(), selector)
        }
        Some(fields) => {
            let selector = fields.label_selector.as_ref().and_then(|path| at(workload, path)?.as_str());
            (
                replicas_at(workload, &fields.spec_replicas)?,
                replicas_at(workload, &fields.status_replicas)?,
                selector.unwrap_or_default().to_owned(),
            )
        }
    };
    Ok(FieldMut::<Scale>::build(|mut scale| {
        scale.set(Scale::KIND, KIND);
        scale.set(Scale::API_VERSION, SCALE);
        let (of_workload, mut of_scale) = (metadata(workload), scale.entry(Scale::METADATA));
        of_scale.keep(of_workload, ObjectMeta::NAME);
        of_scale.keep(of_workload, ObjectMeta::NAMESPACE);
        of_scale.keep(of_workload, ObjectMeta::UID);
        of_scale.keep(of_workload, ObjectMeta::RESOURCE_VERSION);
        of_scale.keep(of_workload, ObjectMeta::CREATION_TIMESTAMP);
        let mut spec = scale.entry(Scale::SPEC);
        if replicas != 0 {
            spec.set(ScaleSpec::REPLICAS, replicas);
        }
        let mut status = scale.entry(Scale::STATUS);
        status.set(ScaleStatus::REPLICAS, status_replicas);
        if !selector.is_empty() {
            status.set(ScaleStatus::SELECTOR, selector);
        }
    }))
}

/// Returns the workload's selector as text: of a LabelSelector, or of the map of a replication controller.
fn selector(selector: FieldRef<LabelSelector>) -> String {
    let labels = selector.at(LabelSelector::MATCH_LABELS);
    let expressions = selector.at(LabelSelector::MATCH_EXPRESSIONS);
    // The values of a map are texts.
    let is_map = labels.object().is_none() && expressions.value().as_list().is_none();
    let plain: FieldRef<Map<Str>> = if is_map { selector.cast() } else { labels };
    let mut terms: Vec<(String, String)> =
        plain.entries().map(|(key, value)| (key.to_owned(), format!("{key}={}", value.str()))).collect();
    for expression in expressions.values() {
        let key = expression.at(Requirement::KEY).str();
        let mut values: Vec<&str> = expression.at(Requirement::VALUES).strs().collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.at(Requirement::OPERATOR).str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), term));
    }
    // Stable: terms with equal keys keep their order.
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, value};

    use super::*;

    /// Checks the selector of a Scale. `members` is the selector of the workload.
    fn check_selector(members: &str, want: &str) {
        let workload = format!(r#"{{"spec": {{"selector": {members}}}}}"#);
        let workload = json::parse(workload.as_bytes(), &Limits::default()).unwrap();
        let scale = scale_of(None, &workload).unwrap();
        assert_eq!(scale.str_at(&["status", "selector"]), want, "{members}");
    }

    #[test]
    fn validates_metadata_and_replicas() {
        let scale = |metadata: Value, replicas: i64| value!({"metadata": metadata, "spec": {"replicas": replicas}});
        let texts = |scale: &Value| validate(scale).map_err(|status| status.message().to_owned());
        let own = value!({"name": "a", "namespace": "n"});
        assert_eq!(texts(&scale(own.clone(), 1)), Ok(()));
        let head = "Scale.autoscaling \"a\" is invalid";
        let why = "spec.replicas: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(texts(&scale(own.clone(), -1)), Err(format!("{head}: {why}")));
        let mut labelled = own;
        labelled.make_object().insert("finalizers", value!(["x"]));
        let finalizer = "metadata.finalizers[0]: Invalid value: \"x\": name is neither a standard finalizer name nor is it \
                         fully qualified";
        assert_eq!(texts(&scale(labelled, -1)), Err(format!("{head}: [{finalizer}, {why}]")));
    }

    #[test]
    fn selectors_are_texts_in_the_order_of_their_keys() {
        check_selector("null", "");
        check_selector("{}", "");
        check_selector(r#"{"matchLabels": {"b": "1", "a": ""}}"#, "a=,b=1");
        check_selector(
            r#"{"matchLabels": {"c": "1"}, "matchExpressions": [
                {"key": "d", "operator": "NotIn", "values": ["z", "y"]}, {"key": "a", "operator": "In", "values": ["x"]},
                {"key": "b", "operator": "Exists"}, {"key": "e", "operator": "DoesNotExist"}
            ]}"#,
            "a in (x),b,c=1,d notin (y,z),!e",
        );
        // The map of a replication controller, whose labels may have any name.
        check_selector(r#"{"b": "1", "a": "2"}"#, "a=2,b=1");
        check_selector(r#"{"matchLabels": "1", "a": "2"}"#, "a=2,matchLabels=1");
    }

    #[test]
    fn scale_has_the_identity_and_the_numbers_of_its_workload() {
        let workload = value!({
            "metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"replicas": 3i64}, "status": {"replicas": 2i64, "readyReplicas": 1i64},
        });
        let want = value!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3i64}, "status": {"replicas": 2i64},
        });
        assert_eq!(scale_of(None, &workload).unwrap(), want);
        // A replica count of zero is omitted in the spec only.
        let want = value!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {}, "status": {"replicas": 0i64},
        });
        assert_eq!(scale_of(None, &value!({})).unwrap(), want);
    }
}
