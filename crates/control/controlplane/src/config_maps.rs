//! Config maps that the server writes, among them the one with the date since which the use of legacy tokens is
//! tracked.

use binnacle_fields::core::v1::ConfigMap;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, rfc3339};
use binnacle_schema::{Object, Value, value};

use crate::context::ControllerContext;
use binnacle_controllers::Objects;

pub(crate) const NAMESPACE: &str = "kube-system";
const LEGACY_TOKENS: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Writes the current date, unless the config map already has a date.
pub(crate) async fn ensure_legacy_token_tracking(ctx: &ControllerContext) -> Result<(), Status> {
    let maps = Objects::new(&ctx.resources, "", "v1", "configmaps")?;
    let today = rfc3339(Context::internal("").now);
    let today = today.split('T').next().unwrap_or_default();
    match maps.get(NAMESPACE, LEGACY_TOKENS).await? {
        None => create(&maps, LEGACY_TOKENS, Object::from_iter([("since", today)])).await,
        Some(existing) if is_date(FieldRef::<ConfigMap>::root(&existing).at(ConfigMap::DATA).key("since").str()) => {
            Ok(())
        }
        Some(_) => {
            let set = |map: &mut Value| {
                FieldMut::<ConfigMap>::root(map).map_entry(ConfigMap::DATA).insert("since", today);
            };
            maps.update(NAMESPACE, LEGACY_TOKENS, "", set).await
        }
    }
}

/// Creates a config map, unless it already exists.
pub(crate) async fn create(maps: &Objects, name: &str, data: Object) -> Result<(), Status> {
    let mut map = value!({"metadata": {"name": name, "namespace": NAMESPACE}});
    if !data.is_empty() {
        FieldMut::root(&mut map).set(ConfigMap::DATA, Value::Object(data));
    }
    match maps.create(NAMESPACE, map).await {
        Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
        created => created.map(|_| ()),
    }
}

/// Returns true for a date such as `2026-11-21`.
fn is_date(text: &str) -> bool {
    let digits =
        |part: Option<&str>, len| part.is_some_and(|p| p.len() == len && p.bytes().all(|b| b.is_ascii_digit()));
    let mut parts = text.split('-');
    let shaped =
        digits(parts.next(), 4) && digits(parts.next(), 2) && digits(parts.next(), 2) && parts.next().is_none();
    shaped && binnacle_meta::Time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_dates() {
        for (text, want) in
            [("2026-11-21", true), ("2026-13-21", false), ("2026-1-2", false), ("", false), ("today", false)]
        {
            assert_eq!(is_date(text), want, "{text}");
        }
    }
}
