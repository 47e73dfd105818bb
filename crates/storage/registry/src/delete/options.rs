//! The options of a delete.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, GroupKind, Status, Text};
use binnacle_schema::Value;

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub uid: Option<Text>,
    pub resource_version: Option<Text>,
    pub orphan_dependents: Option<bool>,
    pub propagation_policy: Option<Text>,
    pub dry_run: Vec<String>,
    /// True to delete an object that cannot be read (KEP-3926).
    pub ignore_read_error: bool,
    /// True if `preconditions` were sent, even empty ones.
    pub has_preconditions: bool,
}

pub(crate) const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl DeleteOptions {
    /// Reads the options from an object, such as the body of a request or the `deleteOptions` of an eviction.
    pub fn from_object(object: &Value) -> Self {
        let text = |path: &[&str]| object.at(path).and_then(Value::as_str).map(Text::from);
        Self {
            grace_period_seconds: object.int_at(&["gracePeriodSeconds"]),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            orphan_dependents: object.at(&["orphanDependents"]).and_then(Value::as_bool),
            propagation_policy: text(&["propagationPolicy"]),
            dry_run: object.list_at(&["dryRun"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            ignore_read_error: object.bool_at(&[IGNORE_READ_ERROR]),
            has_preconditions: object.at(&["preconditions"]).is_some_and(|given| !given.is_null()),
        }
    }

    /// Validates the options with kube-apiserver's errors.
    ///
    /// # Errors
    ///
    /// 422 with all mistakes.
    pub fn validate(&self) -> Result<(), Status> {
        const POLICIES: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];
        let path = FieldPath::new("propagationPolicy");
        let mut errors = FieldErrors::new();
        if let Some(policy) = &self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&path, policy, detail));
            }
            if !POLICIES[..3].contains(&policy.as_str()) {
                errors.push(FieldError::not_supported(&path, policy, &POLICIES));
            }
        }
        binnacle_validation::options::dry_run(&self.dry_run, &mut errors);
        let others = [
            ("dryRun", !self.dry_run.is_empty()),
            ("propagationPolicy", self.propagation_policy.is_some()),
            ("orphanDependents", self.orphan_dependents.is_some()),
            ("gracePeriodSeconds", self.grace_period_seconds.is_some()),
            ("preconditions", self.has_preconditions),
        ];
        for (other, _) in others.iter().filter(|(_, given)| *given && self.ignore_read_error) {
            let detail = format!("cannot be set together with .{other}");
            errors.push(FieldError::invalid(&FieldPath::new(IGNORE_READ_ERROR), true, detail));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors))
    }

    /// As [`DeleteOptions::validate`], for a collection.
    pub fn validate_for_collection(&self) -> Result<(), Status> {
        self.validate()?;
        if !self.ignore_read_error {
            return Ok(());
        }
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        let errors = FieldError::invalid(&FieldPath::new(IGNORE_READ_ERROR), true, detail).into();
        Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors))
    }
}
