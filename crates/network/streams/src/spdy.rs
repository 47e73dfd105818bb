//! SPDY/3.1 as kubelets and their clients use it: streams that are opened with headers, carry data and end. There is no
//! flow control, as neither side sends window updates.
//!
//! <https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/>. A reader and a writer are independent halves:
//! each has the state of one direction's header compression.

mod flood;
mod frame;
mod headers;

pub(crate) use flood::FloodLimiter;
pub use frame::{Frame, FrameError, Reader, Reset, Writer};

/// Names and values of a stream's headers, names in lower case.
pub type Headers = Vec<(String, String)>;

/// Returns the value of a header.
pub fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}
