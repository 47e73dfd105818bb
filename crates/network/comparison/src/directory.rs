//! A directory with differences as recorded cases, bounded in files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::cause::Cause;
use crate::difference::Difference;
use crate::file::File;
use crate::mask::{self, MASK};
use crate::subject::Subject;
use crate::verdict::Mismatch;

/// The maximum number of files for one cause.
const MAX_PER_CAUSE: usize = 3;
/// The maximum number of files in the directory.
const MAX_FILES: usize = 1000;
/// The maximum number of differences in the description of a case.
const DESCRIBED: usize = 5;

/// A directory to which differences are written. Files of earlier runs count towards the limits.
#[derive(Debug)]
pub struct CaseDirectory {
    path: PathBuf,
    files: AtomicUsize,
}

impl CaseDirectory {
    /// Opens a directory, or creates one that only its owner can read.
    ///
    /// # Errors
    /// If it can neither be created nor read.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let entries = fs::read_dir(path)?.filter_map(Result::ok);
        let files =
            entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json")).count();
        Ok(Self { path: path.to_owned(), files: AtomicUsize::new(files) })
    }

    /// Writes a difference as a case: the request, and the response of the other server as its expectation. Returns
    /// `None` if the cause has its files, or if the directory is full.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, cause: &Cause, subject: &Subject, mismatch: &Mismatch) -> io::Result<Option<PathBuf>> {
        let slug = cause.slug();
        for number in 1..=MAX_PER_CAUSE {
            if self.files.load(Ordering::Relaxed) >= MAX_FILES {
                return Ok(None);
            }
            let path = self.path.join(format!("{slug}-{number}.json"));
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let mut file = match file {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            self.files.fetch_add(1, Ordering::Relaxed);
            let text = case_text(&format!("{slug}-{number}"), cause, subject, mismatch).map_err(io::Error::other)?;
            file.write_all(text.as_bytes())?;
            return Ok(Some(path));
        }
        Ok(None)
    }
}

/// Returns the text of a file with one case.
fn case_text(name: &str, cause: &Cause, subject: &Subject, mismatch: &Mismatch) -> Result<String, String> {
    let found = mismatch.differences.iter().take(DESCRIBED).map(Difference::text);
    let about = format!("{}. {}", cause.text, found.collect::<Vec<_>>().join("; "));
    let mut step = request(subject);
    step.insert("expect".to_owned(), mismatch.expected.clone());
    let case = json!({"name": name, "about": about, "namespace": false, "steps": [step]});
    Ok(File::parse(&json!({"area": "compare", "cases": [case]}).to_string())?.text())
}

/// Returns a request as a step, without credentials.
fn request(subject: &Subject) -> Map<String, Value> {
    let outgoing = &subject.outgoing;
    let mut step = Map::new();
    // The query stays in the path, as it was sent.
    step.insert("do".to_owned(), Value::from(outgoing.method.as_str()));
    step.insert("path".to_owned(), Value::from(mask::text(&outgoing.target)));
    let mut headers = outgoing.headers.clone();
    for (name, value) in &mut headers {
        if mask::is_secret_header(name) {
            *value = Value::from(MASK);
        }
    }
    if !headers.is_empty() {
        step.insert("headers".to_owned(), Value::Object(headers));
    }
    let Some(data) = &outgoing.data else { return step };
    let is_secret = subject.resource.split('/').next() == Some("secrets");
    let (name, value) = match serde_json::from_slice::<Value>(data) {
        Ok(mut body) => {
            mask::value(&mut body);
            if is_secret {
                mask::secret_body(&mut body);
            }
            ("body", body)
        }
        Err(_) if is_secret => ("raw", Value::from(MASK)),
        Err(_) => match std::str::from_utf8(data) {
            Ok(text) => ("raw", Value::from(mask::text(text))),
            Err(_) => ("base64", Value::from(BASE64_STANDARD.encode(data))),
        },
    };
    step.insert(name.to_owned(), value);
    step
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};

    use super::{CaseDirectory, MAX_PER_CAUSE};
    use crate::cause::Cause;
    use crate::difference::Difference;
    use crate::endpoint::Outgoing;
    use crate::subject::Subject;
    use crate::verdict::Mismatch;

    fn mismatch() -> Mismatch {
        let found = Difference { path: "/status".to_owned(), expected: Some(json!(200)), got: Some(json!(404)) };
        Mismatch { expected: json!({"status": 200}), got: json!({"status": 404}), differences: vec![found] }
    }

    #[test]
    fn writes_few_files_for_a_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let subject = Subject::parse(Outgoing::empty("GET", "/api/v1/pods?limit=5")).unwrap();
        let mismatch = mismatch();
        let cause = Cause::of(&subject, &mismatch.differences);
        let directory = CaseDirectory::open(&path).unwrap();
        let written: Vec<_> = (0..5).filter_map(|_| directory.write(&cause, &subject, &mismatch).unwrap()).collect();
        assert_eq!(written.len(), MAX_PER_CAUSE);
        // Also after a restart.
        let directory = CaseDirectory::open(&path).unwrap();
        assert!(directory.write(&cause, &subject, &mismatch).unwrap().is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::metadata(&written[0]).unwrap().permissions().mode() & 0o777, 0o600);

        let areas = crate::case::read(&path).unwrap();
        assert_eq!(areas.len(), MAX_PER_CAUSE);
        let step = &areas[0].cases[0].steps[0];
        assert_eq!((step.method.as_deref(), step.path.as_str()), (Some("GET"), "/api/v1/pods?limit=5"));
        assert_eq!(step.expect, Some(json!({"status": 200})));
    }

    #[test]
    fn files_contain_no_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let directory = CaseDirectory::open(folder.path()).unwrap();
        let secrets = "/api/v1/namespaces/n/secrets?dryRun=All";
        let bodies: [&[u8]; 3] = [br#"{"data": {"a": "c2VjcmV0"}}"#, b"data: {a: c2VjcmV0}", b"k8s\0\xffc2VjcmV0"];
        for (number, body) in bodies.into_iter().enumerate() {
            let mut outgoing = Outgoing { data: Some(body.to_vec()), ..Outgoing::empty("POST", secrets) };
            outgoing.headers.insert("Authorization".to_owned(), Value::from("Bearer c2VjcmV0"));
            let subject = Subject::parse(outgoing).unwrap();
            let cause = Cause { text: format!("cause {number}") };
            let path = directory.write(&cause, &subject, &mismatch()).unwrap().unwrap();
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains("<masked>") && !text.contains("c2VjcmV0"), "{text}");
        }
    }
}
