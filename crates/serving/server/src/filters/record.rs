//! Creates the record of a request.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::{Body, ConnectionInfo, Record, RecordSink};
use http::Request;
use http::header::{ACCEPT, USER_AGENT};

use super::headers::AUDIT_ID;

pub(crate) fn open<S: RecordSink + 'static>(
    request: &Request<Body>,
    connection: &ConnectionInfo,
    sink: &Arc<S>,
) -> Arc<Record> {
    let audit_id = request.headers().get(&AUDIT_ID).map(|id| Text::new(String::from_utf8_lossy(id.as_bytes())));
    let uri = request.uri().path_and_query().map_or("", |path| path.as_str());
    let record = Record::open(request.method().clone(), Text::new(uri), audit_id, Some(sink.clone()));
    record.note(|facts| {
        facts.user_agent = request.headers().get(USER_AGENT).cloned();
        facts.accept = request.headers().get(ACCEPT).cloned();
        facts.peer = connection.peer;
    });
    record
}
