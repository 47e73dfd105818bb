//! Operating system errors with Go's messages, which are part of API messages.

use std::io::{Error, ErrorKind};

/// Formats the error of reading a file: `open PATH: no such file or directory`.
pub fn read_error(path: &str, error: &Error) -> String {
    // Go opens directories, and fails when it reads them.
    let step = if error.kind() == ErrorKind::IsADirectory { "read" } else { "open" };
    format!("{step} {path}: {}", io_error(error))
}

/// Formats the error without the number of the OS error.
pub fn io_error(error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "is a directory".to_owned(),
        ErrorKind::NotADirectory => "not a directory".to_owned(),
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_io_errors_like_go() {
        for (path, want) in [
            ("/", "read /: is a directory"),
            ("/none/such", "open /none/such: no such file or directory"),
            ("/proc/self/status/x", "open /proc/self/status/x: not a directory"),
        ] {
            let error = std::fs::read(path).expect_err("nothing can be read there");
            assert_eq!(read_error(path, &error), want);
        }
    }
}
