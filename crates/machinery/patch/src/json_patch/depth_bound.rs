//! A limit on the depth of a patched document. A patch within all other limits could nest values by `add`, `copy` and
//! `move` until a walk over the tree overflows the stack; kube-apiserver relies on its decoder.

use binnacle_schema::{Limits, Value, depth};

use super::{Operation, OperationError};

/// The maximum number of exact depth computations per patch. Each traverses the document, and suffices for dozens of
/// operations of a reasonable patch.
const MAX_COUNTS: usize = 64;

/// An upper bound of the document's depth.
pub(super) struct DepthBound {
    at_most: usize,
    counts: usize,
}

impl DepthBound {
    pub(super) fn of(document: &Value) -> Self {
        Self { at_most: depth(document), counts: 0 }
    }

    /// Adds the depth of an operation before it is applied. Fails if the document could become deeper than decoders
    /// accept.
    pub(super) fn allows(&mut self, operation: &Operation, document: &Value) -> Result<(), OperationError> {
        let limit = Limits::default().max_depth;
        let mut after = self.after(operation);
        if after > limit && self.counts < MAX_COUNTS {
            self.counts += 1;
            self.at_most = depth(document);
            after = self.after(operation);
        }
        if after > limit {
            return Err(OperationError(format!("the document would nest deeper than {limit} levels")));
        }
        self.at_most = after;
        Ok(())
    }

    fn after(&self, operation: &Operation) -> usize {
        let levels = |path: &Option<String>| path.as_deref().unwrap_or_default().matches('/').count();
        let added = match operation.kind() {
            "add" | "replace" => operation.value.as_ref().map_or(0, depth),
            "copy" | "move" => self.at_most.saturating_sub(levels(&operation.from)),
            _ => return self.at_most,
        };
        self.at_most.max(levels(&operation.path) + added)
    }
}
