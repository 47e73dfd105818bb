//! Starts, stops, kills and restarts the real program for a test.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::https::{Client, Handshake};
use crate::logical_cluster;
use crate::{FaultyDisk, Port, ShiftedClock, TIMEOUT, TempDir, program};

/// The message of `binnacle_work` about a poll that took too long.
const LONG_POLL: &str = "a worker was kept from other requests";

/// A running server. Dropping it kills it and removes its files, and fails the test if its log has [`LONG_POLL`].
pub struct Server {
    child: Child,
    arguments: Vec<String>,
    temp: TempDir,
    environment: ServerEnvironment,
    /// The kubeconfig of the logical cluster that tests use instead of the server itself.
    cluster: Option<PathBuf>,
    /// The port that it keeps after a restart. Its claim ends with the server.
    port: Option<Port>,
    /// The lines that it printed when it was ready.
    pub lines: [String; 3],
    pub address: SocketAddr,
    /// The time from the start of the process to its last line.
    pub took: Duration,
}

/// The faults of a server's environment.
#[derive(Default)]
pub struct ServerEnvironment {
    pub disk: Option<FaultyDisk>,
    pub clock: Option<ShiftedClock>,
    /// The limit on its open files and sockets.
    pub descriptors: Option<u32>,
    /// Additional environment variables.
    pub environment: Vec<(&'static str, String)>,
}

impl Server {
    /// Starts it on a free port, with everything in memory.
    #[must_use]
    pub fn ephemeral() -> Self {
        Self::start(&["--ephemeral"])
    }

    /// Starts it with its own data directory, on a port that it keeps after a restart.
    #[must_use]
    pub fn durable() -> Self {
        Self::durable_with(&[])
    }

    /// As [`Self::durable`], with more arguments.
    #[must_use]
    pub fn durable_with(more: &[&str]) -> Self {
        Self::durable_in(ServerEnvironment::default(), more)
    }

    /// As [`Self::durable_with`], with faults.
    #[must_use]
    pub fn durable_in(environment: ServerEnvironment, more: &[&str]) -> Self {
        let temp = TempDir::new();
        let data = temp.join("data");
        // Programs other than tests may take a port, too.
        for _ in 0..20 {
            let port = Port::claim();
            let mut arguments = vec!["--data-dir".to_owned(), data.clone(), format!("--secure-port={}", port.number())];
            arguments.extend(more.iter().map(ToString::to_string));
            match spawn(&arguments, &temp, &environment) {
                Ok(started) => {
                    let mut server = Self::from(started, arguments, temp, environment);
                    server.port = Some(port);
                    return server;
                }
                Err(error) => assert!(error.contains("failed to create listener"), "{error}"),
            }
        }
        panic!("no free port");
    }

    /// Starts it with these arguments, on a free port if they have none.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        if !arguments.iter().any(|argument| argument.starts_with("--secure-port")) {
            arguments.push("--secure-port=0".to_owned());
        }
        let temp = TempDir::new();
        Self::start_in(ServerEnvironment::default(), arguments, temp)
    }

    /// Starts it with its own data directory, on a free port, and with a limit on open files and sockets.
    #[must_use]
    pub fn short_of_descriptors(descriptors: u32, more: &[&str]) -> Self {
        let temp = TempDir::new();
        let mut arguments = vec!["--data-dir".to_owned(), temp.join("data"), "--secure-port=0".to_owned()];
        arguments.extend(more.iter().map(ToString::to_string));
        Self::start_in(
            ServerEnvironment { descriptors: Some(descriptors), ..ServerEnvironment::default() },
            arguments,
            temp,
        )
    }

    fn start_in(environment: ServerEnvironment, arguments: Vec<String>, temp: TempDir) -> Self {
        let started = spawn(&arguments, &temp, &environment).unwrap_or_else(|error| panic!("did not start: {error}"));
        Self::from(started, arguments, temp, environment)
    }

    fn from(started: StartedProcess, arguments: Vec<String>, temp: TempDir, environment: ServerEnvironment) -> Self {
        let StartedProcess { child, lines, address, took } = started;
        let mut server = Self { child, arguments, temp, environment, lines, address, took, cluster: None, port: None };
        server.use_cluster();
        server
    }

    fn use_cluster(&mut self) {
        if logical_cluster::is_used(&self.arguments) {
            self.cluster = Some(logical_cluster::create(&self.host_kubeconfig(), &self.temp));
        }
    }

    /// Returns its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.temp.path().join("stderr")).unwrap()
    }

    /// Restarts it with the same arguments, after it ended or was killed, which this does if it is running.
    pub fn restart(&mut self) {
        self.kill();
        let started = spawn(&self.arguments, &self.temp, &self.environment);
        let started = started.unwrap_or_else(|error| panic!("did not restart: {error}"));
        let StartedProcess { child, lines, address, took } = started;
        (self.child, self.lines, self.address, self.took) = (child, lines, address, took);
        self.use_cluster();
    }

    /// Sends SIGKILL, and waits until the process has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.clean_up();
        self.assert_short_polls();
    }

    /// Removes what the process could not remove because it was killed.
    fn clean_up(&self) {
        if let Some(clock) = self.clock() {
            clock.clean_up_after(self.id());
        }
    }

    /// Fails if a poll kept one of the threads that serve requests from others for too long, which builds for tests
    /// report in the log.
    fn assert_short_polls(&self) {
        let log = std::fs::read_to_string(self.temp.path().join("stderr")).unwrap_or_default();
        let long: Vec<&str> = log.lines().filter(|line| line.contains(LONG_POLL)).take(20).collect();
        if std::env::var_os("BINNACLE_ALLOW_LONG_POLLS").is_some() {
            long.iter().for_each(|line| println!("{line}"));
        } else if !std::thread::panicking() {
            assert!(long.is_empty(), "work without charges in the budget:\n{}", long.join("\n"));
        }
    }

    /// Sends SIGTERM, and returns the time until it ended successfully.
    pub fn terminate(&mut self) -> Duration {
        self.signal(Signal::TERM);
        let (status, took) = self.wait();
        assert!(status.success(), "{status}");
        took
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits a limited time for its end.
    pub fn wait(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        let status = self.ended_in_time().expect("the program does not end");
        (status, began.elapsed())
    }

    fn ended_in_time(&mut self) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Returns true if it is running.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the disk of its environment.
    #[must_use]
    pub fn disk(&self) -> Option<&FaultyDisk> {
        self.environment.disk.as_ref()
    }

    /// Returns the clock of its environment.
    #[must_use]
    pub fn clock(&self) -> Option<&ShiftedClock> {
        self.environment.clock.as_ref()
    }

    /// Returns a directory for the test's own files, which is removed with the server.
    #[must_use]
    pub fn temp(&self) -> &TempDir {
        &self.temp
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}{}", self.address, self.path())
    }

    /// Returns the path before those of the API.
    fn path(&self) -> &'static str {
        if self.cluster.is_some() { logical_cluster::PATH } else { "" }
    }

    /// Returns the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.cluster.clone().unwrap_or_else(|| self.host_kubeconfig())
    }

    /// Returns the kubeconfig in the third line of output.
    fn host_kubeconfig(&self) -> PathBuf {
        let mut words = self.lines[2].split_whitespace().skip_while(|word| *word != "--kubeconfig");
        words.nth(1).unwrap_or_else(|| panic!("no kubeconfig: {}", self.lines[2])).into()
    }

    /// Returns the administrator's handshake.
    #[must_use]
    pub fn admin(&self) -> Handshake {
        Handshake::of_kubeconfig(&std::fs::read_to_string(self.kubeconfig()).unwrap())
    }

    /// Opens a connection.
    pub async fn connect(&self, handshake: &Handshake) -> Client {
        Client::connect(self.address, handshake).await.unwrap().below(self.path())
    }

    /// Opens a connection of the administrator.
    pub async fn client(&self) -> Client {
        self.connect(&self.admin()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A build with profiling (`cargo xtask release`) writes its profile when it ends.
        if std::env::var_os("LLVM_PROFILE_FILE").is_some() && kill_process(self.pid(), Signal::TERM).is_ok() {
            self.ended_in_time();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.clean_up();
        self.assert_short_polls();
    }
}

struct StartedProcess {
    child: Child,
    lines: [String; 3],
    address: SocketAddr,
    took: Duration,
}

/// Starts the program and waits for its three lines, or for its errors if it ends.
fn spawn(arguments: &[String], temp: &TempDir, environment: &ServerEnvironment) -> Result<StartedProcess, String> {
    let began = Instant::now();
    let mut command = program();
    // An ephemeral server that is killed leaves its kubeconfig, in our directory.
    command.args(arguments).env("TMPDIR", temp.path());
    if logical_cluster::is_used(arguments) {
        command.arg("--logical-clusters");
    }
    if let Some(clock) = &environment.clock {
        command = clock.under(&command);
    }
    if let Some(disk) = &environment.disk {
        command = disk.under(&command);
    }
    if let Some(descriptors) = environment.descriptors {
        command = limited(&command, descriptors);
    }
    command.envs(environment.environment.iter().map(|(name, value)| (name, value)));
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
    Ok(StartedProcess { address: address.parse().unwrap(), child, lines, took })
}

/// Returns the same command with a soft and hard limit of open files.
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

/// Returns the handshake of the administrator whose certificate is in a data directory.
#[must_use]
pub fn admin(data: &Path) -> Handshake {
    let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name)).unwrap();
    Handshake::new(read("ca.crt")).identity(&read("admin.crt"), &read("admin.key"))
}

/// Returns a handshake without a client certificate.
#[must_use]
pub fn somebody(data: &Path) -> Handshake {
    Handshake::new(std::fs::read_to_string(data.join("pki/ca.crt")).unwrap()).alpn(&["http/1.1"])
}
