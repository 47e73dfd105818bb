//! The reasons of failures, as defined by the API.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusReason {
    /// The empty reason (`Unknown` in Go is the empty string).
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl StatusReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::ServerTimeout => "ServerTimeout",
            Self::StoreReadError => "StorageReadError",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// Returns the reason with this name, or [`StatusReason::Unknown`] for any other text.
    pub(super) fn named(name: &str) -> Self {
        const ALL: [StatusReason; 19] = [
            StatusReason::Unauthorized,
            StatusReason::Forbidden,
            StatusReason::NotFound,
            StatusReason::AlreadyExists,
            StatusReason::Conflict,
            StatusReason::Gone,
            StatusReason::Invalid,
            StatusReason::ServerTimeout,
            StatusReason::StoreReadError,
            StatusReason::Timeout,
            StatusReason::TooManyRequests,
            StatusReason::BadRequest,
            StatusReason::MethodNotAllowed,
            StatusReason::NotAcceptable,
            StatusReason::RequestEntityTooLarge,
            StatusReason::UnsupportedMediaType,
            StatusReason::InternalError,
            StatusReason::Expired,
            StatusReason::ServiceUnavailable,
        ];
        ALL.into_iter().find(|reason| reason.as_str() == name).unwrap_or(Self::Unknown)
    }
}
