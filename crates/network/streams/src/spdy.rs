//! SPDY/3.1 as used by kubelets and their clients: streams are opened with headers, carry data, and end. There is no
//! flow control, because neither side sends window updates.
//!
//! See <https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/>. Reader and writer are independent halves:
//! each holds the header compression state of one direction.

mod error;
mod flood;
mod frame;
mod headers;

pub use error::FrameError;
pub(crate) use flood::FloodLimiter;
pub use frame::{Frame, Reader, Reset, Writer};

/// The names and values of a stream's headers. Names are in lower case.
pub type Headers = Vec<(String, String)>;

/// Returns the value of a header.
pub fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}
