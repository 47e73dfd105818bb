//! Authorization of an update or apply as a create, if the object does not exist.

use std::fmt;
use std::sync::Arc;

use binnacle_authz::{Authorizer, permit_create};
use binnacle_meta::Status;
use binnacle_registry::CreateGate;
use binnacle_request::{BoxFuture, CreatePermit, RequestInfo, User};
use tokio::sync::OnceCell;

use crate::verbs::Call;

/// Calls the authorizers at most once per request, even if its write is retried.
pub(crate) struct AuthorizerGate {
    authorizer: Arc<dyn Authorizer>,
    info: Arc<RequestInfo>,
    user: Arc<User>,
    permit: OnceCell<Result<CreatePermit, Status>>,
}

impl AuthorizerGate {
    pub(crate) fn for_call(call: &Call) -> Arc<dyn CreateGate> {
        Arc::new(Self {
            authorizer: call.authorizer.clone(),
            info: call.request.info.clone(),
            user: call.request.user.clone(),
            permit: OnceCell::new(),
        })
    }
}

impl CreateGate for AuthorizerGate {
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>> {
        Box::pin(async {
            let authorize = || permit_create(&*self.authorizer, &self.info, &self.user);
            self.permit.get_or_init(authorize).await.clone()
        })
    }
}

impl fmt::Debug for AuthorizerGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AuthorizerGate").field("path", &self.info.path).finish_non_exhaustive()
    }
}
