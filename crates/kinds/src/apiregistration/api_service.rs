//! APIService: a group version and the server that serves it.

use binnacle_meta::Time;
use binnacle_schema::{Value, value};

use crate::prepare::{clear_status, default_to, is_set, put_back, put_back_in};
use crate::{Situation, Strategy};

pub(crate) struct ApiService;

impl Strategy for ApiService {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(service) = object.at_mut(&["spec", "service"]).and_then(Value::as_object_mut) {
            default_to(service, "port", 443i64);
        }
    }

    fn prepare_for_create(&self, situation: &Situation<'_>, object: &mut Value) {
        clear_status(object);
        // What this server serves itself is there.
        if !is_set(object, &["spec", "service"]) {
            let since = Time::from_unix(situation.now, 0).to_string();
            let available = value!({
                "type": "Available", "status": "True", "lastTransitionTime": since,
                "reason": "Local", "message": "Local APIServices are always available"
            });
            object.make_at(&["status"]).insert("conditions", vec![available]);
        }
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_in(object, old, &["metadata"], &["labels", "annotations", "finalizers", "ownerReferences"]);
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        binnacle_validation::names::path_segment(name, prefix)
    }
}
