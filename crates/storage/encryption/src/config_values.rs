//! Readers of the values in the configuration file.

use std::time::Duration;

use binnacle_meta::{GoDuration, GroupResource};
use binnacle_schema::Value;

/// The timeout of calls to a KMS plugin, unless the file sets one.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns a member if it is present and not `null`.
pub(crate) fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|member| !member.is_null())
}

pub(crate) fn kms_version(kms: &Value) -> &str {
    // The default is the first version.
    if kms.str_at(&["apiVersion"]).is_empty() { "v1" } else { kms.str_at(&["apiVersion"]) }
}

pub(crate) fn kms_timeout(kms: &Value) -> Duration {
    match present(kms, "timeout").and_then(Value::as_str).map(GoDuration::parse) {
        Some(Ok(duration)) => Duration::from_nanos(u64::try_from(duration.nanos()).unwrap_or(0)),
        _ => KMS_TIMEOUT,
    }
}

pub(crate) fn texts(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Parses a resource such as `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group) or `*.*`.
pub(crate) fn parse_group_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource { group: group.into(), resource: resource.into() }
}
