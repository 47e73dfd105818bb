//! APIService: a group version and the server that serves it.

use binnacle_fields::apiregistration::v1::{
    APIService, APIServiceCondition as Condition, APIServiceSpec as Spec, APIServiceStatus as Status, ServiceReference,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, Time};
use binnacle_schema::Value;
use binnacle_validation::{checks, metadata, names};

use crate::Features;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ApiService;

impl Strategy for ApiService {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn reports_metadata(&self) -> bool {
        false
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(mut spec) = FieldMut::root(object).structure(APIService::SPEC)
            && let Some(mut service) = spec.structure(Spec::SERVICE)
        {
            service.default_nil(ServiceReference::PORT, 443i64);
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut api_service = FieldMut::<APIService>::root(object);
        api_service.remove(APIService::STATUS);
        // Local APIs are always available.
        if !api_service.read().at(APIService::SPEC).at(Spec::SERVICE).is_set() {
            let available = FieldMut::<Condition>::build(|mut condition| {
                condition.set(Condition::TYPE, "Available");
                condition.set(Condition::STATUS, "True");
                condition.set(Condition::LAST_TRANSITION_TIME, Time::from_unix(ctx.now, 0).to_string());
                condition.set(Condition::REASON, "Local");
                condition.set(Condition::MESSAGE, "Local APIServices are always available");
            });
            api_service.entry(APIService::STATUS).set(Status::CONDITIONS, vec![available]);
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), APIService::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<APIService>::root(object), FieldRef::root(old));
        new.keep(old, APIService::SPEC);
        let (mut metadata, old) = (new.entry(APIService::METADATA), old.at(APIService::METADATA));
        metadata.keep(old, ObjectMeta::LABELS);
        metadata.keep(old, ObjectMeta::ANNOTATIONS);
        metadata.keep(old, ObjectMeta::FINALIZERS);
        metadata.keep(old, ObjectMeta::OWNER_REFERENCES);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let api_service = FieldRef::<APIService>::root(object);
        let spec = api_service.at(APIService::SPEC);
        let (group, version) = (spec.at(Spec::GROUP), spec.at(Spec::VERSION));
        let own = api_service.at(APIService::METADATA);
        let wanted = format!("{}.{}", version.str(), group.str());
        let mut errors = metadata::validate(own.value(), false, |name, _| name_messages(name, &wanted), &own.path());
        if group.is_empty() && version.str() != "v1" {
            errors.push(group.required("only v1 may have an empty group and it better be legacy kube"));
        }
        if !group.is_empty() {
            checks::subdomain(&group, group.str(), &mut errors);
        }
        checks::invalid_for(&version, version.str(), names::dns1035_label(version.str()), &mut errors);
        for (field, max) in [(Spec::GROUP_PRIORITY_MINIMUM, 20000), (Spec::VERSION_PRIORITY, 1000)] {
            let priority = spec.at(field);
            if !(1..=max).contains(&priority.int_or_zero()) {
                errors.push(priority.invalid(format!("must be positive and less than {max}")));
            }
        }
        service(spec, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let api_service = FieldRef::<APIService>::root(object);
        let status = api_service.at(APIService::STATUS);
        for condition in errors.while_room(status.at(Status::CONDITIONS).items()) {
            let status = condition.at(Condition::STATUS);
            checks::one_of(&status, status.str(), &["True", "False", "Unknown"], &mut errors);
        }
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        names::path_segment(name, false)
    }
}

/// Validates the name, which consists of the version and the group.
fn name_messages(name: &str, wanted: &str) -> Vec<String> {
    let wrong = names::path_segment(name, false);
    if wrong.is_empty() && name != wanted {
        return vec![format!("must be `spec.version+\".\"+spec.group`: {}", binnacle_meta::go_quote(wanted))];
    }
    wrong
}

fn service(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let (insecure, bundle) = (spec.at(Spec::INSECURE_SKIP_TLS_VERIFY), spec.at(Spec::CA_BUNDLE));
    let service = spec.at(Spec::SERVICE);
    if !service.is_set() {
        if !bundle.is_empty() {
            let size = format!("{} bytes", decoded_len(bundle.str()));
            errors.push(bundle.invalid_as(&size, "local APIServices may not have a caBundle"));
        }
        if insecure.bool() {
            errors.push(insecure.invalid("local APIServices may not have insecureSkipTLSVerify"));
        }
        return;
    }
    for field in [ServiceReference::NAMESPACE, ServiceReference::NAME] {
        let field = service.at(field);
        checks::required(&field, field.str(), errors);
    }
    let port = service.at(ServiceReference::PORT);
    let messages = names::port_number(port.int_or_zero());
    if !messages.is_empty() {
        errors.push(port.invalid(format!("port is not valid: {}", messages.join(", "))));
    }
    if insecure.bool() && !bundle.is_empty() {
        errors.push(insecure.invalid("may not be true if caBundle is present"));
    }
}

/// Returns the length in bytes of decoded canonical base64 text.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}
