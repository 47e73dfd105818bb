//! Errors of frames.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("invalid SPDY frame: {0}")]
    Invalid(&'static str),
    #[error("invalid SPDY headers: {0}")]
    Headers(&'static str),
}
