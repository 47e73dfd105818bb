//! Starts the real program for a test, stops it, kills it, starts it again.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::https::{Client, Handshake};
use crate::{FaultyDisk, PATIENCE, ShiftedClock, TempDir, program};

/// A running server. It is killed with the value, and what it left on disk is removed.
pub struct Server {
    child: Child,
    arguments: Vec<String>,
    temp: TempDir,
    surroundings: Surroundings,
    /// The lines that it printed when it was ready.
    pub lines: [String; 3],
    pub address: SocketAddr,
    /// From starting the process to having read its last line.
    pub took: Duration,
}

/// The faults that a test can make around a server.
#[derive(Default)]
pub struct Surroundings {
    pub disk: Option<FaultyDisk>,
    pub clock: Option<ShiftedClock>,
    /// The most files and sockets that it may have open.
    pub descriptors: Option<u32>,
    /// More variables of its environment.
    pub environment: Vec<(&'static str, String)>,
}

impl Server {
    /// On a free port, with everything in memory.
    #[must_use]
    pub fn ephemeral() -> Self {
        Self::start(&["--ephemeral"])
    }

    /// With a data directory of its own, on a port that it gets again after a restart.
    #[must_use]
    pub fn durable() -> Self {
        Self::durable_with(&[])
    }

    /// The same with more arguments.
    #[must_use]
    pub fn durable_with(more: &[&str]) -> Self {
        Self::durable_in(Surroundings::default(), more)
    }

    /// The same where a test can make things go wrong.
    #[must_use]
    pub fn durable_in(surroundings: Surroundings, more: &[&str]) -> Self {
        let temp = TempDir::new();
        let data = temp.join("data");
        for attempt in 0..20 {
            let port = format!("--secure-port={}", lasting_port(attempt));
            let mut arguments = vec!["--data-dir".to_owned(), data.clone(), port];
            arguments.extend(more.iter().map(ToString::to_string));
            match spawn(&arguments, &temp, &surroundings) {
                Ok(started) => return Self::from(started, arguments, temp, surroundings),
                Err(error) => assert!(error.contains("failed to create listener"), "{error}"),
            }
        }
        panic!("no free port");
    }

    /// With these arguments, on a free port if they name none.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        if !arguments.iter().any(|argument| argument.starts_with("--secure-port")) {
            arguments.push("--secure-port=0".to_owned());
        }
        let temp = TempDir::new();
        Self::start_in(Surroundings::default(), arguments, temp)
    }

    /// With a data directory of its own, on a free port, and no more than so many files and sockets open.
    #[must_use]
    pub fn short_of_descriptors(descriptors: u32, more: &[&str]) -> Self {
        let temp = TempDir::new();
        let mut arguments = vec!["--data-dir".to_owned(), temp.join("data"), "--secure-port=0".to_owned()];
        arguments.extend(more.iter().map(ToString::to_string));
        Self::start_in(Surroundings { descriptors: Some(descriptors), ..Surroundings::default() }, arguments, temp)
    }

    fn start_in(surroundings: Surroundings, arguments: Vec<String>, temp: TempDir) -> Self {
        let started = spawn(&arguments, &temp, &surroundings).unwrap_or_else(|error| panic!("did not start: {error}"));
        Self::from(started, arguments, temp, surroundings)
    }

    fn from(started: Started, arguments: Vec<String>, temp: TempDir, surroundings: Surroundings) -> Self {
        let Started { child, lines, address, took } = started;
        Self { child, arguments, temp, surroundings, lines, address, took }
    }

    /// Returns its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.temp.path().join("stderr")).unwrap()
    }

    /// Starts it again with the arguments it had, after it ended or in place of the one that runs (which is killed).
    pub fn restart(&mut self) {
        self.kill();
        let started = spawn(&self.arguments, &self.temp, &self.surroundings);
        let started = started.unwrap_or_else(|error| panic!("did not restart: {error}"));
        let Started { child, lines, address, took } = started;
        (self.child, self.lines, self.address, self.took) = (child, lines, address, took);
    }

    /// kill -9, and waits until the process is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how long it took to end well.
    pub fn terminate(&mut self) -> Duration {
        self.signal(Signal::TERM);
        let (status, took) = self.wait();
        assert!(status.success(), "{status}");
        took
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end, a limited time.
    pub fn wait(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        let status = self.ended_in_time().expect("the program does not end");
        (status, began.elapsed())
    }

    fn ended_in_time(&mut self) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Returns true while it has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The process, as `/proc` knows it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The disk that it was started on.
    #[must_use]
    pub fn disk(&self) -> Option<&FaultyDisk> {
        self.surroundings.disk.as_ref()
    }

    /// The clock that it was started with.
    #[must_use]
    pub fn clock(&self) -> Option<&ShiftedClock> {
        self.surroundings.clock.as_ref()
    }

    /// A directory for the test's own files, removed with the server.
    #[must_use]
    pub fn temp(&self) -> &TempDir {
        &self.temp
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The administrator's kubeconfig, as the program says on its third line.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        let mut words = self.lines[2].split_whitespace().skip_while(|word| *word != "--kubeconfig");
        words.nth(1).unwrap_or_else(|| panic!("no kubeconfig: {}", self.lines[2])).into()
    }

    /// The administrator's handshake.
    #[must_use]
    pub fn admin(&self) -> Handshake {
        Handshake::of_kubeconfig(&std::fs::read_to_string(self.kubeconfig()).unwrap())
    }

    /// A connection.
    pub async fn connect(&self, handshake: &Handshake) -> Client {
        Client::connect(self.address, handshake).await.unwrap()
    }

    /// A connection of the administrator.
    pub async fn client(&self) -> Client {
        self.connect(&self.admin()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A build that counts for its optimization (`cargo xtask release`) writes down what it counted as it ends.
        if std::env::var_os("LLVM_PROFILE_FILE").is_some() && kill_process(self.pid(), Signal::TERM).is_ok() {
            self.ended_in_time();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Started {
    child: Child,
    lines: [String; 3],
    address: SocketAddr,
    took: Duration,
}

/// Starts the program and waits for the three lines it prints, or for what it says on its way out.
fn spawn(arguments: &[String], temp: &TempDir, surroundings: &Surroundings) -> Result<Started, String> {
    let began = Instant::now();
    let mut command = program();
    // An ephemeral server that is killed leaves its kubeconfig behind: in our directory.
    command.args(arguments).env("TMPDIR", temp.path());
    if let Some(clock) = &surroundings.clock {
        command = clock.under(&command);
    }
    if let Some(disk) = &surroundings.disk {
        command = disk.under(&command);
    }
    if let Some(descriptors) = surroundings.descriptors {
        command = limited(&command, descriptors);
    }
    command.envs(surroundings.environment.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::piped());
    let log = temp.path().join("stderr");
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let lines = [line(), line(), line()];
    let took = began.elapsed();
    let Some((_, address)) = lines[0].split_once("https://") else {
        let _ = child.kill();
        let _ = child.wait();
        let mut error = String::new();
        std::fs::File::open(&log).unwrap().read_to_string(&mut error).unwrap();
        return Err(format!("{lines:?} {error}"));
    };
    Ok(Started { address: address.parse().unwrap(), child, lines, took })
}

/// The same command with a limit of open files, the soft and the hard one.
fn limited(command: &Command, descriptors: u32) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// A port that stays ours while the server is down: below those that the system lends to outgoing connections.
fn lasting_port(attempt: u32) -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32768).max(12000);
    let begin = 10000;
    let start = (std::process::id().wrapping_mul(7919) + attempt * 4099) % (end - begin);
    (0..end - begin)
        .map(|step| u16::try_from(begin + (start + step * 13) % (end - begin)).unwrap())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

/// The handshake of the administrator whose certificate is in a data directory.
#[must_use]
pub fn admin(data: &Path) -> Handshake {
    let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name)).unwrap();
    Handshake::new(read("ca.crt")).identity(&read("admin.crt"), &read("admin.key"))
}

/// The handshake of somebody without a certificate.
#[must_use]
pub fn somebody(data: &Path) -> Handshake {
    Handshake::new(std::fs::read_to_string(data.join("pki/ca.crt")).unwrap()).alpn(&["http/1.1"])
}
