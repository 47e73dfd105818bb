//! The program's flags: one file per group, each a table of flags and the typed values read from it.
//!
//! Names and messages are kube-apiserver's, descriptions are our own. Some defaults differ, because this program starts
//! without any flags; their descriptions say so.

mod admission;
mod api_enablement;
mod auditing;
mod authentication;
mod authorization;
mod check;
mod features;
mod file;
mod generic;
mod global;
mod help;
mod inert;
mod kubelet;
mod logs;
#[cfg(test)]
mod manual;
mod metrics;
mod misc;
#[cfg(test)]
mod page;
mod parse;
mod reload;
mod serving;
mod similar;
mod storage;
mod table;
#[cfg(test)]
mod tests;
mod version;

use std::ffi::OsString;

use binnacle_apiserver::settings::{
    Admission, ApiEnablement, Authentication, Authorization, Debugging, Generic, Host, Misc, Serving, Settings, Storage,
};

pub(crate) use logs::{LogFormat, Logs, Module, Verbosity};
pub(crate) use reload::ConfigFile;
pub(crate) use table::FlagError;

use parse::FlagSet;
use table::Group;

/// The groups in the order of `--help`.
const GROUPS: [Group; 16] = [
    generic::GROUP,
    storage::GROUP,
    serving::GROUP,
    auditing::GROUP,
    features::GROUP,
    authentication::GROUP,
    authorization::GROUP,
    api_enablement::GROUP,
    features::EGRESS,
    admission::GROUP,
    metrics::GROUP,
    logs::GROUP,
    features::TRACES,
    misc::GROUP,
    inert::GROUP,
    global::GROUP,
];

/// The action that the command line requests.
pub(crate) enum Command {
    /// Print a text and exit: `--help`, `--version`.
    Print(String),
    /// The result of `--check-config`: all errors.
    Checked(Vec<String>),
    Serve(Box<Config>),
}

/// The configuration of the program.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) logs: Logs,
    /// All flags with their values, as `/flagz` shows them.
    pub(crate) shown: Vec<(String, String)>,
    /// Flags that were given but have no effect, with the reasons.
    pub(crate) inert: Vec<(&'static str, &'static str)>,
    /// The file of `--config`.
    pub(crate) file: Option<ConfigFile>,
    /// True if the end of standard input stops the server.
    pub(crate) stops_with_stdin: bool,
}

/// An error of the command line.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: FlagError,
    /// The settings of the log for the error; `None` if the command line cannot be parsed, so that there is no log.
    pub(crate) logs: Option<Logs>,
}

impl From<FlagError> for Failure {
    fn from(error: FlagError) -> Self {
        Self { error, logs: None }
    }
}

/// Settings that are read from flags.
trait FromFlags: Sized {
    fn read(flags: &FlagSet) -> Result<Self, FlagError>;
}

/// Parses the arguments after the program's name.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Failure> {
    let (mut flags, mut errors) = parse::parse(&GROUPS, arguments);
    let line = flags.clone();
    let (contents, of_file) = file::add(&mut flags);
    errors.extend(of_file);
    if flags.flag("check-config")? {
        return Ok(Command::Checked(check::check(flags, errors)));
    }
    if let Some(error) = errors.into_iter().next() {
        return Err(error.into());
    }
    if flags.flag("help")? {
        return Ok(Command::Print(help::render(&GROUPS)));
    }
    if let Some(text) = global::version(&flags)? {
        return Ok(Command::Print(text));
    }
    let (settings, logs) = read(&flags).map_err(|error| {
        let logs = (!error.is_parse_error()).then(|| logs(&flags).unwrap_or_default());
        Failure { error, logs }
    })?;
    let file = line.text("config").map(|path| ConfigFile::new(path.into(), contents, line.clone(), flags.clone()));
    let (shown, inert) = (flags.shown(), inert::given(&flags));
    let stops_with_stdin = flags.flag("stop-with-stdin")?;
    Ok(Command::Serve(Box::new(Config { settings, logs, shown, inert, file, stops_with_stdin })))
}

/// Reads the settings of the server and its log.
fn read(flags: &FlagSet) -> Result<(Settings, Logs), FlagError> {
    // The log comes first: it has the errors of all others.
    let logs = logs(flags)?;
    let settings = Settings {
        generic: Generic::read(flags)?,
        debugging: Debugging::read(flags)?,
        storage: Storage::read(flags)?,
        serving: Serving::read(flags)?,
        auditing: auditing::read(flags)?,
        authentication: Authentication::read(flags)?,
        authorization: Authorization::read(flags)?,
        api_enablement: ApiEnablement::read(flags)?,
        admission: Admission::read(flags)?,
        exposed_metrics: metrics::read(flags)?,
        misc: Misc::read(flags)?,
        host: Host::default(),
    };
    check_peers(flags, &settings)?;
    let settings = settings.checked().map_err(|error| FlagError::new(error.to_string()))?;
    Ok((settings, logs))
}

fn logs(flags: &FlagSet) -> Result<Logs, FlagError> {
    Logs::read(flags, generic::gates(flags)?.enabled("LoggingAlphaOptions"))
}

/// Rejects flags for peer servers without the feature gate that they need.
fn check_peers(flags: &parse::FlagSet, settings: &Settings) -> Result<(), FlagError> {
    const GATE: &str = "UnknownVersionInteroperabilityProxy";
    let is_on = settings.generic.gates.enabled(GATE);
    for flag in ["peer-ca-file", "peer-advertise-ip", "peer-advertise-port"] {
        if !is_on && flags.text(flag).is_some() {
            return Err(FlagError::new(format!("--{flag} requires {GATE} feature to be turned on")));
        }
    }
    if settings.misc.peer_ca.is_some() {
        for flag in ["cert", "key"] {
            if flags.text(&format!("proxy-client-{flag}-file")).is_none() {
                return Err(FlagError::new(format!(
                    "error building peer proxy handler, proxy-{flag}-file not specified"
                )));
            }
        }
    }
    Ok(())
}
