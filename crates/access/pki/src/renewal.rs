//! Renewal of the server's own certificates while it runs: before they expire, and after clock changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use binnacle_request::Shutdown;
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use time::{Duration, OffsetDateTime};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{ClientFiles, Clock, Files, Pki, PkiError, ServingCertificate, SubjectAltNames};

/// The interval between checks of the clock, and the delay before a failed renewal is retried.
const CHECK_INTERVAL: Duration = Duration::minutes(1);
/// The difference between the wall clock and the elapsed time above which the clock was changed.
const STEP: Duration = Duration::seconds(30);

/// Renews the server's own certificates and the files for clients.
pub struct Renewer {
    files: Files,
    names: SubjectAltNames,
    client_files: ClientFiles,
    current: Pki,
    expiry: Expiry,
}

/// The end of the serving certificate's validity, in Unix seconds. Clones share the value.
#[derive(Clone, Debug)]
pub struct Expiry(Arc<AtomicI64>);

impl Expiry {
    fn of(pki: &Pki) -> Self {
        Self(Arc::new(AtomicI64::new(pki.serving_ends())))
    }

    /// Returns true if the certificate has expired.
    pub fn is_over(&self, now: OffsetDateTime) -> bool {
        now.unix_timestamp() > self.0.load(Ordering::Relaxed)
    }
}

/// The components that use the certificates. If one returns an error, it is logged and the old certificates stay in
/// use.
pub trait CertificateUsers: Send + Sync {
    /// Serves new connections with this certificate.
    ///
    /// # Errors
    ///
    /// Returns why the certificate cannot be used.
    fn serve(&self, certificate: ServingCertificate) -> Result<(), String>;

    /// Trusts clients with certificates of these authorities, as PEM.
    ///
    /// # Errors
    ///
    /// Returns why the authorities cannot be used.
    fn trust(&self, authorities: &str) -> Result<(), String>;
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Renewal {
    serving: bool,
    admin: bool,
    authorities: bool,
}

impl Renewer {
    /// Renews `current`, which was read from `files`, and the files for clients that were written from it.
    pub fn new(files: Files, names: SubjectAltNames, client_files: ClientFiles, current: Pki) -> Self {
        let expiry = Expiry::of(&current);
        Self { files, names, client_files, current, expiry }
    }

    /// Returns the expiry of the serving certificate, which is updated by renewals.
    pub fn expiry(&self) -> Expiry {
        self.expiry.clone()
    }

    /// Spawns the task that renews certificates until the server exits.
    pub fn start(
        self,
        users: impl CertificateUsers + 'static,
        clock: Clock,
        tasks: &mut JoinSet<()>,
        shutdown: &Shutdown,
    ) {
        let stopped = shutdown.fired();
        let renewer = Arc::new(Mutex::new(self));
        tasks.spawn(async move {
            let renewing = supervise("own certificates", || async {
                let mut last = (clock(), Instant::now());
                let mut failed = false;
                loop {
                    let due = renewer.lock().current.due;
                    let wait = if failed { CHECK_INTERVAL } else { (due - clock()).min(CHECK_INTERVAL) };
                    tokio::time::sleep(wait.max(Duration::SECOND).unsigned_abs()).await;
                    let (before, now) = (last, clock());
                    last = (now, Instant::now());
                    let jump = clock_step(before.0, now, last.1 - before.1);
                    if let Some(by) = jump {
                        let direction = if by.is_positive() { "forward" } else { "back" };
                        tracing::warn!("the clock went {direction} by {} seconds at once", by.whole_seconds().abs());
                    }
                    if jump.is_none() && now < due && !renewer.lock().client_files.has_operator_certificate() {
                        continue;
                    }
                    // File access must not block the threads that serve requests.
                    let renewing = renewer.clone();
                    let outcome = match tokio::task::spawn_blocking(move || renewing.lock().renew(now)).await {
                        Ok(outcome) => outcome,
                        // Propagate the panic, so that it reaches the health check.
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        // The runtime is shutting down.
                        Err(_) => return,
                    };
                    failed = outcome.is_err();
                    match outcome {
                        Ok(renewal) => renewer.lock().apply(renewal, &users),
                        Err(error) => {
                            tracing::error!("failed to renew certificates, keeping the current ones: {error}")
                        }
                    }
                }
            });
            tokio::select! {
                () = renewing => {}
                () = stopped => {}
            }
        });
    }

    /// Renews the certificates that are due, and writes the files for clients.
    fn renew(&mut self, now: OffsetDateTime) -> Result<Renewal, PkiError> {
        let new = Pki::open(&self.files, &self.names, now)?;
        self.client_files.reload();
        self.client_files.write(&new)?;
        let renewal = Renewal {
            serving: new.serving != self.current.serving,
            admin: new.admin != self.current.admin,
            authorities: new.bundle != self.current.bundle,
        };
        self.expiry.0.store(new.serving_ends(), Ordering::Relaxed);
        self.current = new;
        Ok(renewal)
    }

    /// Passes renewed certificates to the components that use them.
    fn apply(&self, renewal: Renewal, users: &impl CertificateUsers) {
        if renewal.serving {
            let certificate = self.current.serving_certificate().map_err(|error| error.to_string());
            match certificate.and_then(|certificate| users.serve(certificate)) {
                Ok(()) => tracing::info!("serving certificate renewed"),
                Err(error) => tracing::error!("failed to use the renewed serving certificate: {error}"),
            }
        }
        if renewal.admin && self.client_files.has_administrator() {
            tracing::info!("administrator's certificate renewed, admin.kubeconfig updated");
        }
        if renewal.authorities
            && self.client_files.has_administrator()
            && let Err(error) = users.trust(&self.current.bundle)
        {
            tracing::error!("failed to publish the new certificate authority: {error}");
        }
    }
}

/// Returns the difference between the wall clock and the elapsed time, if it exceeds [`STEP`].
fn clock_step(before: OffsetDateTime, now: OffsetDateTime, passed: std::time::Duration) -> Option<Duration> {
    let passed = Duration::try_from(passed).unwrap_or(Duration::ZERO);
    let by = (now - before) - passed;
    (by.abs() > STEP).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_over_after_the_last_second() {
        let expiry = Expiry(Arc::new(AtomicI64::new(1000)));
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        assert!(!expiry.is_over(at(1000)) && expiry.is_over(at(1001)));
    }

    #[test]
    fn detects_steps_of_the_clock() {
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        for (now, passed, want) in
            [(1060, 60, None), (1065, 60, None), (4600, 60, Some(3540)), (0, 60, Some(-1060)), (1000, 61, Some(-61))]
        {
            let step = clock_step(at(1000), at(now), std::time::Duration::from_secs(passed));
            assert_eq!(step.map(Duration::whole_seconds), want, "{now} {passed}");
        }
    }
}
