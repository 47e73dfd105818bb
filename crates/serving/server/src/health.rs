//! `/healthz`, `/livez` and `/readyz`, and their checks.
//!
//! The texts are those of kube-apiserver, which people and probes parse. A check is only listed if the component after
//! which it is named exists in this server.

mod probe;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_meta::go_quote;
use binnacle_request::{BoxFuture, Handler, Query, Request, RequestInfo, Response, Shutdown};
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, StatusCode};
use tokio::sync::Mutex;

use crate::response::{error_text, page_not_found, plain_text};
use crate::slis::HealthMetrics;
use probe::Probe;

/// Returns true for a path of one of the three endpoints.
pub(crate) fn is_path(path: &str) -> bool {
    let under = |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    ["/healthz", "/livez", "/readyz"].into_iter().any(under)
}

/// A health check.
pub trait HealthCheck: Send + Sync {
    /// Returns kube-apiserver's name of the check.
    fn name(&self) -> &str;

    /// Returns the name of a group of checks that can be excluded together.
    fn group(&self) -> Option<&str> {
        None
    }

    /// Runs the check. The error is logged; clients only see that the check failed.
    fn check(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// A check of one endpoint.
struct Check {
    probe: Arc<Probe>,
    /// Until this time the check passes regardless of its result.
    grace: Option<Instant>,
}

impl Check {
    async fn run(&self) -> Result<(), String> {
        match self.grace {
            Some(until) if Instant::now() < until => Ok(()),
            _ => self.probe.run().await,
        }
    }

    fn name(&self) -> &str {
        self.probe.name()
    }

    fn group(&self) -> Option<&str> {
        self.probe.group()
    }
}

impl From<Arc<Probe>> for Check {
    fn from(probe: Arc<Probe>) -> Self {
        Self { probe, grace: None }
    }
}

/// True once `/readyz` has passed.
#[derive(Clone, Debug, Default)]
pub struct HasBeenReady(Arc<AtomicBool>);

impl HasBeenReady {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The three endpoints, each with its checks in display order.
pub struct Health {
    metrics: Arc<HealthMetrics>,
    has_been_ready: HasBeenReady,
    healthz: Vec<Check>,
    livez: Vec<Check>,
    readyz: Vec<Check>,
}

impl Health {
    /// Returns endpoints without checks. `metrics` records the results of added checks.
    pub fn new(metrics: Arc<HealthMetrics>) -> Self {
        let has_been_ready = HasBeenReady::default();
        Self { metrics, has_been_ready, healthz: Vec::new(), livez: Vec::new(), readyz: Vec::new() }
    }

    /// Returns the flag that is set once the server has been ready.
    pub fn has_been_ready(&self) -> HasBeenReady {
        self.has_been_ready.clone()
    }

    /// Adds a check to all three endpoints.
    #[must_use]
    pub fn everywhere(self, check: Arc<dyn HealthCheck>) -> Self {
        self.starting(check, None)
    }

    /// Adds a check of a startup task to all endpoints; `/livez` treats it as passed until `grace`.
    #[must_use]
    pub fn starting(mut self, check: Arc<dyn HealthCheck>, grace: Option<Instant>) -> Self {
        let probe = Probe::new(check);
        self.healthz.push(probe.clone().into());
        self.livez.push(Check { probe: probe.clone(), grace });
        self.readyz.push(probe.into());
        self
    }

    /// Adds a check to `/healthz` and `/livez`.
    #[must_use]
    pub fn alive(mut self, check: Arc<dyn HealthCheck>) -> Self {
        let check = Probe::new(check);
        self.healthz.push(check.clone().into());
        self.livez.push(check.into());
        self
    }

    /// Adds a check to `/healthz` and `/readyz`, for failures that a restart would not fix.
    #[must_use]
    pub fn usable(mut self, check: Arc<dyn HealthCheck>) -> Self {
        let check = Probe::new(check);
        self.healthz.push(check.clone().into());
        self.readyz.push(check.into());
        self
    }

    /// Adds a check to `/readyz` only: a failing server should not receive traffic, but need not be restarted.
    #[must_use]
    pub fn ready(mut self, check: Arc<dyn HealthCheck>) -> Self {
        self.readyz.push(Probe::new(check).into());
        self
    }

    /// Moves the checks named in `order` behind all others, in that order.
    #[must_use]
    pub fn in_order(mut self, order: &[&str]) -> Self {
        let rank = |check: &Check| order.iter().position(|name| *name == check.name()).map_or(0, |at| at + 1);
        for checks in [&mut self.healthz, &mut self.livez, &mut self.readyz] {
            checks.sort_by_key(rank);
        }
        self
    }

    /// Returns the endpoint of a path, its checks, and the remainder of the path.
    fn find<'a>(&self, path: &'a str) -> Option<(&'static str, &[Check], &'a str)> {
        [("healthz", &self.healthz), ("livez", &self.livez), ("readyz", &self.readyz)].into_iter().find_map(
            |(name, checks)| {
                let rest = path.strip_prefix('/')?.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with('/')).then_some((name, checks.as_slice(), rest))
            },
        )
    }
}

impl Handler for Health {
    fn matches(&self, info: &RequestInfo) -> bool {
        self.find(&info.path).is_some()
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let Some((name, checks, rest)) = self.find(&request.info.path) else { return page_not_found() };
            if rest.is_empty() {
                request.record.note(|facts| facts.served = true);
                let response = run_all(name, checks, &request.query, &self.metrics).await;
                if name == "readyz" && response.status().is_success() {
                    self.has_been_ready.0.store(true, Ordering::Release);
                }
                return response;
            }
            match checks.iter().find(|check| check.name() == &rest[1..]) {
                Some(check) => run_one(check).await,
                None => page_not_found(),
            }
        })
    }

    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (name, checks) in [("healthz", &self.healthz), ("livez", &self.livez), ("readyz", &self.readyz)] {
            paths.push(format!("/{name}"));
            paths.extend(checks.iter().map(|check| format!("/{name}/{}", check.name())));
        }
        paths
    }
}

async fn run_one(check: &Check) -> Response {
    match check.run().await {
        Ok(()) => plain_text("ok"),
        Err(error) => error_text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}")),
    }
}

async fn run_all(name: &str, checks: &[Check], query: &Query, metrics: &HealthMetrics) -> Response {
    let mut unknown: Vec<&str> = query.get_all("exclude").collect();
    unknown.sort_unstable();
    unknown.dedup();
    let excluded = unknown.clone();
    let (mut report, mut logged, mut failed) = (String::new(), String::new(), Vec::new());
    for check in checks {
        let check_name = check.name();
        if excluded.contains(&check_name) {
            unknown.retain(|name| *name != check_name);
            report.push_str(&format!("[+]{check_name} excluded: ok\n"));
            continue;
        }
        if let Some(group) = check.group().filter(|group| excluded.contains(group)) {
            unknown.retain(|name| *name != group);
            report.push_str(&format!("[+]{check_name} excluded with {group}: ok\n"));
            continue;
        }
        let result = check.run().await;
        metrics.observe(name, check_name, result.is_ok());
        match result {
            Ok(()) => report.push_str(&format!("[+]{check_name} ok\n")),
            Err(error) => {
                // These endpoints are public, so the reason is only logged.
                report.push_str(&format!("[-]{check_name} failed: reason withheld\n"));
                logged.push_str(&format!("[-]{check_name} failed: {error}\n"));
                failed.push(check_name);
            }
        }
    }
    if !unknown.is_empty() {
        let names = unknown.iter().map(|name| go_quote(name)).collect::<Vec<_>>().join(",");
        report.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    if !failed.is_empty() {
        tracing::info!("{} check failed: {name}\n{logged}", failed.join(","));
        return error_text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{name} check failed"));
    }
    let mut response =
        if query.contains("verbose") { plain_text(format!("{report}{name} check passed\n")) } else { plain_text("ok") };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `ping`: the server responds.
pub struct PingCheck;

impl HealthCheck for PingCheck {
    fn name(&self) -> &str {
        "ping"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// `log`: writing to the log does not block, for example on a full pipe without a reader.
#[derive(Default)]
pub struct LogCheck {
    /// Held by the blocked attempt, so that blocked logging occupies one thread instead of one per probe.
    attempt: Arc<Mutex<()>>,
}

impl HealthCheck for LogCheck {
    fn name(&self) -> &str {
        "log"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
        Box::pin(async {
            let flushed = tokio::time::timeout(FLUSH_TIMEOUT, async {
                let guard = self.attempt.clone().lock_owned().await;
                tokio::task::spawn_blocking(move || {
                    let _guard = guard;
                    std::io::stderr().lock().flush()
                })
                .await
            });
            match flushed.await {
                Ok(Ok(Ok(()))) => Ok(()),
                _ => Err("logging blocked".to_owned()),
            }
        })
    }
}

/// `shutdown`: the server is not shutting down.
pub struct ShutdownCheck(pub Shutdown);

impl HealthCheck for ShutdownCheck {
    fn name(&self) -> &str {
        "shutdown"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { if self.0.is_fired() { Err("process is shutting down".to_owned()) } else { Ok(()) } })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::{Body, ShutdownTrigger};

    use super::*;

    struct FixedCheck(&'static str, Result<(), &'static str>);

    /// A check that can be excluded by the name of its group.
    struct GroupedCheck;

    impl HealthCheck for GroupedCheck {
        fn name(&self) -> &str {
            "good-2"
        }

        fn group(&self) -> Option<&str> {
            Some("good")
        }

        fn check(&self) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async { Err("why".to_owned()) })
        }
    }

    impl HealthCheck for FixedCheck {
        fn name(&self) -> &str {
            self.0
        }

        fn check(&self) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async { self.1.map_err(str::to_owned) })
        }
    }

    async fn text(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let body: Body = response.into_body();
        (status, String::from_utf8(body.read(10_000).await.unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn formats_results_of_checks() {
        let good = Probe::new(Arc::new(FixedCheck("good", Ok(()))));
        let bad = Probe::new(Arc::new(FixedCheck("bad", Err("why"))));
        let healthy = [Probe::new(Arc::new(PingCheck)).into(), good.clone().into()];
        let grouped = [good.clone().into(), Probe::new(Arc::new(GroupedCheck)).into()];
        let sick: [Check; 2] = [good.into(), bad.clone().into()];
        let metrics = HealthMetrics::new().unwrap();
        for (checks, query, want) in [
            (&healthy, "", (200, "ok")),
            (&healthy, "verbose", (200, "[+]ping ok\n[+]good ok\nreadyz check passed\n")),
            (&healthy, "verbose&exclude=ping", (200, "[+]ping excluded: ok\n[+]good ok\nreadyz check passed\n")),
            (
                &healthy,
                "verbose&exclude=y&exclude=x&exclude=x",
                (
                    200,
                    "[+]ping ok\n[+]good ok\nwarn: some health checks cannot be excluded: no matches for \"x\",\"y\"\n\
                     readyz check passed\n",
                ),
            ),
            (&sick, "", (500, "[+]good ok\n[-]bad failed: reason withheld\nreadyz check failed\n")),
            (&sick, "exclude=bad", (200, "ok")),
            (
                &grouped,
                "verbose&exclude=good",
                (200, "[+]good excluded: ok\n[+]good-2 excluded with good: ok\nreadyz check passed\n"),
            ),
            (&grouped, "exclude=good-2", (200, "ok")),
        ] {
            let (status, body) = text(run_all("readyz", checks, &Query::parse(query), &metrics).await).await;
            assert_eq!((status, body.as_str()), want, "{query}");
        }
        assert_eq!(text(run_one(&sick[1]).await).await, (500, "internal server error: why\n".to_owned()));
        let patient = Check { probe: bad, grace: Some(Instant::now() + Duration::from_secs(3600)) };
        assert_eq!(text(run_one(&patient).await).await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn log_and_shutdown_checks_report_state() {
        assert_eq!(LogCheck::default().check().await, Ok(()));
        let (trigger, shutdown) = ShutdownTrigger::new();
        let check = ShutdownCheck(shutdown);
        assert_eq!(check.check().await, Ok(()));
        trigger.fire();
        assert_eq!(check.check().await, Err("process is shutting down".to_owned()));
    }

    #[test]
    fn orders_named_checks_last() {
        let metrics = HealthMetrics::new().unwrap();
        let fixed = |name| Arc::new(FixedCheck(name, Ok(())));
        let health = Health::new(metrics).everywhere(fixed("b")).everywhere(fixed("x")).ready(fixed("a"));
        let health = health.everywhere(fixed("c")).everywhere(fixed("y")).in_order(&["a", "b", "c"]);
        let names = |checks: &[Check]| checks.iter().map(|check| check.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            (names(&health.readyz), names(&health.livez)),
            (["x", "y", "a", "b", "c"].map(str::to_owned).to_vec(), ["x", "y", "b", "c"].map(str::to_owned).to_vec(),)
        );
    }

    #[test]
    fn lists_and_matches_paths_of_checks() {
        let metrics = HealthMetrics::new().unwrap();
        let health = Health::new(metrics).everywhere(Arc::new(PingCheck)).ready(Arc::new(FixedCheck("a/b", Ok(()))));
        assert_eq!(
            health.paths(),
            ["/healthz", "/healthz/ping", "/livez", "/livez/ping", "/readyz", "/readyz/ping", "/readyz/a/b"]
        );
        for (path, want) in [("/readyz", true), ("/readyz/a/b", true), ("/readyzz", false), ("/", false)] {
            assert_eq!(health.find(path).is_some(), want, "{path}");
        }
    }
}
