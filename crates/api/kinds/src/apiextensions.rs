//! `apiextensions.k8s.io`: definitions of custom resources.

mod approval;
mod custom_resource_definition;
mod definition;
mod embedded_defaults;
mod expressions;
mod formats;
mod list_types;
mod names;
mod open_api;
mod required_checks;
mod rules;
mod schema;
mod selectable_fields;
mod structural;
mod validation;
mod version_schema;
mod versions;
mod webhook;

pub use structural::violations as structural_violations;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("CustomResourceDefinition", &custom_resource_definition::CustomResourceDefinition)];
