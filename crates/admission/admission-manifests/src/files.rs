//! Reads the files of a directory and splits them into documents.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use binnacle_meta::{go_quote, read_error};
use sha2::{Digest, Sha256};

/// The maximum size of all files of a directory together.
const MAX_BYTES: u64 = 64 << 20;

/// The contents of the files of a directory.
pub(crate) struct DirectoryContents {
    /// In the order of file names.
    pub(crate) documents: Vec<Document>,
    /// Empty if no file has content.
    pub(crate) hash: String,
}

/// A document of a file.
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) text: Vec<u8>,
}

/// The names, modification times and lengths of the files of a directory.
pub(crate) type DirectoryListing = Vec<(String, Option<SystemTime>, u64)>;

/// Reads the YAML and JSON files, by their extensions. Subdirectories are skipped.
pub(crate) fn read(directory: &Path) -> Result<DirectoryContents, String> {
    let shown = directory.display().to_string();
    let unread = |error: io::Error| {
        format!("failed to read manifest directory {}: {}", go_quote(&shown), read_error(&shown, &error))
    };
    let mut documents = Vec::new();
    let mut hash = Sha256::new();
    let (mut has_content, mut remaining) = (false, MAX_BYTES);
    for name in names(directory).map_err(unread)? {
        let path = directory.join(&name);
        let shown = path.display().to_string();
        let unread = |why: String| format!("failed to read file {}: {why}", go_quote(&shown));
        let found = std::fs::metadata(&path).map_err(|error| unread(read_error(&shown, &error)))?;
        remaining = remaining
            .checked_sub(found.len())
            .ok_or_else(|| unread(format!("manifests hold more than {MAX_BYTES} bytes")))?;
        let data = std::fs::read(&path).map_err(|error| unread(read_error(&shown, &error)))?;
        if data.is_empty() {
            continue;
        }
        hash.update(&data);
        hash.update([0]);
        has_content = true;
        let split = split(&data);
        let split =
            split.map_err(|why| format!("failed to split YAML documents in file {}: {why}", go_quote(&shown)))?;
        documents.extend(split.into_iter().map(|text| Document { path: shown.clone(), text }));
    }
    let hash = match has_content {
        true => hash.finalize().iter().fold("sha256:".to_owned(), |shown, byte| format!("{shown}{byte:02x}")),
        false => String::new(),
    };
    Ok(DirectoryContents { documents, hash })
}

/// Lists a directory. The listing changes when a file is added, removed or changed.
pub(crate) fn list_directory(directory: &Path) -> io::Result<DirectoryListing> {
    let entry = |name: String| {
        let found = std::fs::metadata(directory.join(&name)).ok();
        let (time, length) = found.map_or((None, 0), |found| (found.modified().ok(), found.len()));
        (name, time, length)
    };
    Ok(names(directory)?.into_iter().map(entry).collect())
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_manifest = name
            .rsplit_once('.')
            .is_some_and(|(_, end)| ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known)));
        // As in kube-apiserver, a symbolic link to a directory counts as an unreadable file.
        if is_manifest && !entry.file_type()?.is_dir() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Splits a text into documents at lines that start with `---`.
fn split(data: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut documents = Vec::new();
    let mut document = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = rest.trim_ascii();
            if !rest.is_empty() && !rest.starts_with(b"#") {
                let rest = String::from_utf8_lossy(rest);
                return Err(format!("invalid Yaml document separator: {rest}"));
            }
            if !document.is_empty() {
                documents.push(std::mem::take(&mut document));
                continue;
            }
        }
        document.extend_from_slice(line);
    }
    documents.push(document);
    let trimmed = documents.iter().map(|document| document.trim_ascii()).filter(|document| !document.is_empty());
    Ok(trimmed.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_documents_at_separators() {
        for (text, want) in [
            ("", &[][..]),
            ("  \n\n \n", &[]),
            ("a: 1", &["a: 1"]),
            // A separator on the first line is part of the following document.
            ("---\na: 1\n", &["---\na: 1"]),
            ("a: 1\n---\nb: 2\n---\n", &["a: 1", "b: 2"]),
            ("a: 1\n--- # next\n\n---\nb: 2\n", &["a: 1", "b: 2"]),
            ("{\"a\": 1}", &["{\"a\": 1}"]),
        ] {
            let found = split(text.as_bytes()).unwrap();
            let found: Vec<&str> = found.iter().map(|text| std::str::from_utf8(text).unwrap()).collect();
            assert_eq!(found, want, "{text:?}");
        }
        assert_eq!(split(b"a: 1\n--- b\n").unwrap_err(), "invalid Yaml document separator: b");
    }

    #[test]
    fn reads_only_manifest_files_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let read = |path: &Path| super::read(path).map(|read| (read.documents.len(), read.hash));
        assert_eq!(read(directory.path()).unwrap(), (0, String::new()));
        for (name, text) in [("b.YML", "b: 1"), ("a.json", "{}"), ("c.txt", "no"), ("d.yaml", ""), ("yaml", "no")] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        std::fs::create_dir(directory.path().join("e.yaml")).unwrap();
        let found = super::read(directory.path()).unwrap();
        let texts: Vec<&[u8]> = found.documents.iter().map(|document| &*document.text).collect();
        assert_eq!(texts, [&b"{}"[..], b"b: 1"]);
        assert!(found.documents[1].path.ends_with("/b.YML"));
        // The hash of "{}\0b: 1\0".
        assert_eq!(found.hash, "sha256:1d47cdf9cdea3375983954a43f9a58321dd99a00d33bac87e1f9112bea5c5380");
        let missing = directory.path().join("missing");
        let why = read(&missing).unwrap_err();
        let shown = missing.display();
        assert_eq!(
            why,
            format!("failed to read manifest directory \"{shown}\": open {shown}: no such file or directory")
        );
    }
}
