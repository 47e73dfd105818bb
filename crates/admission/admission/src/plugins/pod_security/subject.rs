//! A pod or a pod template, as the checks read it.

use std::collections::BTreeSet;

use binnacle_schema::Value;

#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    object: &'a Value,
}

/// A pod's violation of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: impl Into<String>) -> Option<Self> {
        Some(Self { reason: reason.into(), detail: detail.into() })
    }
}

impl<'a> Subject<'a> {
    /// Wraps an object with `metadata` and `spec`.
    pub(super) fn of(object: &'a Value) -> Self {
        Self { object }
    }

    pub(super) fn spec(self, path: &[&str]) -> Option<&'a Value> {
        let spec = self.object.get("spec")?;
        spec.at(path).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, path: &[&str]) -> &'a str {
        self.spec(path).and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn is_true(self, path: &[&str]) -> bool {
        self.spec(path).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn list(self, path: &[&str]) -> &'a [Value] {
        self.spec(path).and_then(Value::as_list).unwrap_or(&[])
    }

    /// Iterates over all containers: init containers, containers and ephemeral containers.
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Value> {
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |kind| self.list(&[kind]))
    }

    pub(super) fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.object.object_at(&["metadata", "annotations"]);
        let annotations = annotations.into_iter().flat_map(|annotations| annotations.iter());
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
    }

    /// Returns true if the pod has its own user namespace, for which some checks are relaxed.
    pub(super) fn has_own_users(self) -> bool {
        self.spec(&["hostUsers"]).and_then(Value::as_bool) == Some(false)
    }

    pub(super) fn is_windows(self) -> bool {
        self.text(&["os", "name"]) == "windows"
    }
}

/// Returns a member of a container's security context.
pub(super) fn security<'a>(container: &'a Value, path: &[&str]) -> Option<&'a Value> {
    container.get("securityContext")?.at(path).filter(|value| !value.is_null())
}

pub(super) fn name(container: &Value) -> &str {
    container.str_at(&["name"])
}

/// Formats names as `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Names the pod and the containers with a setting: `pod and container "a"`.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

pub(super) fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

pub(super) fn quoted<S: AsRef<str>>(texts: &[S]) -> String {
    texts.iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Sorts the texts and removes duplicates.
pub(super) fn sorted<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    texts.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
