//! Authentication with client certificates: the common name is the user, and the organizations are the groups.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_metrics::{LoneHistogram, Registry, families};
use binnacle_request::BoxFuture;

use crate::{AuthenticationResponse, Authenticator, AuthnError, Authorities, Credentials};

/// The histogram buckets from zero to a year, in seconds.
const LIFETIMES: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

families! {
    struct Families {
        lifetimes: LoneHistogram = "apiserver_client_certificate_expiration_seconds" buckets LIFETIMES,
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.";
    }
}

/// Authenticates client certificates of the authorities in `--client-ca-file`.
pub struct X509 {
    authorities: Arc<Authorities>,
    lifetimes: Option<LoneHistogram>,
    /// True if the UID in a certificate is used.
    reads_uids: bool,
}

impl X509 {
    pub fn new(authorities: Arc<Authorities>) -> Self {
        Self { authorities, lifetimes: None, reads_uids: true }
    }

    /// Sets whether the UID in a certificate is used or ignored.
    #[must_use]
    pub fn reading_uids(self, reads_uids: bool) -> Self {
        Self { reads_uids, ..self }
    }

    /// Records the remaining lifetimes of client certificates in the family
    /// `apiserver_client_certificate_expiration_seconds`.
    pub fn with_metrics(self, registry: &Registry) -> Result<Self, prometheus::Error> {
        let Families { lifetimes } = Families::register(registry)?;
        Ok(Self { lifetimes: Some(lifetimes), ..self })
    }

    fn observe_lifetime(&self, not_after: Option<SystemTime>) {
        if let (Some(lifetimes), Some(not_after)) = (&self.lifetimes, not_after) {
            let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            lifetimes.observe(seconds(not_after) - seconds(SystemTime::now()));
        }
    }
}

impl Authenticator for X509 {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            let verified = self.authorities.verify(credentials.connection);
            self.observe_lifetime(match &verified {
                Ok(leaf) => leaf.as_ref().map(|leaf| leaf.not_after),
                // Recorded even if no trusted authority signed it.
                Err(_) => Authorities::not_after(credentials.connection),
            });
            let Some(leaf) = verified? else { return Ok(None) };
            let user = if self.reads_uids { &leaf.user } else { &leaf.user_without_uid };
            Ok(user.clone()?.map(AuthenticationResponse::new))
        })
    }
}
