//! Versions of Kubernetes, `major.minor`, and the range that a server may emulate.

use std::fmt;
use std::str::FromStr;

/// A version such as `1.36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

impl Version {
    /// The Kubernetes version of this release.
    pub const BINARY: Self = Self { major: 1, minor: 36 };
    /// The oldest version that can be emulated.
    pub const MIN_EMULATED: Self = Self { major: 1, minor: 33 };

    /// Returns the previous minor version. `1.0` has none, so it returns itself.
    pub fn previous(self) -> Self {
        Self { minor: self.minor.saturating_sub(1), ..self }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// An invalid version, or an invalid version flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    #[error("could not parse {0:?} as version")]
    Syntax(String),
    #[error("illegal version string {0:?}")]
    Illegal(String),
    #[error("patch version not allowed, got: {0}={1}")]
    Patch(String, String),
    #[error("duplicate version flag, {0}={1} and {0}={2}")]
    Duplicate(String, Version, Version),
    #[error("component not registered: {0}")]
    Component(String),
    // kube-apiserver compares with its own version including the patch number, which is 0 here.
    #[error("emulation version {0} is not between [{1}, {2}.0]")]
    Range(Version, Version, Version),
    #[error("minCompatibilityVersion version {0} is not between [{1}, {2}]")]
    Compatibility(Version, Version, Version),
    #[error("[{0}, {1}]")]
    Both(Box<VersionError>, Box<VersionError>),
}

impl FromStr for Version {
    type Err = VersionError;

    /// Parses `1.36`, `v1.36` or `1.36.0`.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let syntax = || VersionError::Syntax(text.to_owned());
        let trimmed = text.trim();
        let parts: Vec<&str> = trimmed.strip_prefix('v').unwrap_or(trimmed).split('.').collect();
        let numbers: Option<Vec<u16>> = parts.iter().map(|part| number(part)).collect();
        match numbers.ok_or_else(syntax)?.as_slice() {
            [major, minor] | [major, minor, 0] => Ok(Self { major: *major, minor: *minor }),
            [_, _, ..] => Err(VersionError::Patch("kube".to_owned(), parts.join("."))),
            _ => Err(VersionError::Illegal(text.to_owned())),
        }
    }
}

fn number(text: &str) -> Option<u16> {
    let canonical = text == "0" || !text.starts_with('0');
    text.parse().ok().filter(|_| canonical && text.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the versions of two flags: `--emulated-version`, such as `1.35` or `kube=1.35`, which defaults to the
/// binary's version; and `--min-compatibility-version`, the oldest version of other servers that must be able to read
/// what this server writes, which defaults to the version before the emulated one.
pub fn versions(emulated: &[&str], compatible: &[&str]) -> Result<(Version, Version), VersionError> {
    let emulated = flag_value(emulated)?.unwrap_or(Version::BINARY);
    let compatible = flag_value(compatible)?.unwrap_or_else(|| emulated.previous().max(Version::MIN_EMULATED));
    let is_known = (Version::MIN_EMULATED..=Version::BINARY).contains(&emulated);
    let is_compatible = (Version::MIN_EMULATED..=emulated).contains(&compatible);
    let range = || VersionError::Range(emulated, Version::MIN_EMULATED, Version::BINARY);
    let compatibility = || VersionError::Compatibility(compatible, Version::MIN_EMULATED, emulated);
    match (is_known, is_compatible) {
        (true, true) => Ok((emulated, compatible)),
        (false, true) => Err(range()),
        (true, false) => Err(compatibility()),
        (false, false) => Err(VersionError::Both(Box::new(range()), Box::new(compatibility()))),
    }
}

/// Returns the version of the component `kube` in the values of a flag.
fn flag_value(values: &[&str]) -> Result<Option<Version>, VersionError> {
    let mut found: Option<Version> = None;
    for value in values.iter().flat_map(|value| value.split(',')) {
        let (component, version) = match value.split_once('=') {
            Some((component, version)) => (component.trim(), version.trim()),
            None => ("kube", value),
        };
        let version: Version = version.parse()?;
        if component != "kube" {
            return Err(VersionError::Component(component.to_owned()));
        }
        if let Some(before) = found {
            return Err(VersionError::Duplicate(component.to_owned(), before, version));
        }
        found = Some(version);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_versions_in_range_and_rejects_others() {
        for (emulated, compatible, want) in [
            (&[][..], &[][..], Ok(("1.36", "1.35"))),
            (&["1.35"], &[], Ok(("1.35", "1.34"))),
            (&["kube=v1.33.0"], &[], Ok(("1.33", "1.33"))),
            (&[], &["1.36"], Ok(("1.36", "1.36"))),
            (&[], &["kube=1.33"], Ok(("1.36", "1.33"))),
            (&[], &["1.30"], Err("minCompatibilityVersion version 1.30 is not between [1.33, 1.36]")),
            (&["1.34"], &["1.35"], Err("minCompatibilityVersion version 1.35 is not between [1.33, 1.34]")),
            (&[], &["x"], Err("could not parse \"x\" as version")),
            (&["1.37"], &[], Err("emulation version 1.37 is not between [1.33, 1.36.0]")),
            (
                &["1.32"],
                &[],
                Err("[emulation version 1.32 is not between [1.33, 1.36.0], \
                     minCompatibilityVersion version 1.33 is not between [1.33, 1.32]]"),
            ),
            (&["1.35", "kube=1.34"], &[], Err("duplicate version flag, kube=1.35 and kube=1.34")),
            (&["wardle=1.35"], &[], Err("component not registered: wardle")),
            (&["1.35.2"], &[], Err("patch version not allowed, got: kube=1.35.2")),
            (&["x"], &[], Err("could not parse \"x\" as version")),
            (&["1"], &[], Err("illegal version string \"1\"")),
        ] {
            let got = versions(emulated, compatible).map(|(a, b)| (a.to_string(), b.to_string()));
            let want = want.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned())).map_err(str::to_owned);
            assert_eq!(got.map_err(|error| error.to_string()), want, "{emulated:?} {compatible:?}");
        }
    }
}
