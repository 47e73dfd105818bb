//! The service account controller: each active namespace has the account `default`, which pods use without another.

use binnacle_meta::{Status, StatusReason, Text};
use binnacle_schema::value;

use crate::context::ClusterContext;
use crate::per_namespace::PerNamespace;

pub(crate) const NAME: &str = "serviceaccount-controller";
const ACCOUNT: &str = "service-account-controller";
const DEFAULT: &str = "default";

pub(crate) async fn run(context: ClusterContext) {
    let Ok(accounts) = context.objects(ACCOUNT, ("", "v1", "serviceaccounts")) else { return };
    let ensure = |namespace: Text| {
        let accounts = &accounts;
        Box::pin(async move {
            if accounts.entry(&namespace, DEFAULT).await?.is_some() {
                return Ok(());
            }
            let account = value!({"metadata": {"name": DEFAULT, "namespace": (namespace.clone())}});
            match accounts.create(&namespace, account).await {
                Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
                created => created.map(drop),
            }
        }) as binnacle_request::BoxFuture<'_, Result<(), Status>>
    };
    let controller =
        PerNamespace { name: NAME, queue: "serviceaccount", objects: &accounts, object: DEFAULT, ensure: &ensure };
    controller.run(&context).await;
}
