//! Parameters of certificates that tolerate a wrong clock.
//!
//! The validity of an authority starts in the past, and its certificates start with it, so that those issued while the
//! clock is ahead are valid once it is corrected. If the clock is obviously behind (a board without a battery starts in
//! 1970), certificates are issued as if it were [`EARLIEST`], so that they have not expired once it is corrected.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyUsagePurpose};
use time::OffsetDateTime;

/// The earliest time that a correct clock can show.
pub(super) const EARLIEST: OffsetDateTime = match OffsetDateTime::from_unix_timestamp(1_767_225_600) {
    Ok(new_year_of_2026) => new_year_of_2026,
    Err(_) => OffsetDateTime::UNIX_EPOCH,
};

pub(super) fn params(name: &str, begins: OffsetDateTime, ends: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = begins;
    params.not_after = ends;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}
