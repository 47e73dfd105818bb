//! `node.k8s.io`: container runtimes.

mod runtime_class;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("RuntimeClass", &runtime_class::RuntimeClass)];
