//! `/logs`: the files of a directory, as Go's file server shows them (`--enable-logs-handler`).

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use binnacle_request::{Body, BoxFuture, Handler, Request, RequestInfo, Response};
use bytes::Bytes;
use futures::stream;
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, LAST_MODIFIED, LOCATION, RANGE};
use http::{HeaderValue, Method, StatusCode};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::below;
use crate::response::{error_text, page_not_found};

const PATH: &str = "/logs";
/// The size of the pieces in which a file is sent.
const PIECE_BYTES: usize = 64 << 10;
/// The number of bytes by which the type of a file is detected.
const SNIFF_BYTES: usize = 512;
/// The limit on listed entries of a directory.
const MAX_ENTRIES: usize = 100_000;

/// Serves the files under a directory.
pub struct LogsHandler {
    directory: PathBuf,
}

impl LogsHandler {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    async fn respond(&self, path: &str, range: Option<&HeaderValue>) -> Result<Response, std::io::Error> {
        if path.split('/').any(|part| part == "..") {
            return Ok(error_text(StatusCode::BAD_REQUEST, "invalid URL path".to_owned()));
        }
        if path.ends_with("/index.html") {
            return Ok(redirect("./"));
        }
        let rest = path.strip_prefix(PATH).unwrap_or_default().trim_start_matches('/');
        let relative = Path::new(rest);
        if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Ok(error_text(StatusCode::BAD_REQUEST, "invalid URL path".to_owned()));
        }
        let file_path = self.directory.join(relative);
        let metadata = tokio::fs::metadata(&file_path).await?;
        let (name, slash) = (path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default(), path.ends_with('/'));
        match (metadata.is_dir(), slash) {
            (true, false) => Ok(redirect(&format!("{name}/"))),
            (true, true) => listing(&file_path).await,
            (false, true) => Ok(redirect(&format!("../{name}"))),
            (false, false) => file(&file_path, metadata.len(), metadata.modified().ok(), range).await,
        }
    }
}

impl Handler for LogsHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        below(&info.path, PATH).is_some()
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            if request.method != Method::GET && request.method != Method::HEAD {
                return error_text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed".to_owned());
            }
            let (info, range) = (request.info.clone(), request.headers.get(RANGE).cloned());
            match self.respond(&info.path, range.as_ref()).await {
                Ok(response) => response,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    error_text(StatusCode::FORBIDDEN, "403 Forbidden".to_owned())
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) => {
                    page_not_found()
                }
                Err(_) => error_text(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error".to_owned()),
            }
        })
    }

    fn paths(&self) -> Vec<String> {
        vec![PATH.to_owned()]
    }
}

fn redirect(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::try_from(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// Returns a page of links to the entries of a directory.
async fn listing(file_path: &Path) -> Result<Response, std::io::Error> {
    let mut entries = tokio::fs::read_dir(file_path).await?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_dir = entry.file_type().await.is_ok_and(|kind| kind.is_dir());
        names.push(if is_dir { format!("{name}/") } else { name });
        if names.len() == MAX_ENTRIES {
            break;
        }
    }
    names.sort_unstable();
    let mut page = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<a href=\"{}\">{}</a>", link(&name), escaped(&name));
    }
    page.push_str("</pre>\n");
    let mut response = Response::new(Body::from(page));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    Ok(response)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;").replace('\'', "&#39;")
}

/// Returns a name as a URL path, with special characters percent-encoded.
fn link(name: &str) -> String {
    let mut link = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b'$' | b'+' | b'@' => {
                link.push(char::from(byte));
            }
            _ => {
                let _ = write!(link, "%{byte:02X}");
            }
        }
    }
    link
}

/// Returns a file, or the range that the client requests.
async fn file(
    file_path: &Path,
    size: u64,
    modified: Option<SystemTime>,
    range: Option<&HeaderValue>,
) -> Result<Response, std::io::Error> {
    let mut file = File::open(file_path).await?;
    let mut head = vec![0; SNIFF_BYTES];
    let read = file.read(&mut head).await?;
    let kind = content_type_of(file_path, &head[..read]);
    let part = match range.map(|range| parse_range(range.to_str().unwrap_or_default(), size)) {
        Some(RequestedRange::Unsatisfiable) => {
            let mut response =
                error_text(StatusCode::RANGE_NOT_SATISFIABLE, "invalid range: failed to overlap".to_owned());
            if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
                response.headers_mut().insert(CONTENT_RANGE, value);
            }
            return Ok(response);
        }
        Some(RequestedRange::Of(from, to)) => Some((from, to)),
        Some(RequestedRange::Whole) | None => None,
    };
    let (from, to) = part.unwrap_or((0, size));
    file.seek(std::io::SeekFrom::Start(from)).await?;
    // A log may grow while it is read, so no more than the announced length is sent.
    let pieces = stream::try_unfold((file, to - from), |(mut file, remaining)| async move {
        if remaining == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(remaining).unwrap_or(PIECE_BYTES))];
        let read = file.read(&mut piece).await?;
        if read == 0 {
            return Ok::<_, std::io::Error>(None);
        }
        piece.truncate(read);
        Ok(Some((Bytes::from(piece), (file, remaining - read as u64))))
    });
    let mut response = Response::new(Body::stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(modified) = modified
        && let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(modified))
    {
        headers.insert(LAST_MODIFIED, date);
    }
    if part.is_some() {
        if let Ok(value) = HeaderValue::try_from(format!("bytes {from}-{}/{size}", to.saturating_sub(1))) {
            headers.insert(CONTENT_RANGE, value);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// The range of a file that a Range header requests.
#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    Whole,
    /// From the first index to the second, which is excluded.
    Of(u64, u64),
    Unsatisfiable,
}

/// Returns the range of a header with a single range; several or invalid ranges select the whole file.
fn parse_range(header: &str, size: u64) -> RequestedRange {
    let Some((from, to)) = header.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return RequestedRange::Whole;
    };
    match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
        (Ok(from), _) if from >= size => RequestedRange::Unsatisfiable,
        (Ok(from), Ok(to)) if to >= from => RequestedRange::Of(from, to.saturating_add(1).min(size)),
        (Ok(from), Err(_)) if to.trim().is_empty() => RequestedRange::Of(from, size),
        (Err(_), Ok(last)) if from.trim().is_empty() => RequestedRange::Of(size.saturating_sub(last), size),
        _ => RequestedRange::Whole,
    }
}

fn content_type_of(file_path: &Path, head: &[u8]) -> &'static str {
    match file_path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => "application/gzip",
        Some("json") => "application/json",
        Some("html" | "htm") => "text/html; charset=utf-8",
        _ if head.starts_with(&[0x1f, 0x8b, 8]) => "application/x-gzip",
        _ if head.iter().any(|byte| matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31)) => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ranges() {
        for (header, want) in [
            ("bytes=0-4", RequestedRange::Of(0, 5)),
            ("bytes=5-", RequestedRange::Of(5, 10)),
            ("bytes=-3", RequestedRange::Of(7, 10)),
            ("bytes=-30", RequestedRange::Of(0, 10)),
            ("bytes=8-100", RequestedRange::Of(8, 10)),
            ("bytes=10-", RequestedRange::Unsatisfiable),
            ("bytes=4-2", RequestedRange::Whole),
            ("bytes=0-1,3-4", RequestedRange::Whole),
            ("lines=1-2", RequestedRange::Whole),
        ] {
            assert_eq!(parse_range(header, 10), want, "{header}");
        }
    }

    #[test]
    fn detects_content_types() {
        for (name, head, want) in [
            ("a.log", &b"plain"[..], "text/plain; charset=utf-8"),
            ("a", &b""[..], "text/plain; charset=utf-8"),
            ("a.log", &[0x1f, 0x8b, 8, 0], "application/x-gzip"),
            ("wtmp", &[7, 0, 0], "application/octet-stream"),
        ] {
            assert_eq!(content_type_of(Path::new(name), head), want, "{name}");
        }
    }
}
