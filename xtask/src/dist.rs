//! `cargo xtask dist`: packs built programs for a release, as a tarball, a Debian package and an OCI image layout, with
//! lists of their contents. Equal programs give equal bytes: all times are that of the last commit, owners are fixed,
//! and lists are sorted.

mod archive;
mod debian;
mod image;
mod libraries;
mod manual;
mod sbom;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgMatches, value_parser};
use sha2::{Digest, Sha256};

use archive::{Node, Tree};
pub(crate) use target::Target;

use crate::gzip::{Effort, pack};

/// The names of the packed programs in the workspace: the server, the operator's program, the stand-in for etcd.
const PROGRAMS: [&str; 3] = [SERVER, TOOL, STAND_IN];
const SERVER: &str = "kube-apiserver";
const TOOL: &str = "binnacle";
const STAND_IN: &str = "etcd";
/// The packages whose dependencies are in the programs.
const PACKAGES: [&str; 3] = ["kube-apiserver", "binnacle", "binnacle-etcd-stand-in"];
const SUMS: &str = "SHA256SUMS";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("dist")
        .about("Packs the programs: tarball, Debian package, OCI image, SBOM, checksums")
        .long_about(
            "Packs kube-apiserver, binnacle and the stand-in for etcd as a tarball, a Debian package and an OCI image layout, \
             with SBOMs and checksums, in target/dist. The same programs give the same bytes: times are those of \
             SOURCE_DATE_EPOCH, or else of the last commit. Needs no daemon, no root and no tool of Debian.",
        )
        .arg(folder("output", "DIR", "Where the packages go, instead of target/dist. What is there is replaced"))
        .arg(folder("programs", "DIR", "Folder with the three programs. If not set, they are built: cargo build --release"))
        .arg(folder("sysroot", "DIR", "Where the programs' shared libraries are, for another target than this machine"))
        .arg(
            Arg::new("target")
                .long("target")
                .value_name("TRIPLE")
                .help("What the programs run on: x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu. If not set, this machine"),
        )
        .arg(
            Arg::new("maintainer")
                .long("maintainer")
                .value_name("NAME <ADDRESS>")
                .default_value("The Binnacle maintainers <maintainers@binnacle.example>")
                .help("Who the Debian package names"),
        )
}

/// Returns a flag that takes a path.
fn folder(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let target = Target::named(matches.get_one::<String>("target").map(String::as_str))?;
    let programs = match path("programs") {
        Some(programs) => programs,
        None => build(&root, &target)?,
    };
    let output = path("output").unwrap_or_else(|| root.join("target/dist"));
    let release = Release {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: git(&root, &["rev-parse", "HEAD"]).ok(),
        epoch: epoch(&root)?,
        maintainer: matches.get_one::<String>("maintainer").cloned().unwrap_or_default(),
        programs: read_programs(&programs)?,
        licence: read(&root.join("LICENSE"))?,
        notice: read(&root.join("NOTICE"))?,
        readme: read(&root.join("README.md"))?,
        sysroot: path("sysroot").unwrap_or_else(|| PathBuf::from("/")),
        effort: Effort::Best,
        target,
    };
    let components = sbom::components(&root, &PACKAGES, release.target.triple)?;
    release.pack(&components)?.write(&output)?;
    println!("{}", output.display());
    Ok(())
}

/// The contents of a release.
struct Release {
    version: String,
    /// The commit, if this is a git checkout.
    revision: Option<String>,
    /// The modification time of all packed files, in seconds since 1970.
    epoch: u64,
    maintainer: String,
    target: Target,
    programs: BTreeMap<&'static str, Vec<u8>>,
    licence: Vec<u8>,
    notice: Vec<u8>,
    readme: Vec<u8>,
    sysroot: PathBuf,
    effort: Effort,
}

impl Release {
    /// Returns all files of the output folder.
    fn pack(&self, components: &[sbom::Component]) -> Result<Tree, String> {
        for (program, bytes) in &self.programs {
            libraries::check_machine(bytes, &self.target).map_err(|error| format!("{program}: {error}"))?;
        }
        let name = format!("{TOOL}-{}-{}", self.version, self.target.triple);
        let mut all = Tree::default();
        let sbom = sbom::document(self, components)?;
        all.file(&format!("{name}.tar.gz"), 0o644, self.tarball(&name, &sbom)?);
        all.file(&format!("{name}.cdx.json"), 0o644, sbom);
        let package = format!("{TOOL}_{}_{}.deb", self.version, self.target.debian);
        all.file(&package, 0o644, debian::package(self)?);
        let image = image::Image::of(self)?;
        let mut in_image = components.to_vec();
        in_image.extend(image.libraries().map(|(path, bytes)| sbom::Component::library(path, bytes)));
        all.file(&format!("{name}-image.cdx.json"), 0o644, sbom::document(self, &in_image)?);
        all.merge(&format!("{name}-image"), image.layout()?);
        let sums = sums(&all);
        all.file(SUMS, 0o644, sums);
        Ok(all)
    }

    /// Packs the programs and their manual in one folder, which can also serve as `KUBEBUILDER_ASSETS`.
    fn tarball(&self, name: &str, sbom: &[u8]) -> Result<Vec<u8>, String> {
        let mut files = Tree::default();
        for (program, bytes) in &self.programs {
            files.file(program, 0o755, bytes.clone());
        }
        files.merge("man/man8", manual::pages(self.effort)?);
        for (folder, name, text) in manual::COMPLETIONS {
            files.file(&format!("completions/{folder}/{name}"), 0o644, text.as_bytes().to_vec());
        }
        files.file("LICENSE", 0o644, self.licence.clone());
        files.file("NOTICE", 0o644, self.notice.clone());
        files.file("README.md", 0o644, self.readme.clone());
        files.file("sbom.cdx.json", 0o644, sbom.to_vec());
        let sums = sums(&files);
        files.file(SUMS, 0o644, sums);
        let mut folder = Tree::default();
        folder.merge(name, files);
        pack(&folder.tar(self.epoch, "")?, self.effort)
    }

    /// Returns the time of all packed files as RFC 3339.
    fn date(&self) -> Result<String, String> {
        Ok(self.time()?.to_string())
    }

    /// Returns the same time in the format of mails and Debian changelogs.
    fn mail_date(&self) -> Result<String, String> {
        let zoned = self.time()?.to_zoned(jiff::tz::TimeZone::UTC);
        jiff::fmt::rfc2822::to_string(&zoned).map_err(|error| error.to_string())
    }

    fn time(&self) -> Result<jiff::Timestamp, String> {
        let seconds = i64::try_from(self.epoch).map_err(|error| error.to_string())?;
        jiff::Timestamp::from_second(seconds).map_err(|error| error.to_string())
    }

    fn program(&self, name: &str) -> Result<&[u8], String> {
        self.programs.get(name).map(Vec::as_slice).ok_or_else(|| format!("there is no program {name}"))
    }
}

/// Returns the checksums of all files, as `sha256sum --check` reads them.
fn sums(tree: &Tree) -> Vec<u8> {
    let mut text = String::new();
    for (path, entry) in tree.entries() {
        if let Node::File(bytes) = &entry.node {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}  {path}", sha256(bytes));
        }
    }
    text.into_bytes()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads the programs of a folder.
pub(crate) fn read_programs(folder: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>, String> {
    PROGRAMS.into_iter().map(|name| Ok((name, read(&folder.join(name))?))).collect()
}

/// Builds the programs in their release form, and returns their folder.
pub(crate) fn build(root: &Path, target: &Target) -> Result<PathBuf, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["build", "--release", "--locked"]);
    for program in PROGRAMS {
        command.args(["--bin", program]);
    }
    if !target.is_this_machine() {
        command.args(["--target", target.triple]);
    }
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{command:?} failed: {status}"));
    }
    let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(if target.is_this_machine() { built.join("release") } else { built.join(target.triple).join("release") })
}

/// Returns the time for all packed files: `SOURCE_DATE_EPOCH`
/// (<https://reproducible-builds.org/docs/source-date-epoch/>), or that of the last commit.
fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => git(root, &["log", "-1", "--format=%ct"])
            .map_err(|error| format!("{error}; SOURCE_DATE_EPOCH can say the time instead"))?,
    };
    text.parse().map_err(|_| format!("'{text}' is no time in seconds since 1970"))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").current_dir(root).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
