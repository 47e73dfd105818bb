//! Values that are either statics or created at run time.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value behind a trait: a static of the program, or one created at run time and dropped with its last clone. Clones
/// are cheap, and free for statics.
pub enum Shared<T: ?Sized + 'static> {
    Static(&'static T),
    Made(Arc<T>),
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(value) => Self::Static(value),
            Self::Made(value) => Self::Made(value.clone()),
        }
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Static(value) => value,
            Self::Made(value) => value,
        }
    }
}

impl<T: ?Sized> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static(_) => "Static",
            Self::Made(_) => "Made",
        })
    }
}
