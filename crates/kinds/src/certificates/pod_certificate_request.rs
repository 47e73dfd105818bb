//! PodCertificateRequest: the wish of a pod for a certificate.

use binnacle_schema::Value;

use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Situation, Strategy};

pub(crate) struct PodCertificateRequest;

impl Strategy for PodCertificateRequest {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }
}
