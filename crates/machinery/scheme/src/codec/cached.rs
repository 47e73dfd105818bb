//! The cached form of objects whose text is much larger than their stored form.
//!
//! Defaults that a schema gains later, or a conversion, can turn small stored objects into large ones. The stored size
//! bounds the memory of the cache, so such an object is cached as it is stored. An object that is too large for any
//! reader is cached with the reason.

use binnacle_schema::{Object, Value};
use binnacle_work::{BudgetError, WorkLimits, charge, charge_bytes, limited};
use bytes::Bytes;

use crate::ReadFailure;

/// The maximum growth of an object from its stored form when it is read, in bytes: the size limit of a stored object.
const MAX_GROWTH: usize = 1536 << 10;
/// The growth in bytes that any object may have in the cache.
const FREE_GROWTH: usize = 8 << 10;
/// The factor by which any object may grow in the cache.
const FREE_FACTOR: usize = 3;

/// No JSON or CBOR begins with these bytes.
const AS_STORED: u8 = 0;
const TOO_LARGE: u8 = 1;

/// Cached bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedBytes<'k> {
    /// The text that readers receive.
    Text(&'k [u8]),
    /// The stored text, which each read completes.
    AsStored(&'k [u8]),
    /// The stored text of an object that is too large to be read, with the reason.
    TooLarge { why: &'k str, stored: &'k [u8] },
}

impl<'k> CachedBytes<'k> {
    pub(crate) fn of(cached: &'k [u8]) -> Self {
        match cached.split_first() {
            Some((&AS_STORED, stored)) => Self::AsStored(stored),
            Some((&TOO_LARGE, rest)) => {
                let (length, rest) =
                    rest.split_first().map_or((0, rest), |(length, rest)| (usize::from(*length), rest));
                let (why, stored) = rest.split_at(length.min(rest.len()));
                Self::TooLarge { why: std::str::from_utf8(why).unwrap_or("it is too large"), stored }
            }
            _ => Self::Text(cached),
        }
    }

    /// Returns the stored text, or the text that readers receive if that is cached.
    pub(crate) fn stored(self) -> &'k [u8] {
        match self {
            Self::Text(text) | Self::AsStored(text) | Self::TooLarge { stored: text, .. } => text,
        }
    }
}

/// Returns the bytes to cache for an object that each read completes.
pub(crate) fn as_stored(stored: &[u8]) -> Bytes {
    [&[AS_STORED], stored].concat().into()
}

/// Returns the bytes to cache for an object that is too large to be read.
pub fn too_large(why: &str, stored: &[u8]) -> Bytes {
    let why = &why[..why.floor_char_boundary(u8::MAX.into())];
    [&[TOO_LARGE, why.len() as u8], why.as_bytes(), stored].concat().into()
}

/// Returns the reason why an object is too large to be read, if it is.
pub fn too_large_reason(cached: &[u8]) -> Option<&str> {
    match CachedBytes::of(cached) {
        CachedBytes::TooLarge { why, .. } => Some(why),
        CachedBytes::Text(_) | CachedBytes::AsStored(_) => None,
    }
}

fn larger() -> ReadFailure {
    ReadFailure::TooLarge(format!(
        "with its defaults and in this version, the object is larger than the server reads: the limit is \
         {MAX_GROWTH} bytes more than it takes in the store"
    ))
}

/// Runs the work of reading one object within the limits for one object.
///
/// # Errors
/// The error of the work, or the limit that is exceeded.
pub fn within_object_limits<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, ReadFailure> {
    match limited(WorkLimits::OBJECT, work) {
        Ok(done) => done.map_err(ReadFailure::Invalid),
        Err(exceeded) => Err(match exceeded {
            BudgetError::Steps(limit) => {
                ReadFailure::TooLarge(format!("{NEEDS} work than the server does for one object: {limit} steps"))
            }
            BudgetError::Memory(limit) => {
                ReadFailure::TooLarge(format!("{NEEDS} memory than the server uses for one object: {limit} bytes"))
            }
            BudgetError::Defaults(_) => larger(),
            passing => ReadFailure::Invalid(passing.to_string()),
        }),
    }
}

const NEEDS: &str = "with its defaults and in this version, the object needs more";

/// The growth of an object from its stored text to the text that readers receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The additional bytes.
    pub bytes: usize,
    /// True if the object may be cached in the form that readers receive.
    pub is_free: bool,
}

impl Growth {
    /// Returns the growth of an object.
    ///
    /// # Errors
    /// The object is too large to be read.
    pub fn of(object: &Value, stored: usize) -> Result<Self, ReadFailure> {
        let limit = stored.saturating_add(MAX_GROWTH);
        match text_length(object, limit) {
            Some(length) => {
                let bytes = length.saturating_sub(stored);
                Ok(Self { bytes, is_free: bytes <= FREE_GROWTH.max(FREE_FACTOR * stored) })
            }
            None => Err(larger()),
        }
    }
}

/// Returns the approximate length of the JSON of a value; `None` if it is above the limit.
pub fn text_length(object: &Value, limit: usize) -> Option<usize> {
    let mut remaining = limit;
    take_text(object, &mut remaining)?;
    Some(limit - remaining)
}

fn take_text(value: &Value, remaining: &mut usize) -> Option<()> {
    charge(1).ok()?;
    let own = match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Int(n) => n.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1,
        Value::Float(_) => 8,
        Value::Str(text) | Value::Raw(text) => escaped(text)?,
        Value::List(items) => 2 + items.len(),
        Value::Object(object) => 2 + 2 * object.len(),
    };
    *remaining = remaining.checked_sub(own)?;
    match value {
        Value::List(items) => items.iter().try_for_each(|item| take_text(item, remaining)),
        Value::Object(object) => take_members(object, remaining),
        _ => Some(()),
    }
}

fn take_members(object: &Object, remaining: &mut usize) -> Option<()> {
    object.iter().try_for_each(|(name, member)| {
        *remaining = remaining.checked_sub(escaped(name)?)?;
        take_text(member, remaining)
    })
}

/// Returns the length of a text in JSON.
fn escaped(text: &str) -> Option<usize> {
    charge_bytes(text.len()).ok()?;
    let escapes = text.bytes().filter(|byte| *byte < 0x20 || matches!(byte, b'<' | b'>' | b'&')).count();
    Some(text.len() + 2 + 5 * escapes)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{json, value};
    use binnacle_work::{allocate, check};

    use super::*;

    #[test]
    fn distinguishes_cached_encodings() {
        let stored = b"{\"a\":1}\n";
        let why = "x".repeat(300);
        for (cached, want) in [
            (Bytes::from_static(stored), CachedBytes::Text(stored)),
            (as_stored(stored), CachedBytes::AsStored(stored)),
            (too_large("why", stored), CachedBytes::TooLarge { why: "why", stored }),
            (too_large(&why, stored), CachedBytes::TooLarge { why: &why[..255], stored }),
        ] {
            assert_eq!(CachedBytes::of(&cached), want);
            assert_eq!(CachedBytes::of(&cached).stored(), stored);
        }
        assert_eq!(too_large_reason(&too_large("why", stored)), Some("why"));
        assert_eq!(too_large_reason(stored), None);
    }

    #[test]
    fn estimates_the_length_of_json() {
        for object in [
            value!({}),
            value!({"a": [1i64, 20i64, true, null], "b": {"c": "text", "d<": "\u{1}"}}),
            value!([[], [{}, {}], "a", 1234567i64]),
        ] {
            let (length, text) = (text_length(&object, 1 << 20).unwrap(), json::to_string(&object).len());
            assert!(length.abs_diff(text) <= 4, "{length} {text}");
            assert_eq!(text_length(&object, length - 1), None);
        }
    }

    #[test]
    fn bounds_growth_by_stored_size() {
        let object = |bytes: usize| value!({"a": ("x".repeat(bytes))});
        for (read, stored, want) in [
            (50, 100, Ok((0, true))),
            (100, 100, Ok((9, true))),
            (8000, 100, Ok((7909, true))),
            (40_000, 11_000, Ok((29_009, true))),
            (20_000, 100, Ok((19_909, false))),
            (1 << 20, 100, Ok(((1 << 20) + 9 - 100, false))),
            (2 << 20, 100, Err(())),
            (2 << 20, 1 << 20, Ok(((1 << 20) + 9, true))),
        ] {
            let want = want.map(|(bytes, is_free)| Growth { bytes, is_free });
            assert_eq!(Growth::of(&object(read), stored).map_err(drop), want, "{read} {stored}");
        }
    }

    #[test]
    fn enforces_limits_per_object() {
        let work = || {
            let _ = allocate(WorkLimits::OBJECT.memory + 1);
            Ok(())
        };
        let failed = within_object_limits(work).expect_err("too much");
        assert!(matches!(&failed, ReadFailure::TooLarge(why) if why.ends_with("67108864 bytes")), "{failed:?}");
        assert_eq!(check(), Ok(()));
        assert_eq!(within_object_limits(|| Err::<(), _>("no".to_owned())), Err(ReadFailure::Invalid("no".into())));
        assert_eq!(within_object_limits(|| Ok(1)), Ok(1));
    }
}
