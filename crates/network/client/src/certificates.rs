//! Metrics of server certificates without subject alternative names or with SHA-1 signatures.

use std::sync::LazyLock;

use binnacle_metrics::{IntCounter, Registry, families};
use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::tls::sha1_name;

/// The flaws of a certificate that is still accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    missing_san: bool,
    insecure_sha1: bool,
}

const MISSING_SAN: &str = "[ALPHA] Counts the number of requests to servers missing SAN extension in their serving certificate \
                           OR the number of connection failures due to the lack of x509 certificate SAN extension missing \
                           (either/or, based on the runtime environment)";
const INSECURE_SHA1: &str = "[ALPHA] Counts the number of requests to servers with insecure SHA1 signatures in their serving \
                             certificate OR the number of connection failures due to the insecure SHA1 signatures \
                             (either/or, based on the runtime environment)";

families! {
    struct WebhookFamilies {
        missing_san: IntCounter = "apiserver_webhooks_x509_missing_san_total", MISSING_SAN;
        insecure_sha1: IntCounter = "apiserver_webhooks_x509_insecure_sha1_total", INSECURE_SHA1;
    }
}

families! {
    struct AggregatorFamilies {
        missing_san: IntCounter = "apiserver_kube_aggregator_x509_missing_san_total", MISSING_SAN;
        insecure_sha1: IntCounter = "apiserver_kube_aggregator_x509_insecure_sha1_total", INSECURE_SHA1;
    }
}

/// Counts requests to servers whose certificates have flaws, and requests that failed because of them.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    missing_san: IntCounter,
    insecure_sha1: IntCounter,
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed)
}

impl Flaws {
    /// Returns the flaws of a server's certificate chain, leaf first.
    #[must_use]
    pub fn of(chain: &[CertificateDer<'_>]) -> Self {
        let own = chain.first().and_then(parse);
        let missing_san = own.is_some_and(|own| !matches!(own.subject_alternative_name(), Ok(Some(_)) | Err(_)));
        // The signature of a self-signed certificate does not matter.
        let is_weak = |one: &X509Certificate<'_>| sha1_name(one).is_some() && one.issuer() != one.subject();
        Self { missing_san, insecure_sha1: chain.iter().filter_map(parse).any(|one| is_weak(&one)) }
    }
}

impl CertificateMetrics {
    /// Registers the metrics for aggregated servers. Fails if the registry already has their names.
    pub fn of_aggregated(registry: &Registry) -> Result<Self, prometheus::Error> {
        let AggregatorFamilies { missing_san, insecure_sha1 } = AggregatorFamilies::register(registry)?;
        Ok(Self { missing_san, insecure_sha1 })
    }

    /// Counts a response of a server whose certificate has these flaws.
    pub fn answered(&self, flaws: Flaws) {
        if flaws.missing_san {
            self.missing_san.inc();
        }
        if flaws.insecure_sha1 {
            self.insecure_sha1.inc();
        }
    }

    /// Counts a request that could not be sent. `why` is the message from [`explain`](crate::explain).
    pub fn failed(&self, why: &str) {
        self.answered(Flaws {
            missing_san: why.contains("x509: certificate relies on legacy Common Name field"),
            insecure_sha1: why
                .split_once("x509: cannot verify signature: insecure algorithm")
                .is_some_and(|(_, rest)| rest.contains("SHA1")),
        });
    }
}

static WEBHOOK_FAMILIES: LazyLock<WebhookFamilies> = LazyLock::new(|| {
    // Families without labels and buckets are valid.
    WebhookFamilies::build().unwrap_or_else(|error| panic!("a metric without fault: {error}"))
});

static OF_WEBHOOKS: LazyLock<CertificateMetrics> = LazyLock::new(|| {
    let WebhookFamilies { missing_san, insecure_sha1 } = &*WEBHOOK_FAMILIES;
    CertificateMetrics { missing_san: missing_san.clone(), insecure_sha1: insecure_sha1.clone() }
});

/// Returns the metrics for all webhooks.
pub fn webhook_certificates() -> &'static CertificateMetrics {
    &OF_WEBHOOKS
}

/// Registers the metrics for webhooks.
pub fn register_webhook_certificates(registry: &Registry) -> Result<(), prometheus::Error> {
    WEBHOOK_FAMILIES.register_in(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_flaws_of_certificates() {
        let plain = rcgen::CertificateParams::new(Vec::new()).unwrap();
        let named = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        let make = |parameters: rcgen::CertificateParams| {
            parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let (plain, named) = (make(plain), make(named));
        assert_eq!(Flaws::of(std::slice::from_ref(&plain)), Flaws { missing_san: true, insecure_sha1: false });
        assert_eq!(Flaws::of(&[named, plain]), Flaws::default());
        assert_eq!(Flaws::of(&[]), Flaws::default());

        let registry = Registry::new();
        let metrics = CertificateMetrics::of_aggregated(&registry).unwrap();
        metrics.answered(Flaws { missing_san: true, insecure_sha1: false });
        metrics.answered(Flaws::default());
        metrics.failed(
            "tls: failed to verify certificate: x509: certificate relies on legacy Common Name field, use SANs instead",
        );
        metrics.failed(
            "x509: certificate signed by unknown authority (possibly because of \"x509: cannot verify signature: insecure \
             algorithm SHA1-RSA\" while trying to verify candidate authority certificate \"ca\")",
        );
        metrics.failed("EOF");
        assert_eq!((metrics.missing_san.get(), metrics.insecure_sha1.get()), (2, 1));
        let names: Vec<String> = registry.gather().iter().map(|family| family.name().to_owned()).collect();
        assert_eq!(
            names,
            ["apiserver_kube_aggregator_x509_insecure_sha1_total", "apiserver_kube_aggregator_x509_missing_san_total"]
        );
    }
}
