//! `cargo xtask build`: builds of the programs, as a release contains them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::{PROGRAMS, Target};
use crate::process::{cargo, finish, root};

pub(crate) fn command() -> clap::Command {
    clap::Command::new("build")
        .about("Builds the programs as a release contains them, with the list of their crates")
        .arg(target_flag())
        .arg(zig_flag())
        .arg(crypto_flag())
        .arg(
            Arg::new("program")
                .long("program")
                .value_parser(PROGRAMS)
                .action(ArgAction::Append)
                .help("A program to build. If not set, all three"),
        )
        .arg(
            Arg::new("source")
                .long("source")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Another checkout to build in, instead of this one"),
        )
        .arg(
            Arg::new("profile")
                .long("profile")
                .default_value(RELEASE)
                .help("A profile of cargo, for trying the build itself"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let target = Target::named(matches.get_one::<String>("target").map(String::as_str))?;
    let programs: Vec<String> = matches.get_many("program").map(|names| names.cloned().collect()).unwrap_or_default();
    let build = Build {
        audited: true,
        zig: matches.get_flag("zig"),
        crypto: matches.get_one("crypto").cloned(),
        programs: if programs.is_empty() { PROGRAMS.map(str::to_owned).into() } else { programs },
        profile: matches.get_one::<String>("profile").cloned().unwrap_or_default(),
    };
    let source = matches.get_one::<PathBuf>("source").cloned().unwrap_or_else(root);
    println!("{}", build.run(&source, &target)?.display());
    Ok(())
}

/// Returns the flag of the platform.
pub(super) fn target_flag() -> Arg {
    Arg::new("target")
        .long("target")
        .value_name("TRIPLE")
        .help("Platform of the programs: x86_64- or aarch64-unknown-linux-gnu or -musl. If not set, this machine's")
}

/// Returns the flag of the compiler.
pub(super) fn zig_flag() -> Arg {
    Arg::new("zig")
        .long("zig")
        .action(ArgAction::SetTrue)
        .help("Compile and link with zig, by cargo zigbuild: for platforms that have no C compiler on this machine")
}

/// Returns the flag of the cryptography provider.
pub(super) fn crypto_flag() -> Arg {
    Arg::new("crypto").long("crypto").value_parser(["aws-lc", "fips"]).help(
        "Cryptography by AWS-LC or by its FIPS module. If not set, by ring. docs/cryptography.md has what they need",
    )
}

/// Returns cargo's argument that selects a cryptography provider in some of the programs.
pub(super) fn crypto_argument(provider: &str, programs: &[String]) -> String {
    // The stand-in for etcd uses none.
    let programs = programs.iter().filter(|program| *program != super::STAND_IN);
    let features: Vec<String> = programs.map(|program| format!("{program}/{provider}")).collect();
    format!("--features={}", features.join(","))
}

const RELEASE: &str = "release";
/// The variable with flags of rustc, separated by the byte 0x1f.
const ENCODED_FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// The options of a build.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    /// As releases are built: with the list of crates in the programs, and without paths of this machine.
    pub(super) audited: bool,
    /// With zig as the C compiler and linker, for other platforms than this machine's.
    pub(super) zig: bool,
    /// The feature that selects a cryptography provider.
    pub(super) crypto: Option<String>,
    pub(super) programs: Vec<String>,
    pub(super) profile: String,
}

impl Default for Build {
    fn default() -> Self {
        let programs = PROGRAMS.map(str::to_owned).into();
        Self { audited: false, zig: false, crypto: None, programs, profile: RELEASE.to_owned() }
    }
}

impl Build {
    /// Builds the programs, and returns their folder.
    pub(crate) fn run(&self, root: &Path, target: &Target) -> Result<PathBuf, String> {
        let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        finish(&mut self.command(root, &built, target))?;
        let folder = if self.names_target(target) { built.join(target.triple) } else { built };
        Ok(folder.join(&self.profile))
    }

    fn command(&self, root: &Path, built: &Path, target: &Target) -> Command {
        let mut command = cargo(root);
        if self.audited {
            command.arg("auditable");
            let folders = [(root, "/binnacle"), (built, "/target"), (&*cargo_home(), "/cargo")];
            hide_paths(&mut command, &folders, |name| std::env::var_os(name));
        }
        command.args([if self.zig { "zigbuild" } else { "build" }, "--locked", "--profile", &self.profile]);
        for program in &self.programs {
            command.args(["--bin", program]);
        }
        if let Some(provider) = &self.crypto {
            command.arg(crypto_argument(provider, &self.programs));
        }
        if self.names_target(target) {
            command.args(["--target", target.triple]);
        }
        if target.cpu == "aarch64" {
            // Kernels for arm64 have pages of 4, 16 or 64 KiB, and jemalloc needs the largest size when it is built.
            command.env("JEMALLOC_SYS_WITH_LG_PAGE", "16");
        }
        command
    }

    fn names_target(&self, target: &Target) -> bool {
        // zig links only for a named target.
        self.zig || !target.is_host()
    }
}

/// Replaces folders in the texts of panics and assertions, so that builds in different folders give equal programs. Flags
/// that the caller has set in the environment are kept.
fn hide_paths(command: &mut Command, folders: &[(&Path, &str)], env: impl Fn(&str) -> Option<OsString>) {
    let (mut rust, mut c) = (Vec::new(), Vec::new());
    for (folder, name) in folders {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        for (flags, option) in [(&mut rust, "--remap-path-prefix="), (&mut c, "-ffile-prefix-map=")] {
            let mut flag = OsString::from(option);
            flag.push(&folder);
            flag.push(format!("={name}"));
            flags.push(flag);
        }
    }
    // As in cargo, the encoded flags replace the others.
    match (env(ENCODED_FLAGS), env("RUSTFLAGS").map(OsString::into_string)) {
        (Some(flags), _) => rust.push(flags),
        (None, Some(Ok(flags))) => rust.extend(flags.split_whitespace().map(OsString::from)),
        (None, _) => {}
    }
    c.extend(env("CFLAGS"));
    command.env(ENCODED_FLAGS, rust.join(OsStr::new("\x1f"))).env("CFLAGS", c.join(OsStr::new(" ")));
}

fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::super::target::TARGETS;
    use super::*;

    fn arguments(build: &Build, triple: &str) -> Vec<String> {
        let target = Target::named(Some(triple)).unwrap();
        let command = build.command(Path::new("/source"), Path::new("/built"), &target);
        command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_every_target_except_this_machine() {
        let host = Target::named(None).unwrap().triple;
        assert!(!arguments(&Build::default(), host).contains(&"--target".to_owned()));
        for target in TARGETS {
            let arguments = arguments(&Build { zig: true, ..Build::default() }, target.triple);
            assert_eq!(arguments.last().map(String::as_str), Some(target.triple));
            assert_eq!(arguments[0], "zigbuild");
        }
    }

    #[test]
    fn selects_the_provider_where_a_program_has_one() {
        let build = Build { crypto: Some("fips".to_owned()), ..Build::default() };
        let arguments = arguments(&build, Target::named(None).unwrap().triple);
        assert!(arguments.contains(&"--features=kube-apiserver/fips,binnacle/fips".to_owned()), "{arguments:?}");
    }

    fn value(command: &Command, name: &str) -> String {
        let (_, value) = command.get_envs().find(|(key, _)| *key == name).unwrap();
        value.unwrap().to_owned().into_string().unwrap()
    }

    #[test]
    fn hidden_folders_keep_the_flags_of_the_caller() {
        let flags = |env: &[(&str, &str)]| {
            let mut command = Command::new("cargo");
            let find = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            hide_paths(&mut command, &[(Path::new("/source"), "/binnacle")], find);
            (value(&command, ENCODED_FLAGS), value(&command, "CFLAGS"))
        };
        let (rust, c) = ("--remap-path-prefix=/source=/binnacle", "-ffile-prefix-map=/source=/binnacle");
        for (env, more_rust, more_c) in [
            (&[][..], "", ""),
            (&[("RUSTFLAGS", "-C a -Cb"), ("CFLAGS", "-O1")], "\x1f-C\x1fa\x1f-Cb", " -O1"),
            (&[("RUSTFLAGS", "-Ca"), (ENCODED_FLAGS, "-Cb\x1f-Cc")], "\x1f-Cb\x1f-Cc", ""),
        ] {
            assert_eq!(flags(env), (format!("{rust}{more_rust}"), format!("{c}{more_c}")), "{env:?}");
        }
    }

    #[test]
    fn release_builds_hide_the_folders_of_the_machine() {
        let target = Target::named(None).unwrap();
        let build = Build { audited: true, ..Build::default() };
        let command = build.command(Path::new("/source"), Path::new("/built"), &target);
        assert_eq!(command.get_args().next().unwrap(), "auditable");
        let value = |name: &str| value(&command, name);
        let flags = value(ENCODED_FLAGS);
        assert!(flags.starts_with("--remap-path-prefix=/source=/binnacle\x1f--remap-path-prefix=/built=/target\x1f"));
        let flags = value("CFLAGS");
        assert!(flags.starts_with("-ffile-prefix-map=/source=/binnacle -ffile-prefix-map=/built=/target "));
    }
}
