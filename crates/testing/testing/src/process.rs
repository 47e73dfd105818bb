//! The process of a server, which ends when the value is dropped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::StartError;
use crate::files::Log;

/// The time limit of a start, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit of a graceful stop, which takes milliseconds unless a request or a flag delays it.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// The number of bytes of a log that an error shows.
const SHOWN: usize = 2048;

/// A process that is stopped and waited for on drop. It stops when its standard input ends, whose other end this process
/// holds.
pub(crate) struct Process {
    child: Child,
    /// The lines that it prints, up to its end. Only one thread at a time can receive.
    lines: Mutex<Receiver<String>>,
    pub(crate) log: Log,
}

/// The text that a server prints when it is ready, as far as it is read.
pub(crate) struct Greeting {
    pub(crate) url: String,
    /// The directory of its files.
    pub(crate) directory: PathBuf,
}

impl Process {
    /// Starts the command, and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> Result<(Self, Greeting), StartError> {
        let program = PathBuf::from(command.get_program());
        let failed = |error| StartError::Spawn { program: program.clone(), error };
        let log = Log::new()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.writer().map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        let (to, lines) = channel();
        if let Some(out) = child.stdout.take() {
            // The lines after the greeting are not used; they are read so that the pipe never fills.
            thread::spawn(move || {
                BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(to.send(line)));
            });
        }
        let mut process = Self { child, lines: Mutex::new(lines), log };
        match process.greeting() {
            Some(greeting) => Ok((process, greeting)),
            None => {
                let text = process.log.text();
                let from = text.len().saturating_sub(SHOWN);
                let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
                Err(StartError::NotReady { program, log: text[from..].trim_end().to_owned() })
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns `None` if the process ends, or is not ready in time.
    fn greeting(&mut self) -> Option<Greeting> {
        let (deadline, mut url) = (Instant::now() + TIMEOUT, None);
        let lines = self.lines();
        loop {
            let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
            if let Some(command) = line.strip_prefix("Try: ") {
                let directory = Path::new(&file_in(command)?).parent()?.to_owned();
                return url.map(|url| Greeting { url, directory });
            }
            if let Some(at) = line.find("https://") {
                url = Some(line[at..].trim_end().to_owned());
            }
        }
    }

    fn lines(&mut self) -> &Receiver<String> {
        self.lines.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + STOP_PATIENCE;
        // Its output ends with the process.
        while self.lines().recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        // This fails only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the file that the command line of kubectl names: the kubeconfig, or what replaces it with `--client-ca-file`.
fn file_in(command: &str) -> Option<String> {
    let flags = ["--kubeconfig ", "--certificate-authority "];
    let text = flags.iter().find_map(|flag| Some(command.split_once(flag)?.1))?;
    let Some(mut quoted) = text.strip_prefix('\'') else {
        return text.split(' ').next().map(str::to_owned);
    };
    let mut file = String::new();
    loop {
        let (part, rest) = quoted.split_once('\'')?;
        file.push_str(part);
        match rest.strip_prefix("\\''") {
            Some(rest) => quoted = rest,
            None => return Some(file),
        }
        file.push('\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_file_of_kubectl() {
        for (command, want) in [
            ("kubectl --kubeconfig /tmp/a/admin.kubeconfig get namespaces", Some("/tmp/a/admin.kubeconfig")),
            ("kubectl --server https://x --certificate-authority /tmp/ca.crt get namespaces", Some("/tmp/ca.crt")),
            ("kubectl --kubeconfig '/a b/it'\\''s' get namespaces", Some("/a b/it's")),
            ("kubectl --kubeconfig '/a b", None),
            ("kubectl get namespaces", None),
        ] {
            assert_eq!(file_in(command).as_deref(), want, "{command}");
        }
    }
}
