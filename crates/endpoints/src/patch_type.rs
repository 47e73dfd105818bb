//! The media types of patches.

/// The type of a PATCH body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply(ApplyFormat),
}

/// The encoding of an apply configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyFormat {
    Yaml,
    Cbor,
}

impl PatchType {
    /// Returns the type of a Content-Type, without its parameters; `None` if it is no patch.
    pub(crate) fn of(content_type: Option<&str>) -> Option<Self> {
        let bare = content_type.unwrap_or("").split(';').next().unwrap_or("").trim();
        Some(match bare.to_ascii_lowercase().as_str() {
            "application/json-patch+json" => Self::Json,
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/apply-patch+yaml" => Self::Apply(ApplyFormat::Yaml),
            APPLY_CBOR => Self::Apply(ApplyFormat::Cbor),
            _ => return None,
        })
    }

    pub(crate) fn is_apply(self) -> bool {
        matches!(self, Self::Apply(_))
    }
}

pub(crate) const APPLY_CBOR: &str = "application/apply-patch+cbor";
