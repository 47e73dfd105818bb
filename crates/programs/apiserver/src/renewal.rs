//! Renewal of the server's own certificates while it runs: before they end, and after changes of the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use binnacle_authn::Authorities;
use binnacle_controlplane::Trust;
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_server::{Certificates, HealthCheck};
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use time::{Duration, OffsetDateTime};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::assemble::{StartFailure, Told};
use crate::pki::{Clock, Files, Names, Pki};

/// The interval between checks of the clock, and before a failed renewal is retried.
const LOOK_AGAIN: Duration = Duration::minutes(1);
/// The maximum difference between clock and elapsed time that does not count as a change of the clock.
const STEP: Duration = Duration::seconds(30);

/// The server's own certificates, and the files for clients.
pub(crate) struct Own {
    files: Files,
    names: Names,
    told: Told,
    current: Pki,
    expiry: Expiry,
}

/// The end of the server's own serving certificate, in seconds of Unix time. Clones share the value.
#[derive(Clone, Debug)]
pub(crate) struct Expiry(Arc<AtomicI64>);

impl Expiry {
    fn of(pki: &Pki) -> Self {
        Self(Arc::new(AtomicI64::new(pki.serving_ends())))
    }

    fn is_over(&self, now: OffsetDateTime) -> bool {
        now.unix_timestamp() > self.0.load(Ordering::Relaxed)
    }
}

/// Checks that the server's own certificate has not ended. If it has, a restart creates another.
pub(crate) struct CertificateCheck(pub(crate) Expiry);

impl HealthCheck for CertificateCheck {
    fn name(&self) -> &str {
        "loopback-serving-certificate"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            match self.0.is_over(OffsetDateTime::now_utc()) {
                true => Err("loopback serving certificate is expired".to_owned()),
                false => Ok(()),
            }
        })
    }
}

/// The components that use the certificates.
pub(crate) struct Users {
    pub(crate) serving: Arc<Certificates>,
    /// The authorities of clients.
    pub(crate) clients: Arc<Authorities>,
    /// What extension API servers are told.
    pub(crate) trust: Trust,
}

/// The certificates that were renewed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Renewed {
    serving: bool,
    admin: bool,
    authorities: bool,
}

impl Own {
    pub(crate) fn new(files: Files, names: Names, told: Told, current: Pki) -> Self {
        let expiry = Expiry::of(&current);
        Self { files, names, told, current, expiry }
    }

    /// Returns the end of the serving certificate, which is kept up to date.
    pub(crate) fn expiry(&self) -> Expiry {
        self.expiry.clone()
    }

    /// Renews certificates until the server ends.
    pub(crate) fn follow(self, users: Users, clock: Clock, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        let stopped = shutdown.fired();
        let own = Arc::new(Mutex::new(self));
        tasks.spawn(async move {
            let renewing = supervise("own certificates", || async {
                let mut seen = (clock(), Instant::now());
                let mut failed = false;
                loop {
                    let due = own.lock().current.due;
                    let wait = if failed { LOOK_AGAIN } else { (due - clock()).min(LOOK_AGAIN) };
                    tokio::time::sleep(wait.max(Duration::SECOND).unsigned_abs()).await;
                    let (before, now) = (seen, clock());
                    seen = (now, Instant::now());
                    let set = step(before.0, now, seen.1 - before.1);
                    if let Some(by) = set {
                        let way = if by.is_positive() { "forward" } else { "back" };
                        tracing::warn!("the clock went {way} by {} seconds at once", by.whole_seconds().abs());
                    }
                    if set.is_none() && now < due && !own.lock().told.follows_others() {
                        continue;
                    }
                    // File access must not block a thread that serves requests.
                    let turning = own.clone();
                    let outcome = match tokio::task::spawn_blocking(move || turning.lock().turn(now)).await {
                        Ok(outcome) => outcome,
                        // The panic must reach the health check.
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        // The runtime is shutting down.
                        Err(_) => return,
                    };
                    failed = outcome.is_err();
                    match outcome {
                        Ok(renewed) => own.lock().put_to_use(renewed, &users),
                        Err(error) => tracing::error!("certificates cannot be renewed, the old ones stay: {error}"),
                    }
                }
            });
            tokio::select! {
                () = renewing => {}
                () = stopped => {}
            }
        });
    }

    /// Renews the certificates that are due.
    fn turn(&mut self, now: OffsetDateTime) -> Result<Renewed, StartFailure> {
        let new = Pki::open(&self.files, &self.names, now)?;
        self.told.read_again();
        self.told.write(&new)?;
        let renewed = Renewed {
            serving: new.serving != self.current.serving,
            admin: new.admin != self.current.admin,
            authorities: new.bundle != self.current.bundle,
        };
        self.expiry.0.store(new.serving_ends(), Ordering::Relaxed);
        self.current = new;
        Ok(renewed)
    }

    fn put_to_use(&self, renewed: Renewed, users: &Users) {
        if renewed.serving {
            let shown = self
                .current
                .serving_files()
                .map_err(|error| error.to_string())
                .and_then(|files| users.serving.replace_made(files).map_err(|error| error.to_string()));
            match shown {
                Ok(()) => tracing::info!("the serving certificate was renewed and is shown to newcomers"),
                Err(error) => tracing::error!("the renewed serving certificate cannot be shown: {error}"),
            }
        }
        if renewed.admin && self.told.has_administrator() {
            tracing::info!("the administrator's certificate was renewed, admin.kubeconfig has the new one");
        }
        if renewed.authorities && self.told.has_administrator() {
            let bundle = self.current.bundle.clone();
            if let Err(error) = users.clients.replace(bundle.as_bytes()) {
                tracing::error!("the new authority is not trusted: {error}");
                return;
            }
            users.trust.set_clients(bundle);
        }
    }
}

/// Returns the difference between the clock's change and the elapsed time, if it is too large.
fn step(before: OffsetDateTime, now: OffsetDateTime, passed: std::time::Duration) -> Option<Duration> {
    let passed = Duration::try_from(passed).unwrap_or(Duration::ZERO);
    let by = (now - before) - passed;
    (by.abs() > STEP).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_end() {
        let expiry = Expiry(Arc::new(AtomicI64::new(1000)));
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        assert!(!expiry.is_over(at(1000)) && expiry.is_over(at(1001)));
    }

    #[test]
    fn steps_of_the_clock() {
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        for (now, passed, want) in
            [(1060, 60, None), (1065, 60, None), (4600, 60, Some(3540)), (0, 60, Some(-1060)), (1000, 61, Some(-61))]
        {
            let step = step(at(1000), at(now), std::time::Duration::from_secs(passed));
            assert_eq!(step.map(Duration::whole_seconds), want, "{now} {passed}");
        }
    }
}
