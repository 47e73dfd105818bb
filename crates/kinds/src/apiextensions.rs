//! `apiextensions.k8s.io`: definitions of custom resources.

mod custom_resource_definition;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("CustomResourceDefinition", &custom_resource_definition::CustomResourceDefinition)];
