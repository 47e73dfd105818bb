//! Names of container images, as far as the pull policy depends on them: an image whose contents may change is always
//! pulled.
//!
//! The grammar is that of `github.com/distribution/reference`.

use std::borrow::Cow;

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DOMAIN: &str = "index.docker.io";
/// The namespace of images without one, on Docker Hub only. It counts towards the length of a name.
const DEFAULT_NAMESPACE: &str = "library/";
const NAME_MAX: usize = 255;
const TAG_MAX: usize = 128;

/// Returns `Always` for the tag `latest`, given or implied, and `IfNotPresent` for all others, invalid names included.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

fn is_latest(image: &str) -> bool {
    // A bare image identifier is not a name.
    if image.len() == 64 && image.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    let (domain, rest) = split_domain(image);
    let lower = rest.split(':').next().unwrap_or("");
    if lower.to_lowercase() != lower {
        return false;
    }
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (&*rest, None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    if !is_name(domain, path) || tag.is_some_and(|tag| !is_tag(tag)) || digest.is_some_and(|d| !is_digest(d)) {
        return false;
    }
    match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    }
}

/// Splits off the registry: the part before the first slash, if it looks like a host. The rest has a namespace.
fn split_domain(image: &str) -> (&str, Cow<'_, str>) {
    let (domain, rest) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first => {
            (first, rest)
        }
        _ => (DEFAULT_DOMAIN, image),
    };
    let domain = if domain == LEGACY_DOMAIN { DEFAULT_DOMAIN } else { domain };
    if domain == DEFAULT_DOMAIN && !rest.contains('/') {
        return (domain, Cow::Owned(format!("{DEFAULT_NAMESPACE}{rest}")));
    }
    (domain, Cow::Borrowed(rest))
}

fn is_name(domain: &str, path: &str) -> bool {
    // A domain that cannot be a registry is the first component of the path, and counts towards its length.
    let length = match is_domain(domain) {
        true => path.len(),
        false if is_component(domain) => domain.len() + 1 + path.len(),
        false => return false,
    };
    length <= NAME_MAX && path.split('/').all(is_component)
}

/// Returns true for lower-case letters and digits, joined by one dot, one or two underscores, or dashes.
fn is_component(component: &str) -> bool {
    let is_alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    is_alphanumeric(*first)
        && is_alphanumeric(*last)
        && bytes
            .split(|c| is_alphanumeric(*c))
            .all(|joint| matches!(joint, b"" | b"." | b"_" | b"__") || joint.iter().all(|c| *c == b'-'))
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|c| c.is_ascii_digit())) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|c| c.is_ascii_hexdigit() || c == b':');
    }
    host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    tag.len() <= TAG_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|c| is_word(c) || c == b'.' || c == b'-')
}

/// Returns true for a known algorithm and a number of its length.
fn is_digest(digest: &str) -> bool {
    let digits = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    digits.0.len() == digits.1 && digits.0.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_latest_images() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let tagged_digest = format!("nginx:latest@sha256:{}", "a".repeat(64));
        let id = "a".repeat(64);
        for (image, always) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("registry.k8s.io/pause", true),
            ("registry.k8s.io/pause:3.9", false),
            ("localhost:5000/team/app", true),
            ("localhost:5000/team/app:v1", false),
            ("Example.COM/app", true),
            ("team/app__x", true),
            (&digest, false),
            (&tagged_digest, true),
            (&id, false),
            ("", false),
            ("Nginx", false),
            ("nginx:", false),
            ("a//b", false),
            ("a___b", false),
            ("nginx:latest ", false),
            ("foo_bar.com/x", true),
            ("nginx@sha256:12", false),
            // With its namespace, a name has at most 255 characters.
            (&"a".repeat(247), true),
            (&"a".repeat(248), false),
            (&format!("docker.io/{}", "a".repeat(248)), false),
            (&format!("example.com/{}", "a".repeat(255)), true),
            (&format!("example.com/{}", "a".repeat(256)), false),
        ] {
            assert_eq!(is_latest(image), always, "{image:?}");
        }
    }
}
