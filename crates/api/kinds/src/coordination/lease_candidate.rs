//! LeaseCandidate: a candidate for the holder of a lease.

use binnacle_meta::{FieldError, FieldErrors, SemanticVersion};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::{STRATEGY, strategy_name};
use crate::Features;
use crate::checks::{immutable_value, member, spec_path};
use crate::{Strategy, StrategyContext};

pub(crate) struct LeaseCandidate;

impl Strategy for LeaseCandidate {
    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        if spec.str_at(&["leaseName"]).is_empty() {
            errors.push(FieldError::required(&path.child("leaseName"), ""));
        }
        let mut version = |name: &str| {
            let text = spec.str_at(&[name]);
            let version = SemanticVersion::parse(text).ok();
            if version.is_none() && !text.is_empty() {
                errors.push(FieldError::invalid(&path.child(name), text, "must be a valid semantic version"));
            }
            version
        };
        let emulation = version("emulationVersion");
        let binary = version("binaryVersion");
        let binary_text = spec.str_at(&["binaryVersion"]);
        if binary_text.is_empty() {
            errors.push(FieldError::required(&path.child("binaryVersion"), ""));
        }
        // An invalid version counts as 0.0.0.
        let (emulation, binary) = (emulation.unwrap_or_default(), binary.unwrap_or_default());
        let both = !binary_text.is_empty() && !spec.str_at(&["emulationVersion"]).is_empty();
        if both && binary < emulation {
            let detail = "must be greater than or equal to `emulationVersion`";
            errors.push(FieldError::invalid(&path.child("binaryVersion"), binary_text, detail));
        }
        let (strategy, at) = (spec.str_at(&["strategy"]), path.child("strategy"));
        if strategy.is_empty() {
            errors.push(FieldError::required(&at, ""));
            return errors;
        }
        if strategy == STRATEGY && emulation == SemanticVersion::default() {
            let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
            errors.push(FieldError::required(&path.child("emulationVersion"), detail));
        }
        strategy_name(&at, strategy, &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        const NAME: &[&str] = &["spec", "leaseName"];
        let mut errors = self.validate(situation, object);
        immutable_value(&spec_path().child("leaseName"), object.at(NAME), old.at(NAME), &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        names::config_map_key(name)
    }
}
