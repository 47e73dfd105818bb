//! The body of a response, as polled by the listener.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use binnacle_request::latency::{self, Part};
use binnacle_request::{Body, BoxError, Pieces, Record};
use binnacle_transport::ResponseBody;
use binnacle_work::{PieceTurn, WorkBudget};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::compress::Gzip;
use crate::filters;
use crate::filters::audit::ResponseAuditor;
use crate::held_resources::HeldResources;
use crate::inflight::InFlight;
use crate::seats::HeldSeat;

/// Counts sent bytes, holds the request's record until everything is sent, audits the end, and turns a panic while
/// sending into the end of this stream only.
///
/// There is one for each watch, so what most responses do not need is boxed.
pub struct TrackedBody {
    pub(crate) body: Body,
    pub(crate) record: Arc<Record>,
    pub(crate) auditor: Option<Box<ResponseAuditor>>,
    /// `None` if the response is not compressed.
    pub(crate) compressing: Option<Box<Compressor>>,
    /// The budget of the pieces that remain to be produced or compressed.
    pub(crate) budget: Option<WorkBudget>,
    /// The time at which the piece being sent was handed over.
    pub(crate) handed_over_at: Option<Instant>,
    /// Dropped once the last piece was produced.
    pub(crate) held: HeldResources,
    pub(crate) inflight: Arc<InFlight>,
}

/// The compression of a response as it is sent.
pub(crate) struct Compressor {
    gzip: Gzip,
    /// The frame that is to be compressed next.
    uncompressed: Option<Frame<Pieces>>,
    turn: PieceTurn,
}

impl Compressor {
    pub(crate) fn with(gzip: Gzip) -> Self {
        Self { gzip, uncompressed: None, turn: PieceTurn::default() }
    }
}

impl ResponseBody for TrackedBody {
    fn hold(&self, guard: impl std::any::Any + Send) {
        self.record.hold(guard);
    }
}

impl TrackedBody {
    /// Ends the send time of the previous piece, which counts as sent when the next one is polled.
    fn end_send_time(&mut self) {
        if let Some(at) = self.handed_over_at.take() {
            self.record.took(Part::Write, at.elapsed());
        }
        self.held.seat.iter().for_each(HeldSeat::mark_taken);
    }

    /// Polls the next frame, uncompressed.
    fn poll_plain(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let (record, body) = (&self.record, &mut self.body);
        let step = || {
            latency::stepping_for(record, || match &self.budget {
                Some(budget) => budget.enter(|| Pin::new(body).poll_frame(cx)),
                None => Pin::new(body).poll_frame(cx),
            })
        };
        let polled = filters::panics::catch(record, step);
        let polled = polled.unwrap_or_else(|message| {
            // The body must not be polled again after a panic.
            self.body = Body::empty();
            if let Some(auditor) = &mut self.auditor {
                auditor.panicked(message);
            }
            Poll::Ready(Some(Err("the stream ended in a panic".into())))
        });
        if let (Poll::Ready(Some(Ok(frame))), Some(auditor)) = (&polled, &mut self.auditor)
            && let Some(data) = frame.data_ref()
        {
            auditor.pieces(data);
        }
        polled
    }

    /// Polls the next frame, compressed if the response is.
    fn poll_encoded(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        loop {
            let Some(compressing) = &mut self.compressing else { return self.poll_plain(cx) };
            let polled = match compressing.uncompressed.take() {
                Some(frame) => Some(Ok(frame)),
                None => std::task::ready!(self.poll_plain(cx)),
            };
            let (Some(compressing), Some(budget)) = (self.compressing.as_deref_mut(), &self.budget) else {
                return Poll::Ready(polled);
            };
            let Compressor { gzip, uncompressed, turn } = compressing;
            let sent = match polled {
                Some(Ok(frame)) => {
                    let Some(data) = frame.data_ref() else { continue };
                    let Poll::Ready(sent) = turn.poll(cx, budget, data.len(), || gzip.pieces(data)) else {
                        *uncompressed = Some(frame);
                        return Poll::Pending;
                    };
                    sent.map(|data| (data, false))
                }
                None => {
                    // The body must not be polled again after its last bytes.
                    self.body = Body::empty();
                    gzip.finish().map(|data| (data, true))
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            };
            match sent {
                Ok((Some(data), _)) => return Poll::Ready(Some(Ok(Frame::data(data.into())))),
                Ok((None, has_ended)) if has_ended => return Poll::Ready(None),
                Ok((None, _)) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl HttpBody for TrackedBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let this = &mut *self;
        this.end_send_time();
        let polled = this.poll_encoded(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            this.record.add_response_bytes(data.len() as u64);
            this.inflight.add_sent_bytes(data.len() as u64);
            this.handed_over_at = Some(Instant::now());
            this.held.seat.iter().for_each(HeldSeat::mark_handed_over);
        }
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.held = HeldResources::default();
        }
        if let (Poll::Ready(None), Some(auditor)) = (&polled, &mut this.auditor) {
            // The body has ended and must not be polled again while this waits.
            this.body = Body::empty();
            std::task::ready!(auditor.poll_sent(cx));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.compressing.as_ref().is_none_or(|compressing| compressing.gzip.has_ended())
    }

    fn size_hint(&self) -> SizeHint {
        if self.compressing.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        // Before the end is audited, because auditing drops the fields.
        self.end_send_time();
    }
}
