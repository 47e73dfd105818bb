//! Failures from another server's responses without a Status, created from the code as in client-go.

use super::{Status, StatusDetails, StatusReason};
use crate::{GroupResource, go_quote};

impl Status {
    /// Creates the Status of a failed request to another server. The code determines the reason; the message includes
    /// the server's text if that is informative. `verb` and `resource` are the request's, if it was for a resource.
    pub fn of_server(code: u16, verb: &str, resource: &GroupResource, name: &str, text: &str) -> Self {
        let (reason, message) = match code {
            409 if verb == "POST" => (StatusReason::AlreadyExists, "the server reported a conflict".to_owned()),
            409 => (StatusReason::Conflict, "the server reported a conflict".to_owned()),
            404 => (StatusReason::NotFound, "the server could not find the requested resource".to_owned()),
            400 => (StatusReason::BadRequest, "the server rejected our request for an unknown reason".to_owned()),
            401 => (
                StatusReason::Unauthorized,
                "the server has asked for the client to provide credentials".to_owned(),
            ),
            403 => (StatusReason::Forbidden, text.to_owned()),
            406 if text.is_empty() || text == "unknown" => (
                StatusReason::NotAcceptable,
                "the server was unable to respond with a content type that the client supports".to_owned(),
            ),
            406 => (StatusReason::NotAcceptable, text.to_owned()),
            415 => (StatusReason::UnsupportedMediaType, text.to_owned()),
            405 => (
                StatusReason::MethodNotAllowed,
                "the server does not allow this method on the requested resource".to_owned(),
            ),
            422 => (
                StatusReason::Invalid,
                "the server rejected our request due to an error in our request".to_owned(),
            ),
            503 => (
                StatusReason::ServiceUnavailable,
                "the server is currently unable to handle the request".to_owned(),
            ),
            504 => (
                StatusReason::Timeout,
                "the server was unable to return a response in the time allotted, but may still be processing the request"
                    .to_owned(),
            ),
            429 => (
                StatusReason::TooManyRequests,
                "the server has received too many requests and has asked us to try again later".to_owned(),
            ),
            500.. => {
                let text = go_quote(text);
                let message = format!("an error on the server ({text}) has prevented the request from succeeding");
                (StatusReason::InternalError, message)
            }
            _ => {
                let message =
                    format!("the server responded with the status code {code} but did not return more information");
                (StatusReason::Unknown, message)
            }
        };
        let verb = verb.to_lowercase();
        let message = match (resource.resource.as_str(), name) {
            ("", _) => message,
            (_, "") => format!("{message} ({verb} {resource})"),
            _ => format!("{message} ({verb} {resource} {name})"),
        };
        // A failure does not have a successful code.
        let code = if code < 400 { 500 } else { code };
        Self::plain(reason, code, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..StatusDetails::default()
        })
    }
}
