//! The operator's program, run to its end or killed earlier.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::{tool, wait_until_blocking};

/// The running program. Dropping it kills it.
pub struct Tool {
    child: Child,
    /// Its standard error so far.
    said: Arc<Mutex<String>>,
    readers: Option<(JoinHandle<String>, JoinHandle<()>)>,
}

/// The outcome of the program.
#[derive(Debug)]
pub struct ToolOutcome {
    /// `None` if it was killed.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Tool {
    /// Starts it.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = tool();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        let err = std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut heard = heard.lock();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Self { child, said, readers: Some((out, err)) }
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(arguments: &[&str]) -> ToolOutcome {
        Self::start(arguments).wait()
    }

    /// Runs it to its end, asserts its success, and returns its output.
    pub fn succeed(arguments: &[&str]) -> String {
        let outcome = Self::run(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        outcome.out
    }

    /// Waits until its standard error contains `text`.
    pub fn wait_for(&mut self, text: &str) {
        let Self { child, said, .. } = self;
        wait_until_blocking(text, || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended with {status}: {}", said.lock());
            }
            said.lock().contains(text).then_some(())
        });
    }

    /// Returns true if it is running.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    #[must_use]
    pub fn wait(mut self) -> ToolOutcome {
        let status = wait_until_blocking("the program ends", || self.child.try_wait().unwrap());
        let (out, err) = self.readers.take().unwrap();
        let out = out.join().unwrap();
        err.join().unwrap();
        let err = self.said.lock().clone();
        ToolOutcome { code: status.code(), out, err }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
