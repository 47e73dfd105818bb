//! Who asked for a certificate: a signing request says so itself, in fields that only the server writes.

use binnacle_meta::Status;
use binnacle_registry::Context;
use binnacle_registry::hooks::Hooks;
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value};

/// Notes the requester in `spec.username`, `uid`, `groups` and `extra` of CertificateSigningRequests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequesterOfCertificates;

impl Hooks for RequesterOfCertificates {
    fn begin_create<'a>(&'a self, context: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        let user = &context.user;
        let spec = object.make_at(&["spec"]);
        spec.insert("username", user.name.clone());
        spec.insert("uid", user.uid.clone());
        spec.insert("groups", user.groups.clone());
        let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
        if extra.is_empty() {
            spec.remove("extra");
        } else {
            spec.insert("extra", extra);
        }
        Box::pin(async { Ok(()) })
    }
}
