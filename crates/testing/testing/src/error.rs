//! The error of a server that did not start.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Neither the environment nor `PATH` names a program.
    NoProgram,
    /// The program cannot be run.
    Spawn {
        /// The program.
        program: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The program ended, or did not become ready in time.
    NotReady {
        /// The program.
        program: PathBuf,
        /// The end of its log.
        log: String,
    },
    /// A file of the server could not be written or read.
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => {
                write!(to, "there is no kube-apiserver in PATH; {} can name one", crate::PROGRAM_VARIABLE)
            }
            Self::Spawn { program, error } => write!(to, "cannot run {}: {error}", program.display()),
            Self::NotReady { program, log } => write!(to, "{} did not start: {log}", program.display()),
            Self::File { path, error } => write!(to, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn { error, .. } | Self::File { error, .. } => Some(error),
            Self::NoProgram | Self::NotReady { .. } => None,
        }
    }
}
