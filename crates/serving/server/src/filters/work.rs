//! The work budget of a request: the caller that it is charged to, and the response when it is exhausted.

use binnacle_meta::Status;
use binnacle_request::{RequestInfo, Response, User};
use binnacle_work::{Caller, WorkBudget};
use http::StatusCode;

use crate::response::Rejection;

/// Returns the caller to which turns and memory are charged. Administrators, nodes and components of the cluster have a
/// reserved share of both.
pub(crate) fn caller(user: &User) -> Caller {
    const GROUPS: [&str; 3] = [User::MASTERS, "system:nodes", "system:serviceaccounts:kube-system"];
    let is_component = user.name.starts_with("system:kube-") || user.name == User::APISERVER;
    Caller { name: user.name.clone(), is_system: is_component || GROUPS.iter().any(|group| user.is_in(group)) }
}

/// Replaces the response of a request whose budget was exhausted by one that names the limit. If something was written,
/// it remains, and so does its response.
pub(crate) fn check_budget(budget: &WorkBudget, info: &RequestInfo, response: Response) -> Result<Response, Rejection> {
    let Err(exceeded) = budget.check() else { return Ok(response) };
    let is_read = ["get", "list", "watch"].contains(&info.verb.as_str());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS || response.status().is_success() && !is_read {
        return Ok(response);
    }
    Err(Status::from(exceeded).into())
}

#[cfg(test)]
mod tests {
    use binnacle_request::{Body, Query};
    use binnacle_work::{WorkLimits, charge};
    use http::Method;

    use super::*;

    #[test]
    fn recognizes_system_callers() {
        for (name, groups, is_system) in [
            ("jane", &["developers"][..], false),
            ("root", &["system:masters"], true),
            ("system:node:a", &["system:nodes"], true),
            ("system:kube-scheduler", &[], true),
            ("system:serviceaccount:kube-system:job-controller", &["system:serviceaccounts:kube-system"], true),
            ("system:serviceaccount:team:kube-", &["system:serviceaccounts:team"], false),
        ] {
            assert_eq!(caller(&User::new(name, groups)).is_system, is_system, "{name}");
        }
    }

    #[test]
    fn reports_the_limit_unless_a_write_succeeded() {
        let budget = WorkBudget::new(WorkLimits { steps: 1, memory: 1 });
        let info = |method: Method| RequestInfo::parse(&method, "/api/v1/namespaces/a/pods/p", &Query::default(), "");
        let (get, put) = (info(Method::GET).expect("valid"), info(Method::PUT).expect("valid"));
        let response = |code: u16| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::from_u16(code).expect("valid");
            response
        };
        assert!(check_budget(&budget, &get, response(200)).is_ok());
        assert!(budget.enter(|| charge(2)).is_err());
        assert!(
            matches!(check_budget(&budget, &get, response(200)), Err(Rejection::Status(status)) if status.code() == 422)
        );
        assert!(check_budget(&budget, &put, response(200)).is_ok());
        assert!(check_budget(&budget, &put, response(500)).is_err());
    }
}
