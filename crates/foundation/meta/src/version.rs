//! The order of API version names: `v2` before `v1`, `v1` before `v1beta2`, then `v3alpha1`, then other names.

use std::cmp::Ordering;

/// Compares version names by stability, then by number; the greater one is preferred. All other names are less than
/// Kubernetes versions, and are in reverse alphabetical order among themselves.
pub fn compare_kube_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Parses stability, major and minor number.
fn parse(version: &str) -> Option<(u8, i64, i64)> {
    let (major, rest) = number(version.strip_prefix('v')?)?;
    let (stability, minor) = match (rest, rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        ("", _, _) => return Some((2, major, 0)),
        (_, Some(minor), _) => (1, minor),
        (_, _, Some(minor)) => (0, minor),
        _ => return None,
    };
    match number(minor)? {
        (minor, "") => Some((stability, major, minor)),
        _ => None,
    }
}

/// Parses a number, and returns it with the rest of the text.
fn number(text: &str) -> Option<(i64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(digits);
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_versions_by_preference() {
        let mut versions =
            ["foo10", "v1", "v11alpha2", "v10", "v3beta1", "foo1", "v2", "v12alpha1", "v11beta2", "v1beta", "v03"];
        versions.sort_by(|a, b| compare_kube_versions(b, a));
        assert_eq!(
            versions,
            ["v10", "v03", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v1beta"]
        );
        assert_eq!(compare_kube_versions("v1", "v1"), Ordering::Equal);
    }
}
