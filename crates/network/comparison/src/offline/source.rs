//! The kinds of sources, distinguished by their contents.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A source of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Lines of `audit.k8s.io/v1` events.
    AuditLog(PathBuf),
    Har(PathBuf),
    /// A directory of recorded cases, or one file of them.
    Cases(PathBuf),
    /// Reads of everything in the discovery of the first server.
    Discovery,
}

impl Source {
    /// Determines the kind of a file or directory.
    ///
    /// # Errors
    /// If it cannot be read, or is none of them.
    pub fn of(path: &Path) -> Result<Self, String> {
        let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        if path.is_dir() {
            return Ok(Self::Cases(path.to_owned()));
        }
        let mut lines = BufReader::new(File::open(path).map_err(|failed| error(&failed))?).lines();
        let mut head = String::new();
        // The first member of a HAR file and of a file of cases is in one of the first lines.
        for line in lines.by_ref().take(20) {
            head += &line.map_err(|failed| error(&failed))?;
            head.push('\n');
        }
        let first = head.trim_start();
        let compact: String = first.chars().filter(|letter| !letter.is_whitespace()).take(2000).collect();
        if first.lines().next().is_some_and(|line| line.contains("audit.k8s.io/")) {
            Ok(Self::AuditLog(path.to_owned()))
        } else if compact.starts_with("{\"log\":") {
            Ok(Self::Har(path.to_owned()))
        } else if compact.starts_with("{\"area\":") {
            Ok(Self::Cases(path.to_owned()))
        } else {
            Err(error(&"neither an audit log (audit.k8s.io/v1, one event in a line), a HAR file, nor recorded cases"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn recognizes_sources_by_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Source::of(folder.path()), Ok(Source::Cases(folder.path().to_owned())));
        let path = folder.path().join("file");
        for (text, want) in [
            (
                r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}"#,
                Some(Source::AuditLog(path.clone())),
            ),
            ("{\n  \"log\": {\n    \"version\": \"1.2\"", Some(Source::Har(path.clone()))),
            ("{\"area\": \"a\",\n\"cases\": []}", Some(Source::Cases(path.clone()))),
            ("something else", None),
            ("", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Source::of(&path).ok(), want, "{text}");
        }
        assert!(Source::of(&folder.path().join("missing")).is_err());
    }
}
