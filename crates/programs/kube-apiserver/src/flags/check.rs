//! `--check-config`: reports all errors of the flags and the files that they name, at once.

use binnacle_apiserver::Server;

use super::parse::FlagSet;
use super::read;
use super::table::FlagError;

/// Returns the errors of a command line, each with the flag that causes it. `errors` are the parse errors.
pub(super) fn check(mut flags: FlagSet, errors: Vec<FlagError>) -> Vec<String> {
    let mut found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let mut left_out = Vec::new();
    while let Err(why) = attempt(&flags) {
        // Reading ends with the first error. Removing the flag that causes it reveals the next one.
        let is_cause = |name: &&str| attempt(&flags.without(name)).err().as_ref() != Some(&why);
        let Some(cause) = flags.names().into_iter().find(is_cause) else {
            found.push(why);
            break;
        };
        flags = flags.without(cause);
        let flag = format!("--{cause}");
        // An error about a flag that was removed here is none of the command line.
        if !left_out.iter().any(|other| why.contains(other)) {
            found.push(if why.contains(&flag) { why } else { format!("{flag}: {why}") });
        }
        left_out.push(flag);
    }
    found
}

fn attempt(flags: &FlagSet) -> Result<(), String> {
    let (settings, _) = read(flags).map_err(|error| error.to_string())?;
    Server::check(&settings).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{Command, parse};

    fn errors(arguments: &[&str]) -> Vec<String> {
        match parse(arguments.iter().chain(&["--check-config"]).map(OsString::from)) {
            Ok(Command::Checked(errors)) => errors,
            _ => panic!("{arguments:?} is not checked"),
        }
    }

    #[test]
    fn reports_all_errors_of_file_and_command_line() {
        let temp = binnacle_testkit::TempDir::new();
        let path = temp.join("flags.yaml");
        std::fs::write(&path, "secure-prot: 1\nmax-requests-inflight: -1\ntls-cert-file: a\n").unwrap();
        let found = errors(&[&format!("--config={path}"), "--goaway-chance=1"]);
        let want = [
            format!("--config {path}: unknown flag \"secure-prot\" (did you mean \"secure-port\"?)"),
            "--max-requests-inflight can not be negative value".to_owned(),
            "--goaway-chance can not be less than 0 or greater than 0.02".to_owned(),
            "--tls-cert-file and --tls-private-key-file must be specified together".to_owned(),
        ];
        assert_eq!(found.len(), want.len(), "{found:#?}");
        for want in want {
            assert!(found.iter().any(|error| error.contains(&want)), "{found:#?}: {want}");
        }
    }

    #[test]
    fn reports_all_errors_at_once() {
        for (arguments, want) in [
            (&[][..], &[][..]),
            (&["--secure-port=0", "--ephemeral"], &[]),
            (
                &["--secure-prot=1", "--secure-port=x", "extra"],
                &[
                    "unknown flag: --secure-prot (did you mean --secure-port?)",
                    "invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
                    "\"kube-apiserver\" does not take any arguments, got [\"extra\"]",
                ],
            ),
            (
                &["--goaway-chance=1", "--tls-cert-file=a", "--max-requests-inflight=-1"],
                &[
                    "--max-requests-inflight can not be negative value",
                    "--goaway-chance can not be less than 0 or greater than 0.02",
                    "--tls-cert-file and --tls-private-key-file must be specified together",
                ],
            ),
            (
                &["--tls-cert-file=/none/a", "--tls-private-key-file=/none/b"],
                &["--tls-cert-file: open /none/a: no such file or directory"],
            ),
            (
                &["--token-auth-file=/none/a", "--authorization-config=/none/b", "--audit-policy-file=/none/c"],
                &[
                    "open /none/a: no such file or directory",
                    "open /none/b: no such file or directory",
                    "open /none/c: no such file or directory",
                ],
            ),
        ] {
            let found = errors(arguments);
            assert_eq!(found.len(), want.len(), "{found:#?}");
            for want in want {
                assert!(found.iter().any(|error| error.contains(want)), "{found:#?}: {want}");
            }
        }
    }
}
