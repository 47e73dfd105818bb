//! `cargo xtask release-artifacts`: puts the packages of all platforms together for one release, with an image for both
//! architectures, a provenance statement, checksums and their signature.

mod image;
mod packages;
mod provenance;
mod signature;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::dist::archive::Tree;
use crate::dist::{self, SUMS, TARGETS, TOOL};
use crate::process;

use packages::Packages;
use signature::Key;

pub(crate) fn command() -> clap::Command {
    let path = |name| Arg::new(name).value_parser(value_parser!(PathBuf));
    clap::Command::new("release-artifacts")
        .about("Puts the packages of all platforms together, with provenance, checksums and their signature")
        .long_about(
            "Puts the folders that cargo xtask dist wrote for each platform together in target/artifacts: all packages \
             and SBOMs, one OCI image for both architectures, a SLSA provenance statement, and SHA256SUMS with a \
             signature by minisign. Checksums of the folders are checked first. The same folders give the same bytes, \
             except for the signature.",
        )
        .arg(
            path("folder")
                .value_name("DIR")
                .required(true)
                .action(ArgAction::Append)
                .num_args(1..)
                .help("Folders that cargo xtask dist wrote"),
        )
        .arg(
            path("output")
                .long("output")
                .value_name("DIR")
                .help("Where the artifacts go, instead of target/artifacts. What is there is replaced"),
        )
        .arg(path("key").long("key").value_name("FILE").help(
            "Secret key of minisign for SHA256SUMS. MINISIGN_PASSWORD decrypts it. If not set, nothing is signed",
        ))
        .arg(Arg::new("builder").long("builder").value_name("URI").help(
            "Who built the packages, for the provenance: the address of a workflow. If not set, a person by hand",
        ))
        .arg(Arg::new("invocation").long("invocation").value_name("URI").help("The run of the builder"))
        .arg(
            Arg::new("partial")
                .long("partial")
                .action(ArgAction::SetTrue)
                .help("Some platforms may be missing. Releases contain all of them"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = process::root();
    let output = matches.get_one::<PathBuf>("output").cloned().unwrap_or_else(|| root.join("target/artifacts"));
    let packages: Vec<_> =
        matches.get_many::<PathBuf>("folder").into_iter().flatten().map(|folder| Packages::read(folder)).collect();
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let release = Release {
        packages: packages.into_iter().collect::<Result<_, _>>()?,
        epoch: dist::epoch(&root)?,
        repository: env!("CARGO_PKG_REPOSITORY").to_owned(),
        lock: dist::read(&root.join("Cargo.lock"))?,
        toolchain: toolchain(&String::from_utf8_lossy(&dist::read(&root.join("profile/compiler"))?))?,
        builder: text("builder"),
        invocation: text("invocation"),
    };
    if !matches.get_flag("partial") {
        release.check_platforms()?;
    }
    let key = matches.get_one::<PathBuf>("key").map(|path| Key::read(path)).transpose()?;
    release.artifacts(key.as_ref())?.write(&output)?;
    match &key {
        Some(key) => println!("signed; verify with the public key {}", key.public()),
        None => println!("not signed: no --key"),
    }
    println!("{}", output.display());
    Ok(())
}

/// The packages of a release, and what its provenance names.
struct Release {
    packages: Vec<Packages>,
    epoch: u64,
    repository: String,
    /// The contents of `Cargo.lock`.
    lock: Vec<u8>,
    /// The version of Rust.
    toolchain: String,
    builder: Option<String>,
    invocation: Option<String>,
}

impl Release {
    fn check_platforms(&self) -> Result<(), String> {
        let is_missing = |triple: &&str| !self.packages.iter().any(|packages| packages.triple == **triple);
        let missing: Vec<_> = TARGETS.iter().map(|target| target.triple).filter(is_missing).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("no packages for {}; --partial allows that", missing.join(", ")))
        }
    }

    /// Returns all files of the release.
    fn artifacts(&self, key: Option<&Key>) -> Result<Tree, String> {
        let first = self.packages.first().ok_or("no packages")?;
        for other in &self.packages {
            first.check_same_sources(other)?;
        }
        let name = format!("{TOOL}-{}", first.version);
        let mut all = Tree::default();
        for packages in &self.packages {
            for (file, bytes) in packages.plain_files() {
                all.file(file, 0o644, bytes.to_vec());
            }
        }
        let images = image::merge(&self.packages)?;
        if let Some(images) = &images {
            all.file(&format!("{name}-image.tar"), 0o644, images.layout.tar(self.epoch, "")?);
        }
        let digests = images.iter().flat_map(|images| &images.digests);
        let statement = provenance::statement(self, first, &all, digests)?;
        all.file(&format!("{name}.provenance.json"), 0o644, statement);
        let sums = dist::sums(&all);
        if let Some(key) = key {
            let signature = key.sign(&sums, &format!("{name}, checksums of all files"))?;
            all.file(&format!("{SUMS}.minisig"), 0o644, signature);
        }
        all.file(SUMS, 0o644, sums);
        Ok(all)
    }
}

/// Returns the version of Rust in `profile/compiler`, which releases are compiled with.
fn toolchain(text: &str) -> Result<String, String> {
    let version = text.strip_prefix("rustc ").and_then(|rest| rest.split_whitespace().next());
    version.map(str::to_owned).ok_or_else(|| "profile/compiler names no compiler".to_owned())
}
