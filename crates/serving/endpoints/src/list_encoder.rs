//! The trait of encoders of lists.

use binnacle_meta::Status;
use binnacle_request::Pieces;

/// Encodes the pieces of a list.
pub(crate) trait ListEncoder: Send {
    /// Returns the next piece; `None` at the end.
    fn next_piece(&mut self) -> Option<Result<Pieces, Status>>;

    /// Returns true after the last piece.
    fn is_done(&self) -> bool;
}
