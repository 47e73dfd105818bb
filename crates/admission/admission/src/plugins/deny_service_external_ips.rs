//! DenyServiceExternalIPs: external IPs cannot be added to services (CVE-2020-8554). Existing ones may remain.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Service, ServiceSpec};
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;

use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

pub(crate) struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && is_resource(attributes, "", "services")
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let addresses =
            |service| FieldRef::<Service>::root(service).at(Service::SPEC).at(ServiceSpec::EXTERNAL_IPS).list();
        let had = request.old.map_or(&[][..], addresses);
        let outcome = if addresses(object).iter().all(|address| had.contains(address)) {
            Ok(())
        } else {
            Err(forbidden(request.attributes, object, "Use of external IPs is denied by admission control"))
        };
        Box::pin(async { outcome })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_schema::value;

    use super::*;
    use crate::testing::{admit, attributes};

    #[tokio::test]
    async fn allows_only_removal_of_external_ips() {
        let service = |addresses: &[&str]| value!({"spec": {"externalIPs": (addresses.to_vec())}});
        let refused =
            Err((403, "services \"x\" is forbidden: Use of external IPs is denied by admission control".to_owned()));
        for (old, new, allowed) in [
            (None, &[][..], true),
            (None, &["1.1.1.1"], false),
            (Some(&["1.1.1.1", "2.2.2.2"][..]), &["2.2.2.2"], true),
            (Some(&["1.1.1.1"]), &["1.1.1.1", "2.2.2.2"], false),
            (Some(&["1.1.1.1"]), &[], true),
        ] {
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            let attributes = attributes(operation, ["", "v1", "services"], "Service", "");
            let old = old.map(service);
            let admitted = admit(Arc::new(DenyServiceExternalIps), &attributes, &service(new), old.as_ref()).await;
            assert_eq!(admitted, if allowed { Ok(service(new)) } else { refused.clone() }, "{new:?}");
        }
    }
}
