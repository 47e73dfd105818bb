//! Rewrites links in pages and redirects of a backend, so that its own paths lead through the proxy.

mod html;
mod page;

use binnacle_client::path::clean_keeping_slash;
use binnacle_request::Response;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};

/// The hosts and the prefix for rewriting links.
#[derive(Clone, Copy)]
pub(crate) struct LinkRewriter<'a> {
    /// The path of the proxy, which precedes the backend's own path.
    pub(crate) prefix: &'a str,
    /// The dialed address of the backend.
    pub(crate) source: &'a str,
    /// The host in the client's request, which may be another proxy in front.
    pub(crate) requested: &'a str,
    /// The host of rewritten links, with `https`. If it is empty, rewritten links are paths or keep the requested host.
    pub(crate) target: &'a str,
}

/// [`LinkRewriter`] with owned strings.
#[derive(Clone, Debug)]
pub(crate) struct OwnedLinkRewriter {
    prefix: String,
    source: String,
    requested: String,
    target: String,
}

impl LinkRewriter<'_> {
    pub(crate) fn owned(&self) -> OwnedLinkRewriter {
        OwnedLinkRewriter {
            prefix: self.prefix.to_owned(),
            source: self.source.to_owned(),
            requested: self.requested.to_owned(),
            target: self.target.to_owned(),
        }
    }
}

impl OwnedLinkRewriter {
    /// Returns the rewritten link, or `None` if it is unchanged: relative, or to another host.
    pub(crate) fn rewrite(&self, link: &str) -> Option<String> {
        let url = Reference::parse(link);
        let host = url.authority.map(|authority| authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        let is_other_host = host.is_some_and(|host| !host.is_empty() && host != self.source && host != self.requested);
        if is_other_host || !url.path.starts_with('/') {
            return None;
        }
        let mut rewritten = String::with_capacity(link.len() + self.prefix.len());
        // A link with the requested host keeps it; a link with the backend's own host becomes a path.
        if !self.target.is_empty() {
            let user = url.authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
            rewritten.push_str("https://");
            rewritten.extend(user.into_iter().flat_map(|user| [user, "@"]));
            rewritten.push_str(&self.target);
        } else if host == Some(self.requested.as_str()) && !self.requested.is_empty() {
            if let Some(scheme) = url.scheme {
                rewritten.push_str(scheme);
                rewritten.push(':');
            }
            rewritten.push_str("//");
            rewritten.push_str(url.authority.unwrap_or_default());
        }
        if url.path.starts_with(&self.prefix) {
            rewritten.push_str(url.path);
        } else {
            let joined = format!("{}/{}", self.prefix, url.path);
            rewritten.push_str(&clean_keeping_slash(&joined));
        }
        rewritten.push_str(url.rest);
        Some(rewritten)
    }
}

/// Returns true for the headers of a response with links: a `Location` header, or an HTML page.
pub(crate) fn has_links(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    headers.contains_key(LOCATION) || kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html")
}

/// Rewrites the `Location` header, or the links of the page if there is none.
pub(crate) fn rewrite_links(mut response: Response, links: OwnedLinkRewriter) -> Response {
    let Some(location) = response.headers().get(LOCATION) else { return page::rewrite_page(response, links) };
    let rewritten = location.to_str().ok().and_then(|location| links.rewrite(location));
    if let Some(value) = rewritten.and_then(|location| HeaderValue::from_str(&location).ok()) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
}

/// The parts of a URL reference (RFC 3986, appendix B).
struct Reference<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    /// The query and fragment, with `?` and `#`.
    rest: &'a str,
}

impl<'a> Reference<'a> {
    fn parse(text: &'a str) -> Self {
        let head = text.find(['?', '#']).unwrap_or(text.len());
        let (mut left, rest) = text.split_at(head);
        let mut scheme = None;
        if let Some((before, behind)) = left.split_once(':')
            && before.starts_with(|c: char| c.is_ascii_alphabetic())
            && before.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            scheme = Some(before);
            left = behind;
        }
        let mut authority = None;
        if let Some(behind) = left.strip_prefix("//") {
            let end = behind.find('/').unwrap_or(behind.len());
            authority = Some(&behind[..end]);
            left = &behind[end..];
        }
        Self { scheme, authority, path: left, rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewrites_absolute_paths_and_own_hosts() {
        let prefix = "/api/v1/namespaces/n/services/s/proxy";
        let links = LinkRewriter { prefix, source: "10.0.0.1:80", requested: "localhost:8001", target: "" }.owned();
        for (link, want) in [
            ("/x", Some("/api/v1/namespaces/n/services/s/proxy/x")),
            ("/x/?a=b#c", Some("/api/v1/namespaces/n/services/s/proxy/x/?a=b#c")),
            ("/", Some("/api/v1/namespaces/n/services/s/proxy/")),
            ("http://10.0.0.1:80/x", Some("/api/v1/namespaces/n/services/s/proxy/x")),
            ("//10.0.0.1:80/x", Some("/api/v1/namespaces/n/services/s/proxy/x")),
            ("http://localhost:8001/x", Some("http://localhost:8001/api/v1/namespaces/n/services/s/proxy/x")),
            ("/api/v1/namespaces/n/services/s/proxy/x", Some("/api/v1/namespaces/n/services/s/proxy/x")),
            ("x/y", None),
            ("../x", None),
            ("?a", None),
            ("#a", None),
            ("", None),
            ("http://example.com/x", None),
            ("https://10.0.0.1:81/x", None),
            ("javascript:alert(1)", None),
            ("mailto:a@b", None),
        ] {
            assert_eq!(links.rewrite(link).as_deref(), want, "{link}");
        }
    }

    #[test]
    fn rewrites_links_to_the_target_host() {
        let address = "10.0.0.1:443";
        let links = LinkRewriter { prefix: "", source: address, requested: address, target: address }.owned();
        for (link, want) in [
            ("/x", Some("https://10.0.0.1:443/x")),
            ("/x//../y/?a=b#c", Some("https://10.0.0.1:443/x//../y/?a=b#c")),
            ("http://10.0.0.1:443/x", Some("https://10.0.0.1:443/x")),
            ("//me@10.0.0.1:443/x", Some("https://me@10.0.0.1:443/x")),
            ("https://10.0.0.1/x", None),
            ("https://elsewhere.test/x", None),
            ("//elsewhere.test", None),
            ("https://10.0.0.1:443", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(links.rewrite(link).as_deref(), want, "{link}");
        }
    }
}
