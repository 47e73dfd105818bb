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
            "Address under which the rest of the cluster reaches this server: that of the 'kubernetes' service. If not set, \
             --bind-address, or that of the machine's default interface.",
        ),
        Flag::new(
            "cors-allowed-origins",
            ValueKind::Value("strings"),
            "",
            "Regular expressions of origins whose scripts may read answers, each with both ends of the host's name marked, \
             as in '//example\\.com(:|$)'.",
        ),
        Flag::new(
            "emulated-version",
            ValueKind::Value("strings"),
            "",
            "The version whose APIs and features the server shows, 'major.minor', from 1.33 to 1.36. If not set: 1.36.",
        ),
        Flag::new(
            "emulation-forward-compatible",
            ValueKind::Bool,
            "",
            "With --emulated-version: also serve those later versions of a resource that the emulated release does not know, \
             where it knows another version that is not alpha.",
        ),
        Flag::new(
            "enable-priority-and-fairness",
            ValueKind::Bool,
            "true",
            "Share the limits of requests in flight out by flow schemas and priority levels, and let requests wait. Without it, \
             requests above the limits are refused.",
        ),
        Flag::new(
            "external-hostname",
            ValueKind::Value("string"),
            "",
            "Host name of this server in documents that name it, and in the certificate that it makes for itself.",
        ),
        Flag::new(
            "feature-gates",
            ValueKind::Value("colonSeparatedMultimapStringString"),
            "",
            "Features to turn on or off, separated by commas: 'GenericWorkload=true,kube:StorageVersionHash=false'. May be given \
             several times. AllAlpha and AllBeta stand for all features of that stage.",
        ),
        Flag::new(
            "goaway-chance",
            ValueKind::Value("float"),
            "0",
            "Part of the requests after which an HTTP/2 connection is ended, so that clients spread over several servers: from 0 \
             to 0.02.",
        ),
        Flag::new(
            "livez-grace-period",
            ValueKind::Value("duration"),
            "0s",
            "How long after the start /livez takes what the start has still to do for done.",
        ),
        Flag::new("max-mutating-requests-inflight", ValueKind::Value("int"), "200", MUTATING),
        Flag::new("max-requests-inflight", ValueKind::Value("int"), "400", READ_ONLY),
        Flag::new(
            "min-compatibility-version",
            ValueKind::Value("strings"),
            "",
            "The oldest version of other servers of the cluster, 'major.minor', from 1.33 to the emulated version: what this \
             server writes, they can read. If not set: the version before the emulated one.",
        ),
        Flag::new(
            "min-request-timeout",
            ValueKind::Value("int"),
            "1800",
            "Seconds that a watch lasts at least which names no timeout; it is ended at random before twice as many.",
        ),
        Flag::new(
            "request-timeout",
            ValueKind::Value("duration"),
            "1m0s",
            "How long a request may take that is no watch or stream; clients may ask for less.",
        ),
        Flag::new(
            "runtime-config-emulation-forward-compatible",
            ValueKind::Bool,
            "",
            "With --emulated-version: also serve what --runtime-config names and the emulated release does not know.",
        ),
        Flag::new(
            "send-retry-after-while-not-ready-once",
            ValueKind::Bool,
            "",
            "Answer requests with 503 and Retry-After until the server has been ready once, but those for health and metrics.",
        ),
        Flag::new(
            "shutdown-delay-duration",
            ValueKind::Value("duration"),
            "0s",
            "How long to go on serving after the signal to stop, while /readyz already fails.",
        ),
        Flag::new(
            "shutdown-send-retry-after",
            ValueKind::Bool,
            "",
            "After that, go on listening until all short requests are answered, and answer new ones with 429 and Retry-After.",
        ),
        Flag::new(
            "shutdown-watch-termination-grace-period",
            ValueKind::Value("duration"),
            "0s",
            "How long watches may take to end when the server stops, beyond the time that they usually need.",
        ),
        Flag::new(
            "storage-initialization-timeout",
            ValueKind::Value("duration"),
            "1m0s",
            "How long the start waits for the caches of what is stored to be filled.",
        ),
        Flag::new(
            "strict-transport-security-directives",
            ValueKind::Value("strings"),
            "",
            "Directives of the Strict-Transport-Security header, for example 'max-age=31536000,includeSubDomains,preload'.",
        ),
    ],
};

const MUTATING: &str = "How many requests that change something may be in flight, 0 for no limit. With priority and fairness, a part \
                        of the total that is shared out.";
const READ_ONLY: &str = "How many requests that only read may be in flight, 0 for no limit. With priority and fairness, a part of \
                         the total that is shared out.";

/// Returns the feature gates. Those of a version that cannot be emulated are those of this release: the log needs them
/// before the versions are judged.
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
