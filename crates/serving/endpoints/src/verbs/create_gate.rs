//! Authorization of an update or apply as a create, when the object does not exist.

use std::fmt;
use std::sync::Arc;

use binnacle_authz::{Authorizer, permit_create};
use binnacle_meta::Status;
use binnacle_registry::CreateGate;
use binnacle_request::{BoxFuture, CreatePermit, RequestInfo, User};
use tokio::sync::OnceCell;

use crate::verbs::Call;

/// Asks the authorizers at most once for a request, even if its write is repeated.
pub(crate) struct AskAuthorizers {
    authorizer: Arc<dyn Authorizer>,
    info: Arc<RequestInfo>,
    user: Arc<User>,
    answer: OnceCell<Result<CreatePermit, Status>>,
}

impl AskAuthorizers {
    pub(crate) fn about(call: &Call) -> Arc<dyn CreateGate> {
        Arc::new(Self {
            authorizer: call.authorizer.clone(),
            info: call.request.info.clone(),
            user: call.request.user.clone(),
            answer: OnceCell::new(),
        })
    }
}

impl CreateGate for AskAuthorizers {
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>> {
        Box::pin(async {
            let ask = || permit_create(&*self.authorizer, &self.info, &self.user);
            self.answer.get_or_init(ask).await.clone()
        })
    }
}

impl fmt::Debug for AskAuthorizers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AskAuthorizers").field("path", &self.info.path).finish_non_exhaustive()
    }
}
