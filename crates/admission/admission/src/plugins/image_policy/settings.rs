//! The configuration of ImagePolicyWebhook. Unknown fields are ignored, since it is not an API object.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use binnacle_fields::types::{Bool, Int, Str};
use binnacle_fields::{FieldRef, messages};
use binnacle_meta::GoDuration;
use binnacle_schema::{Field, Limits, Message, MessageRef, Ty, decode, yaml};
use binnacle_webhook::{Client, load, parse};

messages! {
    Configuration { IMAGE_POLICY: Policy = "imagePolicy" }

    Policy {
        KUBE_CONFIG_FILE: Str = "kubeConfigFile",
        DEFAULT_ALLOW: Bool = "defaultAllow",
        ALLOW_TTL: Int = "allowTTL",
        DENY_TTL: Int = "denyTTL",
        RETRY_BACKOFF: Int = "retryBackoff",
    }
}

/// The timeout of a call, including reading the response.
const TIMEOUT: Duration = Duration::from_secs(30);

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;

/// The webhook that decides on images, and the TTLs of its cached responses.
#[derive(Clone, Debug)]
pub struct ImagePolicySettings {
    pub(super) client: Client,
    pub(super) allow_ttl: Duration,
    pub(super) deny_ttl: Duration,
    pub(super) retry_backoff: Duration,
    /// True if images are allowed if the webhook fails.
    pub(super) default_allow: bool,
}

impl ImagePolicySettings {
    /// Parses the configuration. Errors have kube-apiserver's messages.
    pub fn read(text: Option<&[u8]>) -> Result<Self, String> {
        let text = text.ok_or("no config specified")?;
        let (tree, _) = yaml::parse(text, &Limits::default()).map_err(|error| error.to_string())?;
        let file = decode::value(tree, &message()).map_err(|error| error.to_string())?.value;
        let policy = FieldRef::<Configuration>::root(&file).at(Configuration::IMAGE_POLICY).detached();
        let number = |field| policy.at(field).int_or_zero();
        let retry_backoff = duration(number(Policy::RETRY_BACKOFF), MILLISECOND, [1, 5 * MINUTE, 500 * MILLISECOND])?;
        let allow_ttl = duration(number(Policy::ALLOW_TTL), SECOND, [SECOND, 30 * MINUTE, 5 * MINUTE])?;
        let deny_ttl = duration(number(Policy::DENY_TTL), SECOND, [SECOND, 30 * MINUTE, 30 * SECOND])?;
        let target = match policy.at(Policy::KUBE_CONFIG_FILE).str() {
            "" => parse(Path::new(""), b""),
            path => load(Path::new(path)),
        };
        let target = target.map_err(|error| error.to_string())?;
        let client = Client::new(target, TIMEOUT).map_err(|error| error.to_string())?;
        let default_allow = policy.at(Policy::DEFAULT_ALLOW).bool();
        Ok(Self { client, allow_ttl, deny_ttl, retry_backoff, default_allow })
    }
}

fn message() -> Message {
    let text = Field::new(Policy::KUBE_CONFIG_FILE.name(), Ty::String);
    let boolean = Field::new(Policy::DEFAULT_ALLOW.name(), Ty::Bool);
    let numbers = [Policy::ALLOW_TTL, Policy::DENY_TTL, Policy::RETRY_BACKOFF];
    let numbers = numbers.map(|field| Field::new(field.name(), Ty::Int64));
    let policy =
        Message::new("imagePolicyWebhookConfig", [text, boolean].into_iter().chain(numbers).collect::<Vec<_>>());
    let policy = Ty::Message(MessageRef::Shared(Arc::new(policy)));
    Message::new("AdmissionConfig", vec![Field::new(Configuration::IMAGE_POLICY.name(), policy)])
}

/// Converts a number of `unit`s: -1 means zero, and 0 the default. Minimum, maximum and default are in nanoseconds.
fn duration(number: i64, unit: i64, [least, most, default]: [i64; 3]) -> Result<Duration, String> {
    let nanos = match number {
        -1 => 0,
        0 => default,
        _ => {
            // Go's integer arithmetic wraps around.
            let nanos = number.wrapping_mul(unit);
            if !(least..=most).contains(&nanos) {
                let [least, most, nanos] = [least, most, nanos].map(GoDuration);
                return Err(format!("valid value is between {least} and {most}, got {nanos}"));
            }
            nanos
        }
    };
    Ok(Duration::from_nanos(nanos.unsigned_abs()))
}
