//! `--version=v1.36.2-suffix`: the reported version, which distributors mark as their own.

use binnacle_meta::go_quote;

/// Checks that the text is a semantic version of the same major, minor and patch version as the release.
pub(super) fn check(text: &str, release: &str) -> Result<(), String> {
    if text == release {
        return Ok(());
    }
    let (given, own) = (numbers(text)?, numbers(release)?);
    if given == own {
        return Ok(());
    }
    let [text, release] = [text, release].map(go_quote);
    Err(format!("version {text} must match major/minor/patch of default version {release}"))
}

/// Returns the three numbers of a semantic version, as Kubernetes reads one: spaces around it and a `v` are allowed.
fn numbers(text: &str) -> Result<[u64; 3], String> {
    let quoted = || go_quote(text);
    let trimmed = text.trim_start_matches(space);
    let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let length = numeric(trimmed);
    if length == 0 {
        return Err(format!("could not parse {} as version", quoted()));
    }
    let (components, extra) = trimmed.split_at(length);
    let components: Vec<&str> = components.split('.').collect();
    let [major, minor, patch] = components[..] else {
        return Err(format!("illegal version string {}", quoted()));
    };
    let mut read = [0; 3];
    for (number, component) in read.iter_mut().zip([major, minor, patch]) {
        if zero_prefixed(component) {
            return Err(format!("illegal zero-prefixed version component {} in {}", go_quote(component), quoted()));
        }
        *number = component.parse().map_err(|_| {
            let component = go_quote(component);
            let why = format!("strconv.ParseUint: parsing {component}: value out of range");
            format!("illegal non-numeric version component {component} in {}: {why}", quoted())
        })?;
    }
    let pre_release = split(extra)
        .ok_or_else(|| format!("could not parse pre-release/metadata ({extra}) in version {}", quoted()))?;
    let bad = |component: &&str| component.parse::<u64>().is_ok() && zero_prefixed(component);
    match pre_release.split('.').find(bad) {
        Some(component) => {
            Err(format!("illegal zero-prefixed version component {} in {}", go_quote(component), quoted()))
        }
        None => Ok(read),
    }
}

/// Returns the length of the numbers, separated by single dots, at the start of a text.
fn numeric(text: &str) -> usize {
    let digits = |from: usize| text.as_bytes()[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    while length > 0 && text.as_bytes().get(length) == Some(&b'.') {
        match digits(length + 1) {
            0 => break,
            more => length += 1 + more,
        }
    }
    length
}

fn zero_prefixed(component: &str) -> bool {
    component.starts_with('0') && component != "0"
}

/// Returns the pre-release in the text after the numbers, `-pre.release+build.metadata`; both parts are optional.
fn split(extra: &str) -> Option<&str> {
    let extra = extra.trim_end_matches(space);
    let (pre_release, metadata) = extra.split_once('+').map_or((extra, None), |(before, after)| (before, Some(after)));
    let identifiers = |text: &str| {
        text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    };
    if metadata.is_some_and(|metadata| !identifiers(metadata)) {
        return None;
    }
    match pre_release.strip_prefix('-') {
        Some(text) => identifiers(text).then_some(text),
        None => pre_release.is_empty().then_some(""),
    }
}

/// The characters that Go's regular expressions take for white space.
fn space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_versions_with_suffix_only() {
        for (text, want) in [
            ("v1.36.2", ""),
            ("v1.36.2-custom", ""),
            ("v1.36.2-rc.1+k3s1", ""),
            ("v1.36.2+build", ""),
            ("v1.36.3", "version \"v1.36.3\" must match major/minor/patch of default version \"v1.36.2\""),
            ("v1.36.2custom", "could not parse pre-release/metadata (custom) in version \"v1.36.2custom\""),
            ("v1.36.2-", "could not parse pre-release/metadata (-) in version \"v1.36.2-\""),
            ("v1.36.2-a..b", "could not parse pre-release/metadata (-a..b) in version \"v1.36.2-a..b\""),
            ("v1.36.2.", "could not parse pre-release/metadata (.) in version \"v1.36.2.\""),
            ("v1.36", "illegal version string \"v1.36\""),
            ("v1.36.2.1", "illegal version string \"v1.36.2.1\""),
            ("v1.36.02", "illegal zero-prefixed version component \"02\" in \"v1.36.02\""),
            ("v1.36.2-01", "illegal zero-prefixed version component \"01\" in \"v1.36.2-01\""),
            ("vx", "could not parse \"vx\" as version"),
            (
                "v1.36.99999999999999999999",
                "illegal non-numeric version component \"99999999999999999999\" in \"v1.36.99999999999999999999\": \
                 strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
            ),
        ] {
            assert_eq!(check(text, "v1.36.2").err().unwrap_or_default(), want, "{text}");
        }
    }
}
