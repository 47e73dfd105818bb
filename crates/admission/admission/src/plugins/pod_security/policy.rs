//! The pod security policy of a namespace, from its labels.

use std::fmt;

use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_fields::types::{Map, Str};
use binnacle_fields::{FieldRef, metadata, route};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;

use crate::lookup::Labels;

const PREFIX: &str = "pod-security.kubernetes.io/";
pub(super) const LEVELS: &str = "must be one of privileged, baseline, restricted";
pub(super) const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

/// The standards, from the least to the most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A standard in a minor version; the latest if `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
            None => write!(f, "{}:latest", self.level.name()),
        }
    }
}

impl LevelVersion {
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: None };
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.name() == text)
    }
}

impl Default for Policy {
    fn default() -> Self {
        let privileged = LevelVersion::PRIVILEGED;
        Self { enforce: privileged, audit: privileged, warn: privileged }
    }
}

impl Policy {
    /// Returns the policy of a namespace, and the errors of its invalid labels.
    pub(super) fn of_object(namespace: &Value, defaults: &Self) -> (Self, FieldErrors) {
        let labels = metadata(namespace).at(ObjectMeta::LABELS).object();
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").into())).collect();
        Self::of_labels(&labels, defaults)
    }

    /// Returns the policy of labels. An invalid level counts as `restricted` for `enforce`, and as `privileged` for the
    /// others.
    pub(super) fn of_labels(labels: &Labels, defaults: &Self) -> (Self, FieldErrors) {
        let label = |name: &str| labels.iter().find(|(key, _)| key.strip_prefix(PREFIX) == Some(name));
        let mut errors = FieldErrors::new();
        let mut invalid = |name: &str, value: &str, why: &str| {
            let labels = route![AnyKind::METADATA, ObjectMeta::LABELS].path();
            errors.push(FieldError::invalid(&labels.key(&format!("{PREFIX}{name}")), value, why));
        };
        let mut read = |[mode, version]: [&str; 2], default: LevelVersion, unreadable: Level| {
            let mut read = default;
            let mut known = false;
            if let Some((_, value)) = label(mode) {
                let level = Level::parse(value);
                known = level.is_some();
                read.level = level.unwrap_or_else(|| {
                    invalid(mode, value, LEVELS);
                    unreadable
                });
            }
            if let Some((_, value)) = label(version) {
                read.version = parse_version(value).unwrap_or_else(|()| {
                    invalid(version, value, VERSIONS);
                    None
                });
            }
            (read, known)
        };
        let (enforce, enforces) = read(["enforce", "enforce-version"], defaults.enforce, Level::Restricted);
        let (audit, _) = read(["audit", "audit-version"], defaults.audit, Level::Privileged);
        let (mut warn, _) = read(["warn", "warn-version"], defaults.warn, Level::Privileged);
        // Without a level for warnings, warn about violations for which the pods of a workload would be rejected.
        if label("warn").is_none() && enforces && enforce.level > warn.level {
            warn.level = enforce.level;
            if label("warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }

    /// Returns true if both policies are equivalent for every pod.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let privileged = |each: LevelVersion| each.level == Level::Privileged;
        let like = |one: LevelVersion, other: LevelVersion| one == other || privileged(one) && privileged(other);
        like(self.enforce, other.enforce) && like(self.audit, other.audit) && like(self.warn, other.warn)
    }

    /// Returns the part of the policy that the labels set: `enforce=baseline:latest, warn=restricted:v1.30`.
    pub(super) fn labels_text(&self, labels: FieldRef<Map<Str>>) -> String {
        let is_labelled = |mode: &str| {
            let label = |name: &str| labels.key(&format!("{PREFIX}{name}")).is_set();
            label(mode) || label(&format!("{mode}-version"))
        };
        let modes = [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)];
        let labelled = modes.into_iter().filter(|(mode, each)| each.level != Level::Privileged && is_labelled(mode));
        labelled.map(|(mode, each)| format!("{mode}={each}")).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn is_fully_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|each| each.level == Level::Privileged)
    }
}

/// Parses `latest`, for which it returns `None`, or a version such as `v1.30`.
pub(super) fn parse_version(text: &str) -> Result<Option<u32>, ()> {
    if text == "latest" {
        return Ok(None);
    }
    let minor = text.strip_prefix("v1.").ok_or(())?;
    let plain = minor == "0" || (!minor.starts_with('0') && minor.bytes().all(|b| b.is_ascii_digit()));
    minor.parse().ok().filter(|_| plain).map(Some).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_policy_from_labels() {
        for (labels, enforce, warn, errors) in [
            (&[][..], "privileged:latest", "privileged:latest", 0),
            (&[("enforce", "baseline")], "baseline:latest", "baseline:latest", 0),
            (&[("enforce", "restricted"), ("enforce-version", "v1.20")], "restricted:v1.20", "restricted:v1.20", 0),
            (&[("enforce", "restricted"), ("warn", "privileged")], "restricted:latest", "privileged:latest", 0),
            (&[("enforce", "strong")], "restricted:latest", "privileged:latest", 1),
            (&[("warn", "strong"), ("warn-version", "v9.x")], "privileged:latest", "privileged:latest", 2),
            (&[("enforce-version", "v1.01")], "privileged:latest", "privileged:latest", 1),
        ] {
            let labels: Labels =
                labels.iter().map(|(name, value)| (format!("{PREFIX}{name}").into(), (*value).into())).collect();
            let (policy, found) = Policy::of_labels(&labels, &Policy::default());
            assert_eq!((policy.enforce.to_string(), policy.warn.to_string()), (enforce.into(), warn.into()));
            assert_eq!(found.len(), errors, "{labels:?}");
        }
    }
}
