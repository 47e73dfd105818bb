//! A running server, and its settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{TemporaryFile, random};
use crate::process::{Greeting, Process};
use crate::{PROGRAM_VARIABLE, StartError};

const PROGRAM: &str = "kube-apiserver";
/// The admission plugin that is disabled unless a flag enables it.
const SERVICE_ACCOUNT: &str = "ServiceAccount";
/// The flag that selects controllers; all run unless it is used.
const CONTROLLERS: &str = "--run-controllers";

/// A running server. Dropping the value stops it and removes its data.
///
/// A test that panics drops it too. The servers of a process that is killed or calls [`std::process::exit`] stop as well.
pub struct ApiServer {
    url: String,
    kubeconfig: String,
    ca: String,
    token: String,
    /// The directory of its files.
    pub(crate) directory: PathBuf,
    process: Process,
    #[cfg(feature = "clusters")]
    pub(crate) clusters: crate::cluster::LazyHost,
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
        kubeconfig_in(&self.directory)
    }

    /// Returns the certificate of the authority that signed the server's certificate, as PEM.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Returns the path of a file with [`Self::ca`].
    #[must_use]
    pub fn ca_path(&self) -> PathBuf {
        ca_in(&self.directory)
    }

    /// Returns a bearer token of an administrator.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the server's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log.text()
    }

    /// Returns the process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
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
    /// Controllers that belong to the API run in the server: deleted namespaces go with their objects, owner references are
    /// followed, and namespaces have their service account. The flag `--run-controllers` selects others, or with an empty
    /// value none; the admission plugin ServiceAccount is then disabled as with envtest, unless a flag enables it.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<OsString>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Starts a server with these settings.
    pub fn start(self) -> Result<ApiServer, StartError> {
        let program = match self.program {
            Some(program) => program,
            None => find(Path::new(PROGRAM), std::env::var_os(PROGRAM_VARIABLE), std::env::var_os("PATH"))?,
        };
        let token = random()?;
        // The server has read it when it is ready.
        let tokens = TemporaryFile::with(&format!("{token},admin,admin,system:masters\n"))?;
        let mut command = Command::new(program);
        command.args(["--ephemeral", "--stop-with-stdin", "--bind-address=127.0.0.1", "--secure-port=0"]);
        command.arg("--token-auth-file").arg(tokens.path());
        if !has_word(&self.flags, CONTROLLERS) {
            command.arg(format!("{CONTROLLERS}=*"));
        } else if !decides_on_service_accounts(&self.flags) {
            command.arg(format!("--disable-admission-plugins={SERVICE_ACCOUNT}"));
        }
        #[cfg(feature = "clusters")]
        let clusters = crate::cluster::LazyHost::of(&self.flags);
        command.args(self.flags);
        let (process, Greeting { url, directory }) = Process::start(command)?;
        let (kubeconfig, ca) = (read(&kubeconfig_in(&directory))?, read(&ca_in(&directory))?);
        Ok(ApiServer {
            url,
            kubeconfig,
            ca,
            token,
            directory,
            process,
            #[cfg(feature = "clusters")]
            clusters,
        })
    }
}

/// Returns true if the flags enable or disable the plugin, or exclude the flag that disables it. Lists of other plugins
/// are added to that flag.
fn decides_on_service_accounts(flags: &[OsString]) -> bool {
    has_word(flags, SERVICE_ACCOUNT) || has_word(flags, "--admission-control")
}

/// Returns true if a flag has this name, or this item in its value.
fn has_word(flags: &[OsString], wanted: &str) -> bool {
    // A value may also follow its flag.
    let mut words = flags.iter().filter_map(|flag| flag.to_str()).flat_map(|flag| flag.split(['=', ',']));
    words.any(|word| word == wanted || word.replace('_', "-") == wanted)
}

fn kubeconfig_in(directory: &Path) -> PathBuf {
    directory.join("admin.kubeconfig")
}

fn ca_in(directory: &Path) -> PathBuf {
    directory.join("pki/ca.crt")
}

/// Returns the path of the program: the one that the variable names, or the first in the folders of `PATH`.
fn find(program: &Path, named: Option<OsString>, path: Option<OsString>) -> Result<PathBuf, StartError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let path = path.unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file()).ok_or(StartError::NoProgram)
}

fn read(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path).map_err(|error| StartError::File { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_program() {
        // The name of a program in a folder of its own: that of this test.
        let exe = std::env::current_exe().unwrap();
        let (folder, name) = (exe.parent().unwrap(), exe.file_name().unwrap());
        let folders = std::env::join_paths([Path::new("/nowhere"), folder]).unwrap();
        for (named, path, want) in [
            (Some("/named"), None, Some(PathBuf::from("/named"))),
            (Some("/named"), Some(folders.clone()), Some(PathBuf::from("/named"))),
            (Some(""), Some(folders.clone()), Some(exe.clone())),
            (None, Some(folders), Some(exe.clone())),
            (None, Some("/nowhere".into()), None),
            (None, None, None),
        ] {
            assert_eq!(find(Path::new(name), named.map(OsString::from), path).ok(), want, "{named:?}");
        }
    }

    #[test]
    fn flags_override_the_service_account_plugin() {
        for (flags, want) in [
            (&[][..], false),
            (&["--enable-admission-plugins=PodNodeSelector", "--disable-admission-plugins=Priority"], false),
            (&["--service-account-issuer=https://ServiceAccount.example.com"], false),
            (&["--enable-admission-plugins=PodNodeSelector,ServiceAccount"], true),
            (&["--disable_admission_plugins=ServiceAccount"], true),
            (&["--enable-admission-plugins", "ServiceAccount"], true),
            (&["--admission_control=NamespaceLifecycle"], true),
        ] {
            let given: Vec<OsString> = flags.iter().map(OsString::from).collect();
            assert_eq!(decides_on_service_accounts(&given), want, "{flags:?}");
        }
    }
}
