//! Starts the real program for a test and stops it afterwards.

#[path = "../../../server/tests/common/client.rs"]
pub(crate) mod client;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Handshake};

/// A directory that is removed with the value.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("binnacle-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A file with these contents; its path as an argument.
    pub(crate) fn file(&self, name: &str, contents: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, contents).unwrap();
        path.display().to_string()
    }

    pub(crate) fn join(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub(crate) struct Running {
    child: Child,
    pub(crate) lines: [String; 3],
    pub(crate) address: SocketAddr,
    /// From starting the process to having read its last line.
    pub(crate) took: Duration,
}

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    command.stdin(Stdio::null()).env_remove("XDG_DATA_HOME");
    command
}

impl Running {
    /// Starts the program on a free port and waits for the three lines it prints.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let began = Instant::now();
        let mut command = program();
        command.arg("--secure-port=0").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let lines = [line(), line(), line()];
        let took = began.elapsed();
        let Some((_, address)) = lines[0].split_once("https://") else {
            let mut error = String::new();
            child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("did not start: {lines:?} {error}");
        };
        Self { address: address.parse().unwrap(), child, lines, took }
    }

    pub(crate) async fn connect(&self, handshake: &Handshake) -> Client {
        Client::connect(self.address, handshake).await.unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end, a limited time.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            assert!(began.elapsed() < Duration::from_secs(20), "the program does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The handshake of the administrator whose certificate is in a data directory.
pub(crate) fn admin(data: &Path) -> Handshake {
    let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name)).unwrap();
    Handshake::new(read("ca.crt")).identity(&read("admin.crt"), &read("admin.key"))
}

/// The handshake of somebody without a certificate.
pub(crate) fn somebody(data: &Path) -> Handshake {
    Handshake::new(std::fs::read_to_string(data.join("pki/ca.crt")).unwrap()).alpn(&["http/1.1"])
}
