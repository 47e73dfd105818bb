//! The media types of patches.

use binnacle_meta::Status;

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

/// All types, with their media types, in the order of error messages.
const TYPES: [(PatchType, &str); 5] = [
    (PatchType::Json, "application/json-patch+json"),
    (PatchType::Merge, "application/merge-patch+json"),
    (PatchType::Strategic, "application/strategic-merge-patch+json"),
    (PatchType::Apply(ApplyFormat::Yaml), "application/apply-patch+yaml"),
    (PatchType::Apply(ApplyFormat::Cbor), "application/apply-patch+cbor"),
];

impl PatchType {
    /// Returns the patch type of a Content-Type for a resource. As in kube-apiserver, media types are case-sensitive.
    ///
    /// # Errors
    ///
    /// Returns 415, which has two forms: the router of built-in resources has its own, and ignores spaces.
    pub(crate) fn of(content_type: &str, is_custom: bool, with_cbor: bool) -> Result<Self, Status> {
        // Lists of custom resources have no strategic merge strategy.
        let is_offered = |kind: PatchType| match kind {
            Self::Strategic => !is_custom,
            Self::Apply(ApplyFormat::Cbor) => with_cbor,
            _ => true,
        };
        let offered = || TYPES.into_iter().filter(|(kind, _)| is_offered(*kind));
        let routed = |part: &str| {
            let bare = part.split(';').next().unwrap_or_default().trim_matches(' ');
            offered().any(|(_, name)| name == bare)
        };
        if !is_custom && !content_type.split(',').any(routed) {
            return Err(Status::router_unsupported_media_type());
        }
        let bare = match content_type.find(';') {
            None | Some(0) => content_type,
            Some(end) => &content_type[..end],
        };
        let named = offered().find(|(_, name)| *name == bare).map(|(kind, _)| kind);
        named.ok_or_else(|| Status::unsupported_media_type(&offered().map(|(_, name)| name).collect::<Vec<_>>()))
    }

    pub(crate) fn is_apply(self) -> bool {
        matches!(self, Self::Apply(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_media_types_case_sensitively() {
        let (router, handler) = ("415: Unsupported Media Type", "the body of the request was in an unknown format");
        for (content_type, of_built_in, of_custom) in [
            ("application/merge-patch+json", Ok(PatchType::Merge), Ok(PatchType::Merge)),
            ("application/merge-patch+json;a=b", Ok(PatchType::Merge), Ok(PatchType::Merge)),
            ("application/merge-patch+json; charset=utf-8", Ok(PatchType::Merge), Ok(PatchType::Merge)),
            ("application/merge-patch+json;", Ok(PatchType::Merge), Ok(PatchType::Merge)),
            ("application/merge-patch+json ;a=b", Err(handler), Err(handler)),
            ("text/plain, application/merge-patch+json", Err(handler), Err(handler)),
            ("Application/Merge-Patch+JSON", Err(router), Err(handler)),
            ("application/merge-patch+JSON", Err(router), Err(handler)),
            ("application/strategic-merge-patch+json", Ok(PatchType::Strategic), Err(handler)),
            ("application/apply-patch+cbor", Err(router), Err(handler)),
            ("application/json", Err(router), Err(handler)),
            (";application/merge-patch+json", Err(router), Err(handler)),
            ("", Err(router), Err(handler)),
        ] {
            for (is_custom, want) in [(false, of_built_in), (true, of_custom)] {
                let got = PatchType::of(content_type, is_custom, false);
                let matches = match (&got, want) {
                    (Ok(got), Ok(want)) => *got == want,
                    (Err(got), Err(want)) => got.code() == 415 && got.message().contains(want),
                    _ => false,
                };
                assert!(matches, "{content_type} {is_custom}: {got:?}");
            }
        }
        let cbor = PatchType::of("application/apply-patch+cbor", true, true);
        assert_eq!(cbor.ok(), Some(PatchType::Apply(ApplyFormat::Cbor)));
        let message = PatchType::of("text/plain", true, true).unwrap_err().message().to_owned();
        assert!(message.ends_with(
            "accepted media types include: application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml, application/apply-patch+cbor"
        ));
    }
}
