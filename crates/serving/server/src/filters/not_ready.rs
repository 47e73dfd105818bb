//! Rejects requests until the server has been ready once (`--send-retry-after-while-not-ready-once`).

use binnacle_meta::Text;
use binnacle_request::{Record, RequestInfo, User};
use http::StatusCode;

use super::draining::EXEMPT;
use crate::health::HasBeenReady;
use crate::response::Rejection;

/// The group whose requests are served nevertheless, to debug a slow start.
const DEBUGGERS: &str = "system:openshift:risky-not-ready-microshift-debugging-group";
const RETRY_AFTER_SECONDS: u32 = 5;

const WARNING: &str = "The apiserver was still initializing, while this request was being served";

pub(crate) fn check(
    ready: Option<&HasBeenReady>,
    info: &RequestInfo,
    user: &User,
    record: &Record,
) -> Result<(), Rejection> {
    if ready.is_none_or(HasBeenReady::get) {
        return Ok(());
    }
    let exempt = user.name == User::APISERVER
        || EXEMPT.iter().any(|prefix| info.path.starts_with(prefix))
        || user.groups.iter().any(|group| group == DEBUGGERS);
    if exempt {
        record.note(|facts| facts.warnings.push(Text::new_static(WARNING)));
        return Ok(());
    }
    Err(Rejection::RetryAfter {
        code: StatusCode::SERVICE_UNAVAILABLE,
        text: "The apiserver hasn't been fully initialized yet, please try again later.",
        seconds: RETRY_AFTER_SECONDS,
        close: false,
    })
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;
    use http::Method;

    use super::*;

    #[test]
    fn rejects_requests_until_ready_once() {
        let ready = HasBeenReady::default();
        for (path, name, group, want) in [
            ("/api/v1/nodes", "jane", "dev", true),
            ("/api/v1/nodes", User::APISERVER, "", false),
            ("/api/v1/nodes", "jane", DEBUGGERS, false),
            ("/readyz", "jane", "dev", false),
            ("/metrics", "jane", "dev", false),
        ] {
            let info = RequestInfo::parse(&Method::GET, path, &Query::default(), path).unwrap();
            let user = User { name: name.into(), groups: vec![group.into()], ..User::default() };
            let record = Record::open(Method::GET, path.into(), None, None);
            assert_eq!(check(Some(&ready), &info, &user, &record).is_err(), want, "{path} {name} {group}");
            assert!(check(None, &info, &user, &record).is_ok());
        }
    }
}
