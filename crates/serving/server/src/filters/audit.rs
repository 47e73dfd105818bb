//! Audit events of a request. The policy is evaluated once the caller is authenticated; requests that fail before are
//! recorded without a user.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_audit::{Auditor, ResponseHead, Trail};
use binnacle_meta::{Status, Text, go_quote};
use binnacle_request::{AnsweredStatus, BoxFuture, ConnectionInfo, Pieces, Query, Record, RequestInfo, Response, User};
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, StatusCode};

use crate::response::{AuditExempt, PanicMessage, Rejection};

/// Headers in which intermediaries name the client.
const FORWARDED_FOR: &str = "x-forwarded-for";
const REAL_IP: &str = "x-real-ip";

/// Opens the trail of a request, if auditing is on.
pub(crate) fn open(
    auditor: Option<&Arc<Auditor>>,
    record: &Arc<Record>,
    headers: &HeaderMap,
    connection: &ConnectionInfo,
) -> Option<Arc<Trail>> {
    let auditor = auditor?.clone();
    let agent = headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let ips = source_ips(headers, connection.peer);
    Some(Arc::new(Trail::new(auditor, record.clone(), ips, agent.as_deref().unwrap_or_default())))
}

/// Records that the request was received and its caller is authenticated.
pub(crate) async fn record_received(
    trail: Option<&Arc<Trail>>,
    info: &Arc<RequestInfo>,
    user: &Arc<User>,
    record: &Record,
) -> Result<(), Rejection> {
    let Some(trail) = trail else { return Ok(()) };
    if !trail.begin(info, Some(user)) || trail.received().await {
        return Ok(());
    }
    let uri = go_quote(record.uri());
    let text = format!("Internal Server Error: {uri}: failed to store audit event");
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // This failure has been recorded; the response is not audited.
    trail.end();
    Err(Rejection::Text(StatusCode::INTERNAL_SERVER_ERROR, text))
}

/// The kinds of credentials of a request, valid or not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PresentedCredentials {
    basic: bool,
    bearer: bool,
    access_token: bool,
    certificate: bool,
}

impl PresentedCredentials {
    pub(crate) fn of(headers: &HeaderMap, query: &str, connection: &ConnectionInfo) -> Self {
        let header = headers.get(AUTHORIZATION).map(|value| value.as_bytes().trim_ascii()).unwrap_or_default();
        let credential = |scheme: &str| {
            let (given, rest) = header.split_at_checked(scheme.len())?;
            let rest = rest.strip_prefix(b" ")?;
            given.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
        };
        let pair = credential("basic").and_then(|text| BASE64_STANDARD.decode(text).ok());
        Self {
            basic: pair.is_some_and(|pair| pair.contains(&b':')),
            bearer: credential("bearer").is_some(),
            // Never accepted as a credential, but clients may send it.
            access_token: Query::parse(query).get("access_token").is_some_and(|token| !token.trim().is_empty()),
            certificate: !connection.peer_certificates.is_empty(),
        }
    }

    fn names(self) -> Vec<&'static str> {
        let all = [
            (self.basic, "basic"),
            (self.bearer, "bearer"),
            (self.access_token, "access_token"),
            (self.certificate, "x509"),
        ];
        all.into_iter().filter_map(|(tried, name)| tried.then_some(name)).collect()
    }
}

/// The properties of a response for audit events.
pub(crate) struct ResponseFacts {
    audit_exempt: bool,
    code: StatusCode,
    status: Option<Arc<Status>>,
    panic_message: Option<PanicMessage>,
    media_type: Text,
    /// True for compressed bodies, which are not recorded.
    compressed: bool,
    /// The body, if it is already complete.
    whole: Option<Bytes>,
}

impl ResponseFacts {
    /// `body` is the content of the response before it is omitted for a HEAD request.
    pub(crate) fn of(response: &Response, body: Option<Bytes>) -> Self {
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let stays_open = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        Self {
            audit_exempt: response.extensions().get::<AuditExempt>().is_some(),
            code: response.status(),
            status: response.extensions().get::<AnsweredStatus>().map(|status| status.0.clone()),
            panic_message: response.extensions().get().cloned(),
            media_type: media_type.unwrap_or_default().into(),
            compressed: response.headers().contains_key(CONTENT_ENCODING),
            whole: body.or_else(|| response.body().whole()).filter(|_| !stays_open),
        }
    }
}

/// Records a response. If a body follows its head, [`ResponseAuditor`] records the rest.
pub(crate) async fn record_response(
    trail: Arc<Trail>,
    presented: PresentedCredentials,
    info: Option<Arc<RequestInfo>>,
    head: ResponseFacts,
) -> Option<ResponseAuditor> {
    let info = info.filter(|_| !head.audit_exempt)?;
    // A request that is rejected before authentication only has an event for the head of the response.
    let unknown_caller = !trail.is_begun();
    if unknown_caller && !trail.begin(&info, None) {
        return None;
    }
    if let Some(PanicMessage(message)) = head.panic_message {
        trail.panicked(&message).await;
        return None;
    }
    let failed = head.status.is_some();
    // A Status has a better message.
    if unknown_caller && head.code == StatusCode::UNAUTHORIZED && !failed {
        trail.unauthenticated(&presented.names());
    }
    trail.answered(&ResponseHead { code: head.code.as_u16(), status: head.status });
    let limit = if head.compressed { 0 } else { trail.max_recorded_body() };
    let record_body = |body: &Bytes| {
        if limit > 0 {
            trail.body(&head.media_type, Some(body).filter(|body| body.len() <= limit));
        }
    };
    if unknown_caller {
        head.whole.iter().for_each(record_body);
        trail.started().await;
        trail.end();
        return None;
    }
    let long_running = info.is_long_running();
    if long_running {
        // The contents of streams are not recorded, but a failure instead of a stream is.
        head.whole.iter().filter(|_| failed).for_each(record_body);
        trail.started().await;
    }
    let mut limit = if long_running { 0 } else { limit };
    if let Some(body) = &head.whole {
        if !long_running {
            record_body(body);
        }
        // Events of slow requests include the time of sending.
        if !trail.is_slow() {
            trail.completed().await;
            return None;
        }
        limit = 0;
    }
    Some(ResponseAuditor {
        trail,
        media_type: head.media_type,
        captured: (limit > 0).then(BytesMut::new),
        limit,
        completing: None,
        finished: false,
    })
}

/// Records the end of a response that is sent in pieces.
pub(crate) struct ResponseAuditor {
    trail: Arc<Trail>,
    media_type: Text,
    captured: Option<BytesMut>,
    /// The limit on captured bytes; zero if none are needed.
    limit: usize,
    completing: Option<BoxFuture<'static, ()>>,
    finished: bool,
}

impl ResponseAuditor {
    /// Records pieces that are about to be sent.
    pub(crate) fn pieces(&mut self, pieces: &Pieces) {
        let fits = self.captured.as_ref().is_some_and(|captured| captured.len() + pieces.len() <= self.limit);
        match &mut self.captured {
            Some(captured) if fits => pieces.iter().for_each(|piece| captured.extend_from_slice(piece)),
            captured => *captured = None,
        }
    }

    /// Records that everything was sent; ready when the event was written.
    pub(crate) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.finished {
            return Poll::Ready(());
        }
        if self.completing.is_none() {
            if self.limit > 0 {
                let captured = self.captured.take().map(BytesMut::freeze);
                self.trail.body(&self.media_type, captured.as_ref());
            }
            let trail = self.trail.clone();
            self.completing = Some(Box::pin(async move { trail.completed().await }));
        }
        let recorded = self.completing.as_mut().map_or(Poll::Ready(()), |completing| completing.as_mut().poll(cx));
        self.finished = recorded.is_ready();
        recorded
    }

    /// Records that a panic ended the response.
    pub(crate) fn panicked(&mut self, message: String) {
        let trail = self.trail.clone();
        self.finished = true;
        detach(async move { trail.panicked(&message).await });
    }
}

impl Drop for ResponseAuditor {
    /// Records that the client disconnected before the end.
    fn drop(&mut self) {
        if !self.finished {
            match self.completing.take() {
                Some(completing) => detach(completing),
                None => {
                    let trail = self.trail.clone();
                    detach(async move { trail.completed().await });
                }
            }
        }
    }
}

/// Runs `work` to its end in the background. Most backends finish immediately.
fn detach(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    let mut cx = Context::from_waker(Waker::noop());
    if pin!(&mut work).poll(&mut cx).is_pending()
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(work);
    }
}

/// Returns the addresses on the path of a request, the client's first. All except the last are claims of clients and
/// proxies.
fn source_ips(headers: &HeaderMap, peer: Option<SocketAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut ips: Vec<IpAddr> = text(FORWARDED_FOR).split(',').filter_map(|part| part.trim().parse().ok()).collect();
    if let Ok(real) = text(REAL_IP).parse::<IpAddr>()
        && !ips.contains(&real)
    {
        ips.push(real);
    }
    if let Some(peer) = peer.map(|peer| peer.ip().to_canonical())
        && ips.last() != Some(&peer)
    {
        ips.push(peer);
    }
    ips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_presented_credentials() {
        let connection = ConnectionInfo::default();
        for (header, query, want) in [
            ("", "", ""),
            ("Basic dXNlcjpwYXNz", "", "basic"),
            ("basic dXNlcg==", "", ""),
            ("Basic %", "", ""),
            ("Bearer", "", ""),
            ("bearer  x", "a=b", "bearer"),
            ("Bearer x", "access_token=y", "bearer, access_token"),
            ("", "access_token=", ""),
        ] {
            let mut headers = HeaderMap::new();
            if !header.is_empty() {
                headers.insert(AUTHORIZATION, header.parse().unwrap());
            }
            assert_eq!(
                PresentedCredentials::of(&headers, query, &connection).names().join(", "),
                want,
                "{header} {query}"
            );
        }
    }

    #[test]
    fn lists_source_addresses() {
        let peer = Some(SocketAddr::from(([10, 0, 0, 9], 1)));
        for (forwarded, real, want) in [
            ("", "", "10.0.0.9"),
            ("1.1.1.1, 2.2.2.2", "", "1.1.1.1 2.2.2.2 10.0.0.9"),
            ("1.1.1.1,bogus", "3.3.3.3", "1.1.1.1 3.3.3.3 10.0.0.9"),
            ("1.1.1.1", "1.1.1.1", "1.1.1.1 10.0.0.9"),
            ("1.1.1.1, 10.0.0.9", "", "1.1.1.1 10.0.0.9"),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(FORWARDED_FOR, forwarded), (REAL_IP, real)] {
                if !value.is_empty() {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            let ips: Vec<String> = source_ips(&headers, peer).iter().map(ToString::to_string).collect();
            assert_eq!(ips.join(" "), want);
        }
    }
}
