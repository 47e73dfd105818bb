//! A folder for one server, which is removed on drop.

use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::StartError;

/// A folder that only its owner can enter.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, StartError> {
        let path = std::env::temp_dir().join(format!("binnacle-testing-{}", random()?));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| StartError::File { path: path.clone(), error })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, StartError> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| StartError::File { path: path.clone(), error })?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed are left to the cleanup of the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns 128 unpredictable bits in hexadecimal digits.
pub(crate) fn random() -> Result<String, StartError> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 16];
    fs::File::open(SOURCE)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| StartError::File { path: SOURCE.into(), error })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
