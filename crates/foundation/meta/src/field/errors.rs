//! Field errors of a validation, limited in number.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::FieldError;

/// The errors of one validation. [`FieldErrors::SHOWN`] of them are listed, and one more is kept to indicate that there
/// are more. Rules iterate over lists with [`FieldErrors::while_room`], which then stops early.
#[derive(Debug, Default)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    /// Stops iterations over long lists. Set once the errors are full.
    full: OnceLock<Arc<AtomicBool>>,
}

impl FieldErrors {
    /// The maximum number of errors in a response.
    pub const SHOWN: usize = 256;
    /// The maximum size of the errors in a response. Each error appears in the message and in a cause.
    pub const SHOWN_BYTES: usize = 256 << 10;

    /// Lists up to this length are always iterated to the end, since checking the flag would cost more than it saves.
    const SHORT: usize = 16;

    pub fn new() -> Self {
        Self::default()
    }

    /// Iterates over items that a rule checks, until the errors are full.
    pub fn while_room<I: IntoIterator>(&self, items: I) -> BoundedIter<I::IntoIter> {
        let items = items.into_iter();
        let is_short = items.size_hint().1.is_some_and(|most| most <= Self::SHORT);
        let full = (!is_short).then(|| self.full.get_or_init(|| Arc::new(AtomicBool::new(self.is_full()))).clone());
        BoundedIter { items, full }
    }

    /// Adds an error, unless the errors are full.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.errors.push(error);
            self.note();
        }
    }

    /// Returns true if there are more than [`FieldErrors::SHOWN`] errors. Further ones are dropped.
    pub fn is_full(&self) -> bool {
        self.errors.len() > Self::SHOWN
    }

    /// Adds an error before all others.
    pub fn push_front(&mut self, error: FieldError) {
        self.errors.insert(0, error);
        self.errors.truncate(Self::SHOWN + 1);
        self.note();
    }

    pub fn retain(&mut self, keep: impl FnMut(&FieldError) -> bool) {
        self.errors.retain(keep);
        self.note();
    }

    /// Updates the flag that running iterations check.
    fn note(&self) {
        if let Some(full) = self.full.get() {
            full.store(self.is_full(), Ordering::Relaxed);
        }
    }
}

/// An iterator that stops once the errors are full. Created by [`FieldErrors::while_room`].
#[derive(Debug)]
pub struct BoundedIter<I> {
    items: I,
    full: Option<Arc<AtomicBool>>,
}

impl<I: Iterator> Iterator for BoundedIter<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        match &self.full {
            Some(full) if full.load(Ordering::Relaxed) => None,
            _ => self.items.next(),
        }
    }
}

impl Clone for FieldErrors {
    /// Running iterations refer to the original, not to its clone.
    fn clone(&self) -> Self {
        Self { errors: self.errors.clone(), full: OnceLock::new() }
    }
}

impl PartialEq for FieldErrors {
    fn eq(&self, other: &Self) -> bool {
        self.errors == other.errors
    }
}

impl Eq for FieldErrors {}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.errors
    }
}

impl DerefMut for FieldErrors {
    fn deref_mut(&mut self) -> &mut [FieldError] {
        &mut self.errors
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        let room = (Self::SHOWN + 1).saturating_sub(self.errors.len());
        if room > 0 {
            self.errors.extend(errors.into_iter().take(room));
            self.note();
        }
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
        Self { errors: vec![error], full: OnceLock::new() }
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
        self.errors.into_iter()
    }
}

impl<'e> IntoIterator for &'e FieldErrors {
    type Item = &'e FieldError;
    type IntoIter = std::slice::Iter<'e, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldPath;

    #[test]
    fn keeps_one_error_beyond_the_limit() {
        let error = |index| FieldError::required(&FieldPath::new("items").index(index), "");
        let mut errors: FieldErrors = (0..FieldErrors::SHOWN).map(error).collect();
        assert!(!errors.is_full());
        errors.push(error(1000));
        assert!(errors.is_full());
        errors.push(error(1001));
        errors.extend((0..100).map(error));
        assert_eq!(errors.len(), FieldErrors::SHOWN + 1);
        // Extending errors with a full list makes them full too.
        let mut outer = FieldErrors::new();
        outer.extend(errors);
        assert!(outer.is_full());
    }

    #[test]
    fn iteration_ends_when_the_errors_are_full() {
        let error = |index| FieldError::required(&FieldPath::new("items").index(index), "");
        let mut errors = FieldErrors::new();
        let mut seen = 0;
        for outer in errors.while_room(0..1000) {
            for inner in errors.while_room(0..100) {
                seen += 1;
                errors.push(error(outer * 100 + inner));
            }
        }
        assert_eq!((seen, errors.len()), (FieldErrors::SHOWN + 1, FieldErrors::SHOWN + 1));
        assert_eq!(errors.while_room(0..1000).count(), 0, "nothing is walked once they are full");
        assert_eq!(errors.clone().while_room(0..1000).count(), 0);
        errors.retain(|error| error.field.as_str() != "items[0]");
        assert_eq!(errors.while_room(0..1000).count(), 1000, "there is room again");
    }
}
