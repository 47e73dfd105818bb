//! The status of the objects `logicalclusters`.

use binnacle_controllers::Objects;
use binnacle_meta::{Status, StatusReason};
use binnacle_schema::{Value, value};
use binnacle_store::StoredAmount;

/// What the status of a cluster says.
pub(super) struct ClusterStatus<'a> {
    pub(super) phase: &'static str,
    /// The reason of the phase `Failed`.
    pub(super) message: &'a str,
    /// The URLs for clients, the preferred one first.
    pub(super) urls: &'a [String],
    /// The namespace and name of the Secret with the administrator's kubeconfig.
    pub(super) kubeconfig_secret: &'a str,
    pub(super) usage: Option<StoredAmount>,
}

impl ClusterStatus<'_> {
    /// Writes the status, if it differs from the one in `object`. `now` is the time of a changed condition.
    pub(super) async fn write(&self, objects: &Objects, name: &str, object: &Value, now: &str) -> Result<(), Status> {
        let status = self.value(object, now);
        if object.get("status") == Some(&status) {
            return Ok(());
        }
        let set = |object: &mut Value| drop(object.make_at(&[]).insert("status", status.clone()));
        match objects.update("", name, "status", set).await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(()),
            updated => updated,
        }
    }

    fn value(&self, object: &Value, now: &str) -> Value {
        let urls = self.urls.iter().map(|url| Value::from(url.as_str())).collect();
        let mut status = value!({
            "phase": (self.phase),
            "url": (self.urls.first().map_or("", String::as_str)),
            "urls": (Value::List(urls)),
            "kubeconfigSecret": (self.kubeconfig_secret),
            "conditions": [(self.ready_condition(object, now))],
        });
        let members = status.make_at(&[]);
        if !self.message.is_empty() {
            members.insert("message", self.message);
        }
        if let Some(StoredAmount { objects, bytes }) = self.usage {
            members.insert("usage", value!({"objects": objects, "bytes": bytes}));
        }
        status
    }

    /// Returns the condition `Ready`, for `kubectl wait`.
    fn ready_condition(&self, object: &Value, now: &str) -> Value {
        let state = if self.phase == "Ready" { "True" } else { "False" };
        let before = object.list_at(&["status", "conditions"]).iter();
        let mut before = before.filter(|condition| condition.str_at(&["type"]) == "Ready");
        let since = match before.next() {
            Some(before) if before.str_at(&["status"]) == state => before.str_at(&["lastTransitionTime"]),
            _ => now,
        };
        value!({
            "type": "Ready",
            "status": state,
            "reason": (self.phase),
            "message": (self.message),
            "lastTransitionTime": since,
            "observedGeneration": (object.int_at(&["metadata", "generation"]).unwrap_or_default()),
        })
    }
}

/// Returns the schema of the status.
pub(super) fn schema() -> Value {
    let text = |description: &str| value!({"type": "string", "description": description});
    let count = |description: &str| value!({"type": "integer", "format": "int64", "description": description});
    let usage = "What is in the store, if the quota limits it; updated every 30 seconds.";
    value!({
        "type": "object",
        "properties": {
            "phase": (text("Pending, Ready, Suspended, Deleting or Failed.")),
            "url": (text("The URL for clients.")),
            "urls": {"type": "array", "items": {"type": "string"}, "description": "All URLs for clients."},
            "kubeconfigSecret": (text("The namespace and name of the Secret with the administrator's kubeconfig.")),
            "message": (text("The reason of the phase Failed.")),
            "usage": {
                "type": "object",
                "description": usage,
                "properties": {
                    "objects": (count("The number of objects.")),
                    "bytes": (count("The bytes of keys and values.")),
                },
            },
            "conditions": (conditions()),
        },
    })
}

fn conditions() -> Value {
    let text = || value!({"type": "string"});
    value!({
        "type": "array",
        "description": "The condition Ready, which is true in the phase Ready.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": (text()),
                "status": (text()),
                "reason": (text()),
                "message": (text()),
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_with_the_state() {
        let status = |phase| ClusterStatus {
            phase,
            message: "",
            urls: &[],
            kubeconfig_secret: "n/s",
            usage: Some(StoredAmount { objects: 3, bytes: 70 }),
        };
        let since =
            |object: &Value| object.list_at(&["status", "conditions"])[0].str_at(&["lastTransitionTime"]).to_owned();
        let mut object = value!({"metadata": {"generation": 2}});
        for (phase, now, want) in [
            ("Failed", "t1", "t1"),
            ("Suspended", "t2", "t1"),
            ("Ready", "t3", "t3"),
            ("Ready", "t4", "t3"),
            ("Deleting", "t5", "t5"),
        ] {
            let status = status(phase).value(&object, now);
            object.make_at(&[]).insert("status", status);
            assert_eq!(since(&object), want, "{phase}");
        }
    }
}
