//! The sizes of data in variables, from their types.

use binnacle_meta::Text;

use super::estimate::Estimate;
use crate::decl_type::{DeclType, Shape};

/// A function that returns the data type of a variable.
pub(crate) struct Variables<'a>(pub(super) &'a dyn Fn(&str) -> Option<&'a DeclType>);

impl Variables<'_> {
    /// Returns the size of the data at a path in a variable, from the variable's type.
    pub(crate) fn size_at(&self, path: &[Text]) -> Option<Estimate> {
        let (root, rest) = path.split_first()?;
        let mut ty = (self.0)(root)?;
        for (i, name) in rest.iter().enumerate() {
            ty = match (&ty.shape, name.as_str()) {
                (Shape::List { element, .. }, "@items" | "@values") => element,
                (Shape::Map { value, .. }, "@items" | "@values") => value,
                (Shape::Map { key_max, .. }, "@keys") => {
                    return (i + 1 == rest.len()).then_some(Estimate { min: 0, max: *key_max });
                }
                (Shape::Object(object), name) => &object.field(name)?.ty,
                (Shape::Map { value, .. }, _) if matches!(value.shape, Shape::Any) => value,
                _ => return None,
            };
        }
        Some(Estimate { min: 0, max: ty.max_size() })
    }
}
