//! Flags for requests of all kinds, the emulated version of Kubernetes, and feature gates.

use std::time::Duration;

use binnacle_apiserver::settings::Generic;
use binnacle_features::{Gates, Version, versions};
use binnacle_server::Cors;

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};
use super::{FromFlags, global};

pub(super) const GROUP: Group = Group {
    title: "Generic",
    flags: &[
        Flag::new(
            "advertise-address",
            ValueKind::Value("ip"),
            "",
            "IP address that the server advertises to members of the cluster, as the endpoint of the service \
             'kubernetes'. It must be reachable from the rest of the cluster. If not set, --bind-address is used, or \
             the address of the host's default interface if that is unspecified or loopback.",
        ),
        Flag::new(
            "cors-allowed-origins",
            ValueKind::Value("strings"),
            "",
            "Allowed origins for CORS, as regular expressions, comma-separated. Each must anchor both ends of the \
             host name, as in '//example\\.com(:|$)'. If not set, CORS is off.",
        ),
        Flag::new(
            "emulated-version",
            ValueKind::Value("strings"),
            "",
            "Kubernetes version whose APIs, features and defaults of feature gates the server emulates, as \
             major.minor or kube=major.minor, from 1.33 to 1.36. If not set, 1.36, the version of this release.",
        ),
        Flag::new(
            "emulation-forward-compatible",
            ValueKind::Bool,
            "",
            "Also enable the API versions of a resource that became available after the emulated version, if the \
             emulated version has another beta or stable version of that resource. Only with an --emulated-version \
             below that of this release.",
        ),
        Flag::new(
            "enable-priority-and-fairness",
            ValueKind::Bool,
            "true",
            "Limit concurrent requests with API Priority and Fairness (APF): flow schemas assign requests to priority \
             levels, which share the sum of --max-requests-inflight and --max-mutating-requests-inflight and queue \
             what exceeds it. If false, requests above either limit are rejected with status 429.",
        ),
        Flag::new(
            "external-hostname",
            ValueKind::Value("string"),
            "",
            "Host name of this server in the external URLs that it publishes, such as those of discovery and OpenID \
             documents, and in the serving certificate that it generates.",
        ),
        Flag::new(
            "feature-gates",
            ValueKind::Value("colonSeparatedMultimapStringString"),
            "",
            "Feature gates to enable or disable, comma-separated: \
             'GenericWorkload=true,kube:StorageVersionHash=false'. May be repeated. AllAlpha and AllBeta set all \
             feature gates of that stage.",
        ),
        Flag::new(
            "goaway-chance",
            ValueKind::Value("float"),
            "0",
            "Probability, from 0 to 0.02, that a response tells an HTTP/2 client to reconnect (GOAWAY), so that a \
             load balancer can choose another API server; requests in flight are completed. 0, the default, turns it \
             off: leave it off without a load balancer.",
        ),
        Flag::new(
            "livez-grace-period",
            ValueKind::Value("duration"),
            "0s",
            "Time after the start during which /livez succeeds although post-start hooks have not finished yet.",
        ),
        Flag::new("max-mutating-requests-inflight", ValueKind::Value("int"), "200", MUTATING),
        Flag::new("max-requests-inflight", ValueKind::Value("int"), "400", READ_ONLY),
        Flag::new(
            "min-compatibility-version",
            ValueKind::Value("strings"),
            "",
            "Oldest Kubernetes version of other control plane components that must be able to read what this server \
             stores, as major.minor or kube=major.minor, from 1.33 to the emulated version. If not set, the minor \
             version before the emulated one.",
        ),
        Flag::new(
            "min-request-timeout",
            ValueKind::Value("int"),
            "1800",
            "Minimum timeout of watch requests in seconds, at least 0. A watch without timeoutSeconds gets a random \
             timeout between this value and twice as much, so that watches do not all end at once.",
        ),
        Flag::new(
            "request-timeout",
            ValueKind::Value("duration"),
            "1m0s",
            "Timeout of requests, except watches and other long-running requests. A client can set a shorter one with \
             the query parameter 'timeout'.",
        ),
        Flag::new(
            "runtime-config-emulation-forward-compatible",
            ValueKind::Bool,
            "",
            "Also enable APIs that --runtime-config names and that became available after the emulated version. Only \
             with an --emulated-version below that of this release.",
        ),
        Flag::new(
            "send-retry-after-while-not-ready-once",
            ValueKind::Bool,
            "",
            "Until /readyz has succeeded once, reject requests with status 503 and a Retry-After header, except those \
             for health checks and metrics.",
        ),
        Flag::new(
            "shutdown-delay-duration",
            ValueKind::Value("duration"),
            "0s",
            "Time after the termination signal during which the server still accepts requests while /readyz fails, so \
             that load balancers stop using it. Graceful termination follows.",
        ),
        Flag::new(
            "shutdown-send-retry-after",
            ValueKind::Bool,
            "",
            "During graceful termination, keep the listener open until requests in flight have been completed, and \
             reject new requests with status 429 and a Retry-After header.",
        ),
        Flag::new(
            "shutdown-watch-termination-grace-period",
            ValueKind::Value("duration"),
            "0s",
            "Maximum additional time that active watches get to end during graceful termination. They are ended at \
             once and rarely need it.",
        ),
        Flag::new(
            "storage-initialization-timeout",
            ValueKind::Value("duration"),
            "1m0s",
            "Maximum time that the server waits at the start for its storage (watch caches) to be initialized before \
             it declares itself ready.",
        ),
        Flag::new(
            "strict-transport-security-directives",
            ValueKind::Value("strings"),
            "",
            "Directives of the Strict-Transport-Security (HSTS) response header, comma-separated: max-age=SECONDS, \
             includeSubDomains, preload. If not set, the header is not sent.",
        ),
    ],
};

const MUTATING: &str = "Maximum number of mutating requests in flight. 0 means no limit. With API Priority and Fairness, its sum with \
     --max-requests-inflight is the concurrency limit of the server and must not be 0.";
const READ_ONLY: &str = "Maximum number of non-mutating requests in flight. 0 means no limit. With API Priority and Fairness, its sum \
     with --max-mutating-requests-inflight is the concurrency limit of the server and must not be 0.";

/// Returns the feature gates. Those of a version that cannot be emulated are those of this release: the log needs them
/// before the versions are validated.
pub(super) fn gates(flags: &FlagSet) -> Result<Gates, FlagError> {
    let requested = versions(&flags.all("emulated-version"), &flags.all("min-compatibility-version"));
    let (emulated, compatible) = requested.unwrap_or((Version::BINARY, Version::BINARY));
    Gates::parse(&flags.all("feature-gates"), emulated, compatible).map_err(|error| FlagError::new(error.to_string()))
}

impl FromFlags for Generic {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let not_negative = |name: &str| match flags.integer(name)? {
            number @ 0.. => Ok(number),
            _ => Err(FlagError::new(format!("--{name} can not be negative value"))),
        };
        let duration = |name: &str, message: String| {
            let negative = flags.text(name).is_some_and(|text| text.trim_start().starts_with('-'));
            let duration = flags.duration(name)?;
            if negative && duration.is_zero() { Err(FlagError::new(message)) } else { Ok(duration) }
        };
        let goaway_chance = f64::from(flags.float("goaway-chance")?);
        // As in kube-apiserver, which also accepts 0.02 in single precision.
        if !(0.0..=0.020_000_001).contains(&goaway_chance) {
            return Err(FlagError::new("--goaway-chance can not be less than 0 or greater than 0.02"));
        }
        // An unspecified address counts as absent.
        let advertise_address = flags.ip("advertise-address")?.filter(|ip| !ip.is_unspecified());
        let origins = list(flags, "cors-allowed-origins");
        let cors = (!origins.is_empty()).then(|| Cors::new(&origins)).transpose().map_err(FlagError::new)?;
        let (max_mutating_requests, max_requests) =
            (not_negative("max-mutating-requests-inflight")?, not_negative("max-requests-inflight")?);
        let priority_and_fairness = flags.flag("enable-priority-and-fairness")?;
        if priority_and_fairness && max_mutating_requests + max_requests == 0 {
            return Err(FlagError::new(
                "the sum of --max-requests-inflight and --max-mutating-requests-inflight must be positive with \
                 --enable-priority-and-fairness",
            ));
        }
        let min_request_timeout = not_negative("min-request-timeout")?;
        let failed = |error: &dyn std::fmt::Display| FlagError::new(error.to_string());
        let requested = versions(&flags.all("emulated-version"), &flags.all("min-compatibility-version"));
        let (emulated, _) = requested.map_err(|error| failed(&error))?;
        let gates = gates(flags)?;
        let forward = |name: &str, option: &str| match flags.flag(name)? {
            true if emulated == Version::BINARY => Err(FlagError::new(format!(
                "ServerRunOptions.{option} cannot be set to true if the emulation version is the same as the binary version"
            ))),
            on => Ok(on),
        };
        Ok(Self {
            advertise_address,
            cors,
            gates,
            reported_version: global::reported_version(flags)?,
            forward_compatible: forward("emulation-forward-compatible", "EmulationForwardCompatible")?,
            named_forward_compatible: forward(
                "runtime-config-emulation-forward-compatible",
                "RuntimeConfigEmulationForwardCompatible",
            )?,
            livez_grace_period: duration(
                "livez-grace-period",
                "--livez-grace-period can not be a negative value".to_owned(),
            )?,
            refuses_until_ready: flags.flag("send-retry-after-while-not-ready-once")?,
            priority_and_fairness,
            external_hostname: flags.text("external-hostname").map(str::to_owned),
            goaway_chance,
            max_mutating_requests,
            max_requests,
            min_request_timeout: Duration::from_secs(u64::try_from(min_request_timeout).unwrap_or_default()),
            request_timeout: duration("request-timeout", "--request-timeout can not be negative value".to_owned())?,
            storage_initialization: duration(
                "storage-initialization-timeout",
                "--storage-initialization-timeout can not be negative value".to_owned(),
            )?,
            shutdown_delay: duration(
                "shutdown-delay-duration",
                "--shutdown-delay-duration can not be negative value".to_owned(),
            )?,
            shutdown_send_retry_after: flags.flag("shutdown-send-retry-after")?,
            watch_grace_period: duration(
                "shutdown-watch-termination-grace-period",
                "shutdown-watch-termination-grace-period, if provided, can not be a negative value".to_owned(),
            )?,
            hsts: hsts(&list(flags, "strict-transport-security-directives"))?,
        })
    }
}

/// Returns the values of a repeatable, comma-separated flag.
pub(super) fn list<'a>(flags: &'a FlagSet, name: &str) -> Vec<&'a str> {
    let values = flags.all(name);
    if values.iter().all(|value| value.is_empty()) {
        return Vec::new();
    }
    values.into_iter().flat_map(|text| text.split(',')).collect()
}

fn hsts(directives: &[&str]) -> Result<Option<String>, FlagError> {
    for directive in directives {
        if directive.trim().is_empty() {
            return Err(FlagError::new("empty value in strict-transport-security-directives"));
        }
        let age = directive.strip_prefix("max-age=").filter(|age| !age.contains('='));
        let plain = directive.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        if !matches!(*directive, "includeSubDomains" | "preload") && (age.is_none() || !plain) {
            return Err(FlagError::new(
                "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, \
                 preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information",
            ));
        }
    }
    Ok((!directives.is_empty()).then(|| directives.join("; ")))
}
