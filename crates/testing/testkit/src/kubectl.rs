//! kubectl as users run it, if installed.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::{Server, TIMEOUT};

/// Runs kubectl with one server. `KUBECTL` overrides the program on the PATH.
#[derive(Clone)]
pub struct Kubectl {
    program: OsString,
    kubeconfig: PathBuf,
    home: PathBuf,
    environment: Vec<(String, String)>,
}

/// The outcome of a finished command.
#[derive(Debug)]
pub struct Outcome {
    pub command: String,
    pub success: bool,
    pub out: String,
    pub err: String,
}

impl Kubectl {
    /// Returns kubectl for a server. Tests without kubectl are ignored.
    #[must_use]
    pub fn new(server: &Server) -> Self {
        let program = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
        // Its discovery cache is in the test's own home.
        let home = server.temp().path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        Self { program, kubeconfig: server.kubeconfig(), home, environment: Vec::new() }
    }

    /// Returns the same kubectl with another kubeconfig, and a discovery cache of its own.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: PathBuf) -> Self {
        let home = kubeconfig.with_extension("home");
        std::fs::create_dir_all(&home).unwrap();
        Self { kubeconfig, home, ..self.clone() }
    }

    /// Returns the same kubectl with these environment variables.
    #[must_use]
    pub fn with_env(&self, variables: &[(&str, &str)]) -> Self {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { environment, ..self.clone() }
    }

    /// Returns the command, not yet started.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).env("HOME", &self.home);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env_remove("KUBECONFIG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        finish(self.command(arguments), "")
    }

    /// Runs it to its end, with `input` on standard input.
    #[must_use]
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Outcome {
        finish(self.command(arguments), input)
    }

    /// Runs it, asserts its success, and returns its output.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).expect_success()
    }

    /// As `ok`, with `input` on standard input.
    #[track_caller]
    pub fn ok_with(&self, arguments: &[&str], input: &str) -> String {
        self.run_with(arguments, input).expect_success()
    }

    /// Returns an object or a list as JSON.
    #[track_caller]
    #[must_use]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let mut all = arguments.to_vec();
        all.push("--output=json");
        serde_json::from_str(&self.ok(&all)).unwrap()
    }

    /// Runs it, asserts its failure, and returns its errors.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert!(!outcome.success, "{outcome}");
        outcome.err
    }

    /// Runs `kubectl edit` with a sed script as the editor.
    #[track_caller]
    pub fn edit(&self, arguments: &[&str], script: &str) -> String {
        let mut command = self.command(&["edit"]);
        command.args(arguments).env("KUBE_EDITOR", format!("sed -i -e '{script}'"));
        finish(command, "").expect_success()
    }

    /// Starts a command that keeps running, and follows its output.
    #[must_use]
    pub fn spawn(&self, arguments: &[&str]) -> RunningCommand {
        let mut command = self.command(arguments);
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        for stream in
            [Box::new(child.stdout.take().unwrap()) as Box<dyn Read + Send>, Box::new(child.stderr.take().unwrap())]
        {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        RunningCommand { child, lines, seen: Vec::new(), command: format!("{command:?}") }
    }
}

impl Outcome {
    #[track_caller]
    fn expect_success(self) -> String {
        assert!(self.success, "{self}");
        self.out
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n--- out\n{}--- err\n{}", self.command, self.out, self.err)
    }
}

/// A running command. Dropping it kills the command.
pub struct RunningCommand {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    command: String,
}

impl RunningCommand {
    /// Waits a limited time for the next line that contains `part`.
    #[track_caller]
    pub fn until(&mut self, part: &str) -> String {
        self.within(part, TIMEOUT).unwrap_or_else(|| panic!("{}: no {part:?} in {:#?}", self.command, self.seen))
    }

    /// Returns the next line that contains `part`, if it comes within `timeout`.
    #[track_caller]
    pub fn within(&mut self, part: &str, timeout: Duration) -> Option<String> {
        let began = Instant::now();
        loop {
            match self.lines.recv_timeout(timeout.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{}: ended without {part:?}: {:#?}", self.command, self.seen)
                }
            }
        }
    }

    /// Waits for its end; returns true if it succeeded, and all its lines.
    #[track_caller]
    pub fn end(mut self) -> (bool, Vec<String>) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < TIMEOUT, "{} does not end: {:#?}", self.command, self.seen);
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.lines.iter());
        (status.success(), seen)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn finish(mut command: Command, input: &str) -> Outcome {
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        // If a command ends before it has read all input, its output has the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    let read = |mut stream: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stream.read_to_end(&mut text);
            String::from_utf8(text).unwrap()
        })
    };
    let out = read(Box::new(child.stdout.take().unwrap()));
    let err = read(Box::new(child.stderr.take().unwrap()));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let outcome = Outcome {
        command: format!("{:?}", command.get_args().skip(2).collect::<Vec<_>>()),
        success: status.is_some_and(|status| status.success()),
        out: out.join().unwrap(),
        err: err.join().unwrap(),
    };
    assert!(status.is_some(), "does not end: {outcome}");
    outcome
}
