//! The options of a delete.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{self, Preconditions};
use binnacle_fields::of_named_type;
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
    /// Whether to delete an object that cannot be read (KEP-3926).
    pub ignore_read_error: bool,
    /// True if the request has `preconditions`, even empty ones.
    pub has_preconditions: bool,
}

pub(crate) const IGNORE_READ_ERROR: &str =
    v1::DeleteOptions::IGNORE_STORE_READ_ERROR_WITH_CLUSTER_BREAKING_POTENTIAL.name();

impl DeleteOptions {
    /// Reads the options from an object, such as the body of a request or the `deleteOptions` of an eviction.
    pub fn from_object(object: &Value) -> Self {
        use v1::DeleteOptions as Given;
        let given = FieldRef::<Given>::root(object);
        let preconditions = given.at(Given::PRECONDITIONS);
        Self {
            grace_period_seconds: given.at(Given::GRACE_PERIOD_SECONDS).int(),
            uid: preconditions.at(Preconditions::UID).get_str().map(Text::from),
            resource_version: preconditions.at(Preconditions::RESOURCE_VERSION).get_str().map(Text::from),
            orphan_dependents: given.at(Given::ORPHAN_DEPENDENTS).get_bool(),
            propagation_policy: given.at(Given::PROPAGATION_POLICY).get_str().map(Text::from),
            dry_run: given.at(Given::DRY_RUN).strs().map(str::to_owned).collect(),
            ignore_read_error: given.at(Given::IGNORE_STORE_READ_ERROR_WITH_CLUSTER_BREAKING_POTENTIAL).bool(),
            has_preconditions: preconditions.is_set(),
        }
    }

    /// Validates the options with kube-apiserver's messages.
    ///
    /// # Errors
    ///
    /// 422 with all errors.
    pub fn validate(&self) -> Result<(), Status> {
        const POLICIES: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];
        use v1::DeleteOptions as Given;
        let mut errors = FieldErrors::new();
        if let Some(policy) = &self.propagation_policy {
            let path = FieldPath::new(Given::PROPAGATION_POLICY.name());
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&path, of_named_type(policy), detail));
            }
            if !POLICIES[..3].contains(&policy.as_str()) {
                errors.push(FieldError::not_supported(&path, of_named_type(policy), &POLICIES));
            }
        }
        binnacle_validation::options::dry_run(&self.dry_run, &mut errors);
        let others = [
            (Given::DRY_RUN.name(), !self.dry_run.is_empty()),
            (Given::PROPAGATION_POLICY.name(), self.propagation_policy.is_some()),
            (Given::ORPHAN_DEPENDENTS.name(), self.orphan_dependents.is_some()),
            (Given::GRACE_PERIOD_SECONDS.name(), self.grace_period_seconds.is_some()),
            (Given::PRECONDITIONS.name(), self.has_preconditions),
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

    /// Validates the options like [`DeleteOptions::validate`], for a collection.
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
