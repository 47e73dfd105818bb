//! Compression of `/openapi/v2`, if the client accepts it. kube-apiserver compresses this document by other rules than
//! objects: quality values are considered, and there is no minimum size.

/// Returns true if an Accept-Encoding header names gzip with a quality above 0.
pub(crate) fn accepts_gzip(header: &str) -> bool {
    // The last occurrence of the coding counts, as in kube-apiserver's map; occurrences with invalid quality values are
    // ignored.
    let quality = |mention: &str| {
        let mut parts = mention.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        if !coding.eq_ignore_ascii_case("gzip") {
            return None;
        }
        parts.try_fold(1.0, |_, part| part.strip_prefix("q=").map_or(Some(1.0), |number| number.parse::<f64>().ok()))
    };
    header.split(',').filter_map(quality).next_back().is_some_and(|quality| quality > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_gzip_with_positive_quality() {
        for (header, want) in [
            ("", false),
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("gzip; q=0", false),
            ("gzip;q=0.0,deflate", false),
            ("gzip;q=x", false),
            ("*", false),
            ("x-gzip", false),
            ("identity", false),
        ] {
            assert_eq!(accepts_gzip(header), want, "{header}");
        }
    }
}
