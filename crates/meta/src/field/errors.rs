//! Lists of field errors that cannot grow without end.

use std::ops::{Deref, DerefMut};

use super::FieldError;

/// The errors of one validation. At most [`FieldErrors::SHOWN`] are told, so no more than one beyond is kept: it says
/// that there were more. Rules over long lists stop where [`FieldErrors::is_full`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// How many errors a refusal tells.
    pub const SHOWN: usize = 256;

    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error, unless there are more than can be told.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.0.push(error);
        }
    }

    /// True once more errors change nothing.
    pub fn is_full(&self) -> bool {
        self.0.len() > Self::SHOWN
    }

    /// Adds an error in front of the others.
    pub fn push_front(&mut self, error: FieldError) {
        self.0.insert(0, error);
        self.0.truncate(Self::SHOWN + 1);
    }

    pub fn retain(&mut self, keep: impl FnMut(&FieldError) -> bool) {
        self.0.retain(keep);
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.0
    }
}

impl DerefMut for FieldErrors {
    fn deref_mut(&mut self) -> &mut [FieldError] {
        &mut self.0
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        let room = (Self::SHOWN + 1).saturating_sub(self.0.len());
        self.0.extend(errors.into_iter().take(room));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut list = Self::new();
        list.extend(errors);
        list
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl From<Vec<FieldError>> for FieldErrors {
    fn from(errors: Vec<FieldError>) -> Self {
        errors.into_iter().collect()
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'e> IntoIterator for &'e FieldErrors {
    type Item = &'e FieldError;
    type IntoIter = std::slice::Iter<'e, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldPath;

    #[test]
    fn one_more_than_is_told_is_kept() {
        let error = |index| FieldError::required(&FieldPath::new("items").index(index), "");
        let mut errors: FieldErrors = (0..FieldErrors::SHOWN).map(error).collect();
        assert!(!errors.is_full());
        errors.push(error(1000));
        assert!(errors.is_full());
        errors.push(error(1001));
        errors.extend((0..100).map(error));
        assert_eq!(errors.len(), FieldErrors::SHOWN + 1);
        // That there were more is not lost on the way into another list.
        let mut outer = FieldErrors::new();
        outer.extend(errors);
        assert!(outer.is_full());
    }
}
