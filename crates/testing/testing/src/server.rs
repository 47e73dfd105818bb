//! A running server, and its settings.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StartError;
use crate::process::Process;
use crate::scratch::{Scratch, random};

/// The environment variable that names the program.
pub const PROGRAM_VARIABLE: &str = "BINNACLE_KUBE_APISERVER";
const PROGRAM: &str = "kube-apiserver";

/// A running server. Dropping the value stops it and removes its data.
///
/// A test that panics drops it too. The servers of a process that is killed or calls [`std::process::exit`] end as well, but
/// leave their files.
pub struct ApiServer {
    url: String,
    kubeconfig: String,
    ca: String,
    token: String,
    // Dropped in this order: the process writes into the folder.
    process: Process,
    scratch: Scratch,
}

/// The settings of a server before its start.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    program: Option<PathBuf>,
    flags: Vec<OsString>,
}

impl ApiServer {
    /// Starts a server on a free port of 127.0.0.1, and returns when it is ready.
    pub fn start() -> Result<Self, StartError> {
        Self::builder().start()
    }

    /// Returns settings that can be changed before the start.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the address, as in `https://127.0.0.1:41234`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a kubeconfig of an administrator (group `system:masters`), with certificates and key embedded.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Returns the path of a file with [`Self::kubeconfig`], for `--kubeconfig` and `KUBECONFIG`.
    #[must_use]
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.data().join("admin.kubeconfig")
    }

    /// Returns the certificate of the authority that signed the server's certificate, as PEM.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Returns the path of a file with [`Self::ca`].
    #[must_use]
    pub fn ca_path(&self) -> PathBuf {
        self.data().join("pki/ca.crt")
    }

    /// Returns a bearer token of an administrator.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the server's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join(LOG)).unwrap_or_default()
    }

    /// Returns the process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join(DATA)
    }
}

impl Builder {
    /// Sets the program, in place of the one that the environment names.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Adds a flag, as in `--feature-gates=MutatingAdmissionPolicy=true`.
    ///
    /// As with envtest, the admission plugin ServiceAccount is disabled, so that pods can be created where no controller
    /// makes service accounts, unless a flag says which plugins are enabled or disabled.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<OsString>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Starts a server with these settings.
    pub fn start(self) -> Result<ApiServer, StartError> {
        let program = match self.program {
            Some(program) => program,
            None => find(std::env::var_os(PROGRAM_VARIABLE), std::env::var_os("PATH"))?,
        };
        let scratch = Scratch::new()?;
        let token = random()?;
        let tokens = scratch.write("tokens", &format!("{token},admin,admin,system:masters\n"))?;
        let data = scratch.path().join(DATA);
        let mut command = Command::new(program);
        command.arg("--ephemeral").arg("--data-dir").arg(&data);
        command.args(["--stop-with-stdin", "--bind-address=127.0.0.1", "--secure-port=0"]);
        command.arg("--token-auth-file").arg(tokens);
        if !self.flags.iter().any(|flag| names_plugins(flag)) {
            command.arg("--disable-admission-plugins=ServiceAccount");
        }
        command.args(self.flags);
        command.env("TMPDIR", scratch.path());
        let (process, url) = Process::start(command, &scratch.path().join(LOG))?;
        let (kubeconfig, ca) = (read(&data.join("admin.kubeconfig"))?, read(&data.join("pki/ca.crt"))?);
        Ok(ApiServer { url, kubeconfig, ca, token, process, scratch })
    }
}

/// Returns true for a flag that enables or disables admission plugins.
fn names_plugins(flag: &OsStr) -> bool {
    let flag = flag.as_encoded_bytes();
    ["--enable-admission-plugins", "--disable-admission-plugins"].iter().any(|name| flag.starts_with(name.as_bytes()))
}

/// Returns the path of the program: the one that the variable names, or the first in the folders of `PATH`.
fn find(named: Option<OsString>, path: Option<OsString>) -> Result<PathBuf, StartError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let path = path.unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    candidates.find(|candidate| candidate.is_file()).ok_or(StartError::NoProgram)
}

fn read(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path).map_err(|error| StartError::File { path: path.to_owned(), error })
}

const DATA: &str = "data";
const LOG: &str = "log";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_program_is() {
        let scratch = Scratch::new().unwrap();
        let program = scratch.write(PROGRAM, "").unwrap();
        let folders = std::env::join_paths([Path::new("/nowhere"), scratch.path()]).unwrap();
        for (named, path, want) in [
            (Some("/named"), None, Some(PathBuf::from("/named"))),
            (Some("/named"), Some(folders.clone()), Some(PathBuf::from("/named"))),
            (Some(""), Some(folders.clone()), Some(program.clone())),
            (None, Some(folders), Some(program)),
            (None, Some("/nowhere".into()), None),
            (None, None, None),
        ] {
            assert_eq!(find(named.map(OsString::from), path).ok(), want, "{named:?}");
        }
    }
}
