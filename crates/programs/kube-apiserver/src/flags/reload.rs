//! Reloading of the file of `--config`: some flags change at run time, `/configz` shows the others.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_apiserver::Server;
use binnacle_config::WatchedFile;
use parking_lot::Mutex;
use serde_json::{Map, json};

use super::parse::FlagSet;
use super::{Module, file, read};

/// Flags that change at run time.
const RELOADABLE: [&str; 2] = ["v", "vmodule"];

/// The file and its state, which clones share.
#[derive(Clone)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// The file's contents at the start.
    initial: Arc<[u8]>,
    /// The flags of the command line alone.
    command_line: FlagSet,
    state: Arc<Mutex<State>>,
}

struct State {
    /// The flags in use.
    effective: FlagSet,
    /// The flags in the current file, overridden by the command line.
    desired: FlagSet,
    /// The error of the last reload; `desired` is then of an earlier one.
    error: Option<String>,
}

/// Changes in a file that take effect at run time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) verbosity: u32,
    pub(crate) modules: Vec<Module>,
}

impl ConfigFile {
    pub(super) fn new(path: PathBuf, initial: Vec<u8>, command_line: FlagSet, effective: FlagSet) -> Self {
        let state = State { desired: effective.clone(), effective, error: None };
        Self { path, initial: initial.into(), command_line, state: Arc::new(Mutex::new(state)) }
    }

    /// Watches the file as long as the server runs.
    pub(crate) async fn watch(self, mut apply: impl FnMut(Changes) + Send) {
        let mut watched = WatchedFile::new(self.path.clone(), self.initial.to_vec());
        loop {
            match watched.changed().await {
                Ok(data) => {
                    // Validation also reads the files that the flags name.
                    let file = self.clone();
                    let checked = binnacle_config::load(move || (file.changed(&data), data)).await;
                    let Ok((changes, data)) = checked else { continue };
                    changes.into_iter().for_each(&mut apply);
                    watched.accept(data);
                }
                Err(error) => self.failed(&file::unreadable(&self.path, &error)),
            }
        }
    }

    /// Loads new contents. Invalid contents change nothing.
    fn changed(&self, data: &[u8]) -> Option<Changes> {
        let mut desired = self.command_line.clone();
        let errors = file::add_text(&mut desired, &self.path.display().to_string(), data);
        let checked = match errors.into_iter().next() {
            Some(error) => Err(error.to_string()),
            None => read(&desired).map_err(|error| error.to_string()).and_then(|(settings, logs)| {
                Server::check(&settings).map(|()| logs).map_err(|error| error.to_string())
            }),
        };
        let logs = match checked {
            Ok(logs) => logs,
            Err(error) => {
                self.failed(&error);
                return None;
            }
        };
        let mut state = self.state.lock();
        state.error = None;
        for name in RELOADABLE {
            state.effective.take_from(&desired, name);
        }
        state.desired = desired;
        let waiting = differences(&state);
        if waiting.is_empty() {
            tracing::info!(file = %self.path.display(), "config file reloaded");
        } else {
            let flags = waiting.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(",");
            tracing::warn!(file = %self.path.display(), flags, "config file reloaded; these flags take effect after a restart");
        }
        Some(Changes { verbosity: logs.verbosity, modules: logs.modules })
    }

    fn failed(&self, error: &str) {
        tracing::error!(file = %self.path.display(), error, "failed to reload config file, keeping the current flags");
        self.state.lock().error = Some(error.to_owned());
    }

    /// Returns the flags in use and their differences from the file, as JSON.
    pub(crate) fn shown(&self) -> String {
        let state = self.state.lock();
        let effective: Map<_, _> = state
            .effective
            .shown()
            .into_iter()
            .map(|(name, value)| {
                let from = match name.as_str() {
                    name if self.command_line.is_given(name) => "command line",
                    name if state.effective.is_from_file(name) => "file",
                    _ => "default",
                };
                (name, json!({"value": value, "from": from}))
            })
            .collect();
        let pending: Map<_, _> = differences(&state)
            .into_iter()
            .map(|(name, effective, file)| (name, json!({"running": effective, "file": file})))
            .collect();
        let mut all = json!({"file": self.path.display().to_string(), "flags": effective, "pending": pending});
        if let Some(error) = &state.error {
            all["error"] = json!(error);
        }
        format!("{:#}\n", json!({"kube-apiserver": all}))
    }
}

impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConfigFile").field(&self.path).finish()
    }
}

/// Returns the flags that a restart would change: name, value in use, value in the file.
fn differences(state: &State) -> Vec<(String, String, String)> {
    let pairs = state.effective.shown().into_iter().zip(state.desired.shown());
    pairs.filter(|(one, other)| one != other).map(|((name, effective), (_, file))| (name, effective, file)).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{Command, GROUPS, parse, parse::parse as parse_line};
    use super::*;

    fn start(temp: &std::path::Path, text: &str, arguments: &[&str]) -> Result<Box<super::super::Config>, String> {
        let path = temp.join("flags.yaml");
        std::fs::write(&path, text).unwrap();
        let config = format!("--config={}", path.display());
        let arguments = arguments.iter().map(|text| (*text).to_owned()).chain([config]).map(OsString::from);
        match parse(arguments) {
            Ok(Command::Serve(config)) => Ok(config),
            Ok(_) => panic!("it is no start"),
            Err(error) => Err(error.error.to_string().replace(&path.display().to_string(), "FILE")),
        }
    }

    fn value<'c>(config: &'c super::super::Config, name: &str) -> &'c str {
        config.shown.iter().find(|(shown, _)| shown == name).map_or("", |(_, value)| value)
    }

    #[test]
    fn reads_flags_from_file() {
        let temp = binnacle_testkit::TempDir::new();
        let text = "secure-port: 7443\nephemeral: true\nmax_requests_inflight: 17\nrequest-timeout: 90s\ngoaway-chance: 0.01\n\
                    feature-gates: {AllAlpha: false, CBORServingAndStorage: true}\nauthorization-mode: [Node, RBAC]\n\
                    service-cluster-ip-range: [10.1.0.0/24, \"fd00::/112\"]\nv: 3\nvmodule: {chain: 5}\n";
        let config = start(temp.path(), text, &["--max-requests-inflight=5"]).unwrap();
        for (name, want) in [
            ("secure-port", "7443"),
            ("max-requests-inflight", "5"),
            ("request-timeout", "90s"),
            ("goaway-chance", "0.01"),
            ("feature-gates", "AllAlpha=false,CBORServingAndStorage=true"),
            ("authorization-mode", "[Node,RBAC]"),
            ("service-cluster-ip-range", "10.1.0.0/24,fd00::/112"),
            ("v", "3"),
        ] {
            assert_eq!(value(&config, name), want, "{name}");
        }
        assert_eq!(config.logs.modules, [Module { pattern: "chain".to_owned(), verbosity: 5 }]);
        assert!(config.settings.generic.gates.enabled("CBORServingAndStorage"));
    }

    #[test]
    fn rejects_invalid_files() {
        let temp = binnacle_testkit::TempDir::new();
        for (text, want) in [
            ("secure-prot: 1", "--config FILE: unknown flag \"secure-prot\" (did you mean \"secure-port\"?)"),
            ("zzz: 1", "--config FILE: unknown flag \"zzz\""),
            ("config: a", "--config FILE: flag \"config\" cannot be in a file"),
            ("- a", "--config FILE: must be a mapping from names of flags to values"),
            ("v: [1, 2]", "--config FILE: flag \"v\" takes one value"),
            ("v:", "--config FILE: flag \"v\" takes one value"),
            (
                "feature-gates: {A: {B: 1}}",
                "--config FILE: flag \"feature-gates\" takes a mapping to texts, numbers or booleans",
            ),
            (
                "secure-port: x",
                "--config FILE: invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            ("max-requests-inflight: -1", "--max-requests-inflight can not be negative value"),
        ] {
            assert_eq!(start(temp.path(), text, &[]).unwrap_err(), want, "{text}");
        }
        let missing = parse([OsString::from("--config=/none/a")].into_iter()).err().unwrap().error.to_string();
        assert_eq!(missing, "--config: open /none/a: no such file or directory");
    }

    #[test]
    fn applies_or_shows_changes_of_file() {
        let temp = binnacle_testkit::TempDir::new();
        let config = start(temp.path(), "v: 2\nsecure-port: 7443", &["--max-requests-inflight=5"]).unwrap();
        let file = config.file.unwrap();
        let shown = |file: &ConfigFile| {
            let shown: serde_json::Value = serde_json::from_str(&file.shown()).unwrap();
            shown["kube-apiserver"].clone()
        };
        let flag = |shown: &serde_json::Value, name: &str| {
            let flag = &shown["flags"][name];
            (flag["value"].as_str().unwrap().to_owned(), flag["from"].as_str().unwrap().to_owned())
        };
        let pair = |value: &str, from: &str| (value.to_owned(), from.to_owned());
        let initial = shown(&file);
        assert_eq!(flag(&initial, "v"), pair("2", "file"));
        assert_eq!(flag(&initial, "max-requests-inflight"), pair("5", "command line"));
        assert_eq!(flag(&initial, "etcd-prefix"), pair("/registry", "default"));
        assert_eq!(initial["pending"], json!({}));
        let changes = file.changed(b"v: 4\nvmodule: chain=6\nsecure-port: 8443\nmax-requests-inflight: 9\n");
        let modules = vec![Module { pattern: "chain".to_owned(), verbosity: 6 }];
        assert_eq!(changes, Some(Changes { verbosity: 4, modules }));
        let second = shown(&file);
        assert_eq!(flag(&second, "v"), pair("4", "file"));
        assert_eq!(second["pending"], json!({"secure-port": {"running": "7443", "file": "8443"}}));
        assert_eq!(file.changed(b"v: 9\nsecure-prot: 1\n"), None);
        let third = shown(&file);
        assert_eq!(flag(&third, "v"), pair("4", "file"));
        assert!(third["error"].as_str().unwrap().contains("unknown flag"), "{third}");
        // Flags that the file omits have their defaults again.
        assert_eq!(file.changed(b""), Some(Changes { verbosity: 0, modules: Vec::new() }));
        assert_eq!(flag(&shown(&file), "v"), pair("0", "default"));
        assert_eq!(shown(&file)["pending"]["secure-port"], json!({"running": "7443", "file": "6443"}));
        // The command line alone has no file.
        let (flags, errors) = parse_line(&GROUPS, ["--v=1"].into_iter().map(OsString::from));
        assert!(errors.is_empty() && !flags.is_from_file("v"));
    }
}
