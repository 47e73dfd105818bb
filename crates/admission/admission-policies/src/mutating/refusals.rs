//! The failures of policies that deny a request.

use binnacle_meta::{FieldErrors, Status, StatusReason};

/// The failures that a denial reports. Their number is bounded as for validation errors, since there may be one for
/// each mutation and parameter.
#[derive(Default)]
pub(super) struct Refusals {
    list: Vec<Refusal>,
    /// The size of all messages in bytes.
    bytes: usize,
}

struct Refusal {
    message: String,
    /// `None` for configuration errors.
    reason: Option<StatusReason>,
}

impl Refusals {
    pub(super) fn add(&mut self, reason: Option<StatusReason>, message: impl FnOnce() -> String) {
        if self.list.len() < FieldErrors::SHOWN && self.bytes < FieldErrors::SHOWN_BYTES {
            let message = message();
            self.bytes += message.len();
            self.list.push(Refusal { message, reason });
        }
    }

    /// Returns a denial with the first message and all of them as causes, if there are any.
    pub(super) fn refuse(&self, forbidden: impl FnOnce() -> Status) -> Result<(), Status> {
        let Some(first) = self.list.first() else { return Ok(()) };
        let mut status = forbidden().with_message(&first.message);
        if let Some(reason) = first.reason {
            status = status.because(reason, 403);
        }
        Err(self.list.iter().fold(status, |status, refusal| status.with_cause("", &refusal.message, "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(count: usize, length: usize) -> Status {
        let mut refusals = Refusals::default();
        for n in 0..count {
            refusals.add(Some(StatusReason::Invalid), || format!("{n:04}{}", "x".repeat(length)));
        }
        refusals.refuse(|| Status::bad_request("")).expect_err("it is refused")
    }

    #[test]
    fn bounds_number_and_size_of_reported_refusals() {
        let causes = |status: &Status| status.details().map_or(0, |details| details.causes.len());
        let few = refused(3, 0);
        assert_eq!((few.message(), causes(&few)), ("0000", 3));
        assert_eq!(causes(&refused(10_000, 0)), FieldErrors::SHOWN);
        assert_eq!(causes(&refused(10_000, 100_000)), 3);
        assert!(Refusals::default().refuse(|| Status::bad_request("")).is_ok());
    }
}
