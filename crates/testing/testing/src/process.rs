//! The process of a server, which ends when the value is dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::StartError;

/// The time limit of a start, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of bytes of a log that an error shows.
const SHOWN: usize = 2048;

/// A process that is killed and waited for on drop. A server in memory loses nothing by that. It ends with its standard
/// input, whose other end this process holds.
pub(crate) struct Process(Child);

impl Process {
    /// Starts the command, with its log in a file, and returns it with the URL that it prints when it listens.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<(Self, String), StartError> {
        let program = PathBuf::from(command.get_program());
        let file = File::create(log).map_err(|error| StartError::File { path: log.to_owned(), error })?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let child =
            command.spawn().map_err(|error| StartError::Spawn { program: command.get_program().into(), error })?;
        let mut process = Self(child);
        let (to, from) = mpsc::channel();
        if let Some(out) = process.0.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    // The lines after the URL are not used; they are read so that the pipe never fills.
                    if let Some(at) = line.find("https://") {
                        let _ = to.send(line[at..].trim_end().to_owned());
                    }
                }
            });
        }
        match from.recv_timeout(PATIENCE) {
            Ok(url) => Ok((process, url)),
            Err(_) => {
                drop(process);
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let from = text.len().saturating_sub(SHOWN);
                let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
                Err(StartError::NotReady { program, log: text[from..].trim_end().to_owned() })
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // These fail only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
