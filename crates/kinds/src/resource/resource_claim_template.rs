//! ResourceClaimTemplate: claims that are made for each pod.

use binnacle_schema::Value;

use super::requests;
use crate::Strategy;

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        requests::set_defaults(version, object, &["spec", "spec", "devices", "requests"]);
    }
}
