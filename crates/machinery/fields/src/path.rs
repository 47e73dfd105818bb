//! Paths of fields, written as text only for errors.

use binnacle_meta::FieldPath;

/// A path as a linked list of steps, each with a reference to the previous one. Extending it costs nothing; most paths
/// are never reported.
#[derive(Clone, Copy, Debug)]
pub enum Path<'p> {
    /// The object itself.
    Root,
    /// The path of a value that was not read through handles.
    At(&'p FieldPath),
    Name(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
    Key(&'p Path<'p>, &'p str),
}

impl Path<'_> {
    /// Returns the path as text.
    pub fn text(&self) -> FieldPath {
        match self {
            Self::Root => FieldPath::root(),
            Self::At(path) => (*path).clone(),
            Self::Name(parent, name) => parent.text().child(name),
            Self::Index(parent, index) => parent.text().index(*index),
            Self::Key(parent, key) => parent.text().key(key),
        }
    }
}
