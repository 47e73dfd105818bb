//! URLs.

use std::any::Any;
use std::fmt;

use binnacle_validation::url::{Url, unescape_query};

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Entries, Map, Opaque, Val};
use std::sync::Arc;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &["kubernetes.URL"] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("url", &[("string_to_url", "(string) -> kubernetes.URL", Some(url))]),
    FunctionDecl::each("isURL", &[("is_url_string", "(string) -> bool", Some(is_url))]),
    FunctionDecl::each(
        "getScheme",
        &[("url_get_scheme", "kubernetes.URL.() -> string", Some(|_, a| part(a, |u| u.scheme.clone())))],
    ),
    FunctionDecl::each(
        "getHost",
        &[("url_get_host", "kubernetes.URL.() -> string", Some(|_, a| part(a, |u| u.host.clone().into_owned())))],
    ),
    FunctionDecl::each(
        "getHostname",
        &[("url_get_hostname", "kubernetes.URL.() -> string", Some(|_, a| part(a, hostname)))],
    ),
    FunctionDecl::each("getPort", &[("url_get_port", "kubernetes.URL.() -> string", Some(|_, a| part(a, port)))]),
    FunctionDecl::each(
        "getEscapedPath",
        &[(
            "url_get_escaped_path",
            "kubernetes.URL.() -> string",
            Some(|_, a| part(a, |u| u.escaped_path().into_owned())),
        )],
    ),
    FunctionDecl::each("getQuery", &[("url_get_query", "kubernetes.URL.() -> map(string, list(string))", Some(query))]),
];

/// The text of a valid URL.
#[derive(Debug)]
struct UrlText(String);

impl fmt::Display for UrlText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Opaque for UrlText {
    fn ty(&self) -> Type {
        Type::opaque("kubernetes.URL")
    }

    fn go_type(&self) -> &'static str {
        "cel.URL"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| match (Url::parse(&self.0), Url::parse(&other.0)) {
            // Go compares the formatted URLs: the scheme in lower case, the path escaped.
            (Ok(one), Ok(other)) => {
                one.escaped_path() == other.escaped_path() && Url { path: "", ..one } == Url { path: "", ..other }
            }
            _ => false,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn url<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let text = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    let parsed = Url::parse_request(text).and_then(|_| Url::parse(text)).map(drop);
    match parsed {
        Ok(()) => Ok(Val::opaque(UrlText(text.to_owned()))),
        Err(error) => Err(Error::new(format!("URL parse error during conversion from string: {error}"))),
    }
}

fn is_url<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let text = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    Ok(Val::Bool(Url::parse_request(text).is_ok()))
}

fn parts<'v>(args: &'v [Val<'_>]) -> std::result::Result<Url<'v>, Error> {
    let url: &UrlText = args[0].as_opaque().ok_or_else(Error::no_such_overload)?;
    // Each function parses the URL again.
    binnacle_work::charge(url.0.len() as u64)?;
    Url::parse(&url.0).map_err(Error::new)
}

fn part<'a>(args: &[Val<'a>], of: fn(&Url<'_>) -> String) -> Result<'a> {
    Ok(Val::str(of(&parts(args)?)))
}

/// Returns the host without port, and without the brackets of an IPv6 address.
fn hostname(url: &Url<'_>) -> String {
    match url.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address.to_owned(),
        None => url.host.rsplit_once(':').map_or(&*url.host, |(host, _)| host).to_owned(),
    }
}

fn port(url: &Url<'_>) -> String {
    let after = url.host.rsplit_once(']').map_or(&*url.host, |(_, after)| after);
    after.rsplit_once(':').map_or("", |(_, port)| port).to_owned()
}

fn query<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let url = parts(args)?;
    let mut values: Vec<(String, Vec<Val<'a>>)> = Vec::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (unescape_query(key), unescape_query(value)) else { continue };
        meter.work(values.len() as u64)?;
        meter.copy(128 + pair.len())?;
        match values.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.push(Val::str(value)),
            None => values.push((key, vec![Val::str(value)])),
        }
    }
    let mut entries = Entries::default();
    for (key, values) in values {
        entries.insert(Val::str(key), Val::list(values))?;
    }
    Ok(Val::Map(Map::Entries(Arc::new(entries))))
}
