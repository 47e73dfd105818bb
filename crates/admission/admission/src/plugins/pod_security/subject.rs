//! The pods and pod templates that are checked.

use std::collections::BTreeSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Container, PodOS, PodSecurityContext, PodSpec, PodTemplateSpec, SecurityContext};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_schema::Value;

use crate::plugins::pod;

#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    metadata: FieldRef<'static, 'a, ObjectMeta>,
    pub(super) spec: FieldRef<'static, 'a, PodSpec>,
}

pub(super) type ContainerRef<'a> = FieldRef<'static, 'a, Container>;

/// A pod's violation of a check.
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
    /// Wraps a pod template, or a pod, which has the same metadata and spec.
    pub(super) fn of(object: &'a Value) -> Self {
        let template = FieldRef::<PodTemplateSpec>::root(object);
        Self {
            metadata: template.at(PodTemplateSpec::METADATA).detached(),
            spec: template.at(PodTemplateSpec::SPEC).detached(),
        }
    }

    pub(super) fn security(self) -> FieldRef<'static, 'a, PodSecurityContext> {
        self.spec.at(PodSpec::SECURITY_CONTEXT).detached()
    }

    /// Iterates over all containers: init containers, containers and ephemeral containers.
    pub(super) fn containers(self) -> impl Iterator<Item = ContainerRef<'a>> {
        pod::all_containers(self.spec)
    }

    pub(super) fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.metadata.at(ObjectMeta::ANNOTATIONS).object();
        let annotations = annotations.into_iter().flat_map(|annotations| annotations.iter());
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
    }

    /// Returns true if the pod has its own user namespace, for which some checks are relaxed.
    pub(super) fn has_own_users(self) -> bool {
        self.spec.at(PodSpec::HOST_USERS).get_bool() == Some(false)
    }

    pub(super) fn is_windows(self) -> bool {
        self.spec.at(PodSpec::OS).at(PodOS::NAME).str() == "windows"
    }
}

/// Returns a container's security context.
pub(super) fn security<'a>(container: ContainerRef<'a>) -> FieldRef<'static, 'a, SecurityContext> {
    container.at(Container::SECURITY_CONTEXT).detached()
}

pub(super) fn name(container: ContainerRef<'_>) -> &str {
    container.at(Container::NAME).str()
}

/// Formats names as `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Formats the pod and the containers with a setting as `pod and container "a"`.
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

/// Sorts strings and removes duplicates.
pub(super) fn sorted<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    texts.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
