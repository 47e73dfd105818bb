//! Errors of the operating system in the words of Go, which operators know from the reference.

use std::io;

/// What Go says of an error, without the file that it is about: `no such file or directory`.
pub fn go_io_error(error: &io::Error) -> String {
    // The library puts the system's number behind the system's text, which Go begins in lower case.
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if error.raw_os_error().is_some() => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

/// What Go says of a file that cannot be read: `open /a: no such file or directory`.
pub fn go_open_error(path: &str, error: &io::Error) -> String {
    // A directory can be opened.
    let verb = if error.kind() == io::ErrorKind::IsADirectory { "read" } else { "open" };
    format!("{verb} {path}: {}", go_io_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system() {
        for (error, want) in [
            (io::Error::from_raw_os_error(2), "no such file or directory"),
            (io::Error::from_raw_os_error(13), "permission denied"),
            (io::Error::from_raw_os_error(21), "is a directory"),
            (io::Error::other("Something else"), "Something else"),
        ] {
            assert_eq!(go_io_error(&error), want);
        }
        let open = |code| go_open_error("/a", &io::Error::from_raw_os_error(code));
        assert_eq!(
            (open(2).as_str(), open(21).as_str()),
            ("open /a: no such file or directory", "read /a: is a directory")
        );
    }
}
