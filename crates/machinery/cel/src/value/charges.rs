//! The work and memory of values, which are charged in advance.

use super::Val;
use crate::error::Error;
use crate::meter::Meter;

/// The memory of an entry of a map.
const ENTRY: usize = 160;

impl Meter {
    /// Charges the work and memory of a list of this length.
    #[inline]
    pub(crate) fn list(&self, len: usize) -> Result<(), Error> {
        binnacle_work::charge(1 + len as u64)?;
        Ok(binnacle_work::allocate(len.saturating_mul(size_of::<Val<'_>>()))?)
    }

    /// Charges the look-up of a key.
    #[inline]
    pub(crate) fn key(&self, key: &Val<'_>) -> Result<(), Error> {
        // The key is copied and hashed.
        Ok(binnacle_work::charge(2 + key.bytes() as u64 / 4)?)
    }

    /// Charges one more entry of a map.
    #[inline]
    pub(crate) fn entry(&self, key: &Val<'_>) -> Result<(), Error> {
        self.key(key)?;
        Ok(binnacle_work::allocate(ENTRY + key.bytes())?)
    }
}
