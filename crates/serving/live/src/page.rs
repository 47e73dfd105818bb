//! The page: one file with its style and its script. The policy lists their hashes, so that no other script can run.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

pub(crate) const PAGE: &str = include_str!("page.html");

/// Returns the value of `Content-Security-Policy`: no other scripts or styles, no other hosts, no frames, and no
/// conversion of text to HTML.
pub(crate) fn policy() -> String {
    let hash = |tag: &str| BASE64_STANDARD.encode(Sha256::digest(inside(PAGE, tag)));
    let (script, style) = (hash("script"), hash("style"));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

/// Returns the text of the only element with this tag, or an empty text without one.
fn inside<'p>(page: &'p str, tag: &str) -> &'p str {
    let begin = page.split_once(&format!("<{tag}>")).map_or("", |(_, rest)| rest);
    begin.split_once(&format!("</{tag}>")).map_or("", |(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_no_external_resources() {
        for tag in ["script", "style"] {
            assert!(inside(PAGE, tag).len() > 1000, "{tag}");
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
        }
        for foreign in [
            "://",
            "src=",
            "@import",
            "url(",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " style=",
            " onclick=",
        ] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
        assert!(policy().starts_with("default-src 'none'; script-src 'sha256-"));
    }
}
