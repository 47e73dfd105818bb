//! Lists as streams of pieces, in any output. A piece is built when the connection has room for it, so that a list of
//! any length needs the memory of one piece.
//!
//! Outputs that are not cached with the objects (YAML, indented JSON, tables, metadata only) are encoded on blocking
//! threads, piece by piece and a few lists at a time, so that no list occupies a processor for long.

use std::sync::{Arc, OnceLock};

use binnacle_meta::Status;
use binnacle_registry::{Page, Resource};
use binnacle_request::latency::{Part, measured};
use binnacle_request::{Body, Pieces, Response};
use binnacle_schema::{Object, Value};
use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::sync::Semaphore;

use crate::list_encoder::ListEncoder;
use crate::list_protobuf::ProtobufListSizer;
use crate::list_text::TextList;
use crate::negotiate::{Encoding, Output, Transform};
use crate::table;
use crate::table::Include;

/// The stored size up to which the first piece of a list is encoded on the current thread.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// Returns the response with a list in the negotiated output.
pub(crate) async fn response(
    resource: Arc<Resource>,
    output: Output,
    include: Include,
    page: Page,
) -> Result<Response, Status> {
    output.transform.check(true, || resource.collection.go_type("List"))?;
    let page = sorted(&resource, output.transform, page)?;
    let is_cached = output.transform == Transform::None
        && !output.pretty
        && matches!(output.encoding, Encoding::Json | Encoding::Protobuf);
    let (mut list, mut on_blocking_thread): (Box<dyn ListEncoder>, bool) = if output.encoding == Encoding::Protobuf {
        let mut sizer = ProtobufListSizer::new(resource, output.transform, page);
        while sizer.advance()? {
            tokio::task::yield_now().await;
        }
        (Box::new(sizer.finish()), !is_cached)
    } else {
        let list = TextList::new(resource, output, include, page);
        let small = list.pending_bytes() <= MAX_INLINE_BYTES;
        (Box::new(list), !is_cached && !small)
    };
    // An error in the first piece becomes an error response; a later one can only abort the connection.
    let first = if on_blocking_thread {
        let (first, rest) = measured(Part::Serialize, encode_on_blocking_thread(list)).await;
        list = rest;
        first
    } else {
        list.next_piece()
    };
    let first = first.transpose()?.unwrap_or_default();
    on_blocking_thread = !is_cached;
    let body = if list.is_done() { Body::pieces(first) } else { stream(first, list, on_blocking_thread) };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(output.encoding.media_type()));
    Ok(response)
}

fn stream(first: Pieces, list: Box<dyn ListEncoder>, on_blocking_thread: bool) -> Body {
    let failed = |status: Status| std::io::Error::other(status.message().to_owned());
    let pieces = futures::stream::unfold((Some(first), list), move |(first, mut list)| async move {
        if let Some(first) = first {
            return Some((Ok(first), (None, list)));
        }
        let piece;
        (piece, list) = match on_blocking_thread {
            true => encode_on_blocking_thread(list).await,
            false => (list.next_piece(), list),
        };
        Some((piece?.map_err(failed), (None, list)))
    });
    Body::stream(pieces)
}

/// Encodes a piece on a blocking thread, when the semaphore permits it.
async fn encode_on_blocking_thread(
    mut list: Box<dyn ListEncoder>,
) -> (Option<Result<Pieces, Status>>, Box<dyn ListEncoder>) {
    // The semaphore is never closed.
    let _permit = encoding_permits().acquire().await;
    let encoded = tokio::task::spawn_blocking(move || {
        let piece = list.next_piece();
        (piece, list)
    });
    match encoded.await {
        Ok(encoded) => encoded,
        Err(error) => {
            tracing::error!(%error, "failed to stream list response");
            (Some(Err(Status::internal("the list could not be made"))), Box::new(EmptyEncoder))
        }
    }
}

/// Returns the semaphore that limits encoding of lists to half of the processors.
fn encoding_permits() -> &'static Semaphore {
    static PERMITS: OnceLock<Semaphore> = OnceLock::new();
    PERMITS.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Semaphore::new((processors / 2).max(1))
    })
}

/// An encoder without pieces, after an error.
struct EmptyEncoder;

impl ListEncoder for EmptyEncoder {
    fn next_piece(&mut self) -> Option<Result<Pieces, Status>> {
        None
    }

    fn is_done(&self) -> bool {
        true
    }
}

/// Sorts the objects of kinds whose table rows have their own order.
fn sorted(resource: &Resource, transform: Transform, mut page: Page) -> Result<Page, Status> {
    let (Transform::Table(_), Some(order)) = (transform, table::columns(resource).order()) else { return Ok(page) };
    let mut objects = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        for entry in chunk {
            let object = resource.collection.decode_entry(&entry)?;
            objects.push((shallow(&object, 2), entry));
        }
    }
    objects.sort_by(|(a, _), (b, _)| order(a, b));
    Ok(Page::of(objects.into_iter().map(|(_, entry)| entry).collect(), &page))
}

/// Copies the scalar members of an object down to a depth, which are all that row orders compare.
fn shallow(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(object) if depth > 0 => {
            let members = object.iter().map(|(name, member)| (name.clone(), shallow(member, depth - 1)));
            Value::Object(Object::from_iter(members.filter(|(_, member)| !member.is_null())))
        }
        Value::Object(_) | Value::List(_) | Value::Raw(_) | Value::Null => Value::Null,
        plain => plain.clone(),
    }
}
