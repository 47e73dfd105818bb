//! AlwaysAdmit and AlwaysDeny, which admit and reject every request. Both are deprecated.

use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::Attributes;
use binnacle_request::BoxFuture;

use crate::plugin::{Plugin, Request, Stage, forbidden};

const DENIED: &str = "admission control is denying all modifications";

pub(crate) struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn handles(&self, _: Stage, _: &Attributes) -> bool {
        false
    }
}

pub(crate) struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn handles(&self, _: Stage, _: &Attributes) -> bool {
        true
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let refused = forbidden(request.attributes, object, DENIED);
        Box::pin(async { Err(refused) })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let refused = forbidden(request.attributes, object, DENIED);
        Box::pin(async { Err(refused) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_registry::admission::Operation;
    use binnacle_schema::value;

    use super::*;
    use crate::testing::{admit, pods};

    #[tokio::test]
    async fn admits_or_denies_every_request() {
        let pod = value!({"metadata": {"name": "x"}});
        for operation in [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect] {
            let attributes = pods(operation);
            assert_eq!(admit(Arc::new(AlwaysAdmit), &attributes, &pod, None).await, Ok(pod.clone()));
            let refused = "pods \"x\" is forbidden: admission control is denying all modifications";
            assert_eq!(admit(Arc::new(AlwaysDeny), &attributes, &pod, None).await, Err((403, refused.to_owned())));
        }
    }
}
