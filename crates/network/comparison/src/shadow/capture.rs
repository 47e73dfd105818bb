//! Copies of bodies that pass by. The pieces are shared, not copied.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use binnacle_request::{Body, BoxError, Pieces};
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

/// The part of a body that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    All,
    /// The first bytes, at least this many if there are so many: those of a stream without an end.
    Beginning(usize),
}

/// The copy of a body. Its memory is counted until the copy is dropped.
#[derive(Debug)]
pub(super) struct Capture {
    pieces: Vec<Pieces>,
    size: usize,
    part: Part,
    end: End,
    budget: Budget,
}

/// The memory of all copies.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) held: Arc<AtomicUsize>,
    /// The maximum size of one body.
    pub(super) max_body: usize,
    /// The maximum size of all copies.
    pub(super) max_total: usize,
}

/// The end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The body was not sent to its end.
    CutOff,
    TooLarge,
    /// There was no memory for the copy.
    OverBudget,
    Complete,
}

impl Capture {
    fn new(part: Part, budget: Budget) -> Self {
        Self { pieces: Vec::new(), size: 0, part, end: End::CutOff, budget }
    }

    /// Copies a complete body.
    pub(super) fn whole(body: &Pieces, budget: Budget) -> Self {
        let mut capture = Self::new(Part::All, budget);
        capture.push(body);
        capture.complete();
        capture
    }

    fn push(&mut self, piece: &Pieces) {
        if self.end != End::CutOff {
            return;
        }
        let before = self.budget.held.fetch_add(piece.len(), Ordering::AcqRel);
        self.size += piece.len();
        self.pieces.push(piece.clone());
        if self.size > self.budget.max_body {
            self.give_up(End::TooLarge);
        } else if before + piece.len() > self.budget.max_total {
            self.give_up(End::OverBudget);
        } else if matches!(self.part, Part::Beginning(enough) if self.size >= enough) {
            self.end = End::Complete;
        }
    }

    fn give_up(&mut self, end: End) {
        self.end = end;
        self.pieces.clear();
        self.release();
    }

    fn release(&mut self) {
        self.budget.held.fetch_sub(std::mem::take(&mut self.size), Ordering::AcqRel);
    }

    fn complete(&mut self) {
        if self.end == End::CutOff {
            self.end = End::Complete;
        }
    }

    pub(super) fn end(&self) -> End {
        self.end
    }

    /// Returns the body as one piece.
    pub(super) fn bytes(&self) -> Bytes {
        if let [piece] = &self.pieces[..] {
            return piece.clone().into_bytes();
        }
        let mut bytes = BytesMut::with_capacity(self.size);
        self.pieces.iter().flat_map(Pieces::iter).for_each(|piece| bytes.extend_from_slice(piece));
        bytes.freeze()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.release();
    }
}

/// Returns the same body and its copy. `at_end` is called once, when that part of the body has been sent, or when the body is
/// dropped.
pub(super) fn tee(body: Body, part: Part, budget: Budget, at_end: impl FnOnce(Capture) + Send + 'static) -> Body {
    if !body.is_complete() {
        let capture = Capture::new(part, budget);
        return Body::new(Tee { body, state: Some((capture, Box::new(at_end))) });
    }
    // A complete body stays one, so that its length is sent and no seat is kept for it.
    let mut body = body;
    let piece = body.frame().now_or_never().flatten().and_then(Result::ok).and_then(|frame| frame.into_data().ok());
    let piece = piece.unwrap_or_default();
    at_end(Capture::whole(&piece, budget));
    Body::pieces(piece)
}

type AtEnd = Box<dyn FnOnce(Capture) + Send>;

struct Tee {
    body: Body,
    /// `None` after the end.
    state: Option<(Capture, AtEnd)>,
}

impl Tee {
    fn end(&mut self, is_complete: bool) {
        if let Some((mut capture, at_end)) = self.state.take() {
            // A client may end a stream without an end at any time.
            if is_complete || capture.part != Part::All {
                capture.complete();
            }
            at_end(capture);
        }
    }
}

impl HttpBody for Tee {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some((capture, _)), Some(piece)) = (&mut self.state, frame.data_ref()) {
                    capture.push(piece);
                }
                let is_enough = self.state.as_ref().is_some_and(|(capture, _)| capture.end != End::CutOff);
                if self.body.is_end_stream() || is_enough {
                    self.end(true);
                }
            }
            Poll::Ready(None) => self.end(true),
            Poll::Ready(Some(Err(_))) => self.end(false),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use binnacle_request::{Body, BoxError};
    use bytes::Bytes;
    use parking_lot::Mutex;

    use super::{Budget, Capture, End, Part, tee};

    fn budget() -> Budget {
        Budget { held: Arc::default(), max_body: 5, max_total: 8 }
    }

    fn stream(pieces: &'static [&'static str]) -> Body {
        let pieces = pieces.iter().map(|piece| Ok::<_, BoxError>(Bytes::from_static(piece.as_bytes())));
        Body::stream(futures::stream::iter(pieces))
    }

    type Copies = Arc<Mutex<Vec<Capture>>>;

    fn pass(body: Body, budget: &Budget, copies: &Copies) -> Body {
        let copies = copies.clone();
        tee(body, Part::All, budget.clone(), move |capture| copies.lock().push(capture))
    }

    #[tokio::test]
    async fn beginnings_are_copied_while_the_body_goes_on() {
        for (body, read, want) in [
            (stream(&["ab", "cd", "ef"]), 100, "abcd"),
            (stream(&["a", "b"]), 100, "ab"),
            // Dropped before its end.
            (stream(&["ab", "cd"]), 1, "ab"),
        ] {
            let copies = Copies::default();
            let all = copies.clone();
            let passed =
                tee(body, Part::Beginning(3), budget(), move |capture| all.lock().push(capture)).read(read).await;
            let mut copies = copies.lock();
            assert_eq!(copies.len(), 1, "{passed:?}: called once");
            let copy = copies.remove(0);
            assert_eq!((copy.end(), copy.bytes()), (End::Complete, want.into()));
        }
    }

    #[tokio::test]
    async fn copies_bodies_up_to_the_limit() {
        for (about, body, want) in [
            ("empty", Body::empty(), Ok("")),
            ("complete", Body::full("abc"), Ok("abc")),
            ("complete and too large", Body::full("abcdef"), Err("abcdef")),
            ("a stream", stream(&["ab", "", "cd"]), Ok("abcd")),
            ("a stream that is too large", stream(&["abc", "def", "g"]), Err("abcdefg")),
        ] {
            let (budget, copies) = (budget(), Copies::default());
            let is_complete = body.is_complete();
            let passed = pass(body, &budget, &copies);
            assert_eq!(passed.is_complete(), is_complete, "{about}");
            let passed = passed.read(100).await.unwrap();
            assert_eq!(passed, want.unwrap_or_else(|all| all), "{about}: the client gets everything");
            let mut copies = copies.lock();
            assert_eq!(copies.len(), 1, "{about}: called once");
            let copy = copies.remove(0);
            match want {
                Ok(want) => assert_eq!((copy.end(), copy.bytes()), (End::Complete, want.into()), "{about}"),
                Err(_) => assert_eq!(copy.end(), End::TooLarge, "{about}"),
            }
            drop(copy);
            assert_eq!(budget.held.load(Ordering::Relaxed), 0, "{about}");
        }
    }

    #[tokio::test]
    async fn ignores_bodies_that_were_cut_off() {
        let broken = futures::stream::iter([Ok(Bytes::from_static(b"a")), Err(BoxError::from("broken"))]);
        for body in [Body::stream(broken), stream(&["a", "b"])] {
            let (budget, copies) = (budget(), Copies::default());
            // The second one is dropped before its end.
            let _ = pass(body, &budget, &copies).read(1).await;
            assert_eq!(copies.lock().iter().map(Capture::end).collect::<Vec<_>>(), [End::CutOff]);
        }
    }

    #[tokio::test]
    async fn limits_the_memory_of_all_copies() {
        let (budget, copies) = (budget(), Copies::default());
        for _ in 0..3 {
            pass(Body::full("abcd"), &budget, &copies);
        }
        let ends = || copies.lock().iter().map(Capture::end).collect::<Vec<_>>();
        assert_eq!(ends(), [End::Complete, End::Complete, End::OverBudget]);
        assert_eq!(budget.held.load(Ordering::Relaxed), 8);
        copies.lock().clear();
        pass(Body::full("abcd"), &budget, &copies);
        assert_eq!(ends(), [End::Complete]);
    }
}
