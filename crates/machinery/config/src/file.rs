//! Reading of files up to a maximum size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The maximum size of a file in bytes. A file with a thousand certificates has two megabytes.
pub const MAX_FILE: u64 = 16 << 20;

/// Reads a configuration file, at most [`MAX_FILE`] bytes of it.
///
/// # Errors
/// Those of the file, and `FileTooLarge`.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut data)?;
    if data.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("the file is longer than {MAX_FILE} bytes")));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_files_without_end() {
        assert_eq!(read(Path::new("/dev/zero")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "one").unwrap();
        assert_eq!(read(&path).unwrap(), b"one");
        File::options().write(true).open(&path).unwrap().set_len(MAX_FILE).unwrap();
        assert_eq!(read(&path).unwrap().len() as u64, MAX_FILE);
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
