//! Rewriting of links in pages and redirects of a server behind the proxy: its own paths are made to lead through the
//! proxy.

mod html;
mod page;

pub(crate) use page::rewrite_page;

/// The hosts and the path for rewriting links.
#[derive(Clone, Copy)]
pub(crate) struct Links<'a> {
    /// The proxy's path, in front of the server's own.
    pub(crate) prefix: &'a str,
    /// The server, as it was dialed.
    pub(crate) source: &'a str,
    /// The host that the client asked for, perhaps that of another proxy in front.
    pub(crate) requested: &'a str,
}

/// [`Links`] with owned strings.
#[derive(Clone, Debug)]
pub(crate) struct OwnedLinks {
    prefix: String,
    source: String,
    requested: String,
}

impl Links<'_> {
    pub(crate) fn owned(&self) -> OwnedLinks {
        OwnedLinks {
            prefix: self.prefix.to_owned(),
            source: self.source.to_owned(),
            requested: self.requested.to_owned(),
        }
    }
}

impl OwnedLinks {
    /// Returns the rewritten link; `None` if it stays as it is: relative, or to another host.
    pub(crate) fn rewrite(&self, link: &str) -> Option<String> {
        let url = Reference::parse(link);
        let host = url.authority.map(|authority| authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        let elsewhere = host.is_some_and(|host| !host.is_empty() && host != self.source && host != self.requested);
        if elsewhere || !url.path.starts_with('/') {
            return None;
        }
        let mut rewritten = String::with_capacity(link.len() + self.prefix.len());
        // A link with the host that the client asked for keeps it; one with the server's own host becomes a path.
        if host == Some(self.requested.as_str()) && !self.requested.is_empty() {
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
            rewritten.push_str(&crate::path::clean_keeping_slash(&joined));
        }
        rewritten.push_str(url.rest);
        Some(rewritten)
    }
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
    fn links() {
        let prefix = "/api/v1/namespaces/n/services/s/proxy";
        let links = Links { prefix, source: "10.0.0.1:80", requested: "localhost:8001" }.owned();
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
}
