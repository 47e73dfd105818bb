//! `cargo xtask dist`: packs built programs of one platform for a release, as a tarball, a Debian package, an RPM
//! package and an OCI image layout, with lists of their contents. Equal programs give equal bytes: all times are those
//! of the last commit, owners are fixed, and lists are sorted.

pub(crate) mod archive;
mod audit;
pub(crate) mod build;
mod debian;
mod image;
mod installed;
mod libraries;
mod manual;
mod rpm;
mod sbom;
mod target;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use sha2::{Digest, Sha256};

use archive::{Node, Tree};
pub(crate) use build::Build;
pub(crate) use image::{Blobs, CONFIG, INDEX, MANIFEST};
pub(crate) use target::{TARGETS, Target};

use crate::gzip::{Effort, pack};

/// The names of the packed programs in the workspace: the server, the operator's program, the stand-in for etcd.
const PROGRAMS: [&str; 3] = [SERVER, TOOL, STAND_IN];
const SERVER: &str = "kube-apiserver";
pub(crate) const TOOL: &str = "binnacle";
const STAND_IN: &str = "etcd";
/// The packages whose dependencies are in the programs.
const PACKAGES: [&str; 3] = ["kube-apiserver", "binnacle", "binnacle-etcd-stand-in"];
pub(crate) const SUMS: &str = "SHA256SUMS";
/// The end of the name of an image's folder, and of its SBOM, after the platform's.
pub(crate) const IMAGE: &str = "-image";
pub(crate) const IMAGE_SBOM: &str = "-image.cdx.json";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("dist")
        .about("Packs the programs: tarball, Debian and RPM package, OCI image, SBOM, checksums")
        .long_about(
            "Packs kube-apiserver, binnacle and the stand-in for etcd in target/dist: as a tarball, a Debian package, an \
             RPM package and an OCI image layout, with SBOMs and checksums. Statically linked programs are packed as a \
             tarball. The same programs give the same bytes: times are those of SOURCE_DATE_EPOCH, or else of the last \
             commit. Needs no daemon, no root and no tool of Debian or RPM.",
        )
        .arg(folder("output", "DIR", "Where the packages go, instead of target/dist. What is there is replaced"))
        .arg(folder("programs", "DIR", "Folder with the three programs. If not set, they are built for release"))
        .arg(folder("sysroot", "DIR", "Where the programs' shared libraries are, for another target than this machine"))
        .arg(build::target_flag())
        .arg(build::zig_flag())
        .arg(build::crypto_flag())
        .arg(Arg::new("audited").long("audited").action(ArgAction::SetTrue).help(
            "Programs must contain the list of their crates. They are built with cargo auditable and without paths of \
             this machine, as for a release",
        ))
        .arg(
            Arg::new("maintainer")
                .long("maintainer")
                .value_name("NAME <ADDRESS>")
                .default_value("The Binnacle maintainers <maintainers@binnacle.example>")
                .help("Who the packages name"),
        )
}

/// Returns a flag that takes a path.
fn folder(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = crate::process::root();
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let target = Target::named(matches.get_one::<String>("target").map(String::as_str))?;
    let audited = matches.get_flag("audited");
    let crypto: Option<String> = matches.get_one("crypto").cloned();
    let features: Vec<String> =
        crypto.iter().map(|provider| build::crypto_argument(provider, &PROGRAMS.map(str::to_owned))).collect();
    let programs = match path("programs") {
        Some(programs) => programs,
        None => Build { audited, zig: matches.get_flag("zig"), crypto, ..Build::default() }.run(&root, &target)?,
    };
    let output = path("output").unwrap_or_else(|| root.join("target/dist"));
    let release = Release {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        repository: env!("CARGO_PKG_REPOSITORY").to_owned(),
        revision: revision(&root),
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
    let components = sbom::components(&root, &PACKAGES, &features, release.target.triple)?;
    release.check_crates(&components, audited)?;
    release.pack(&components)?.write(&output)?;
    println!("{}", output.display());
    Ok(())
}

/// The contents of a release.
struct Release {
    version: String,
    repository: String,
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
    /// Checks that programs contain only crates of the SBOM. With `audited`, each must list its crates.
    fn check_crates(&self, components: &[sbom::Component], audited: bool) -> Result<(), String> {
        for (program, bytes) in &self.programs {
            match audit::check(bytes, components).map_err(|error| format!("{program}: {error}"))? {
                Some(crates) => println!("{program}: {crates} crates, all of them in the SBOM"),
                None if audited => return Err(format!("{program} has no list of its crates: build it with --audited")),
                None => println!("{program}: no list of crates to compare with the SBOM"),
            }
        }
        Ok(())
    }

    /// Returns all files of the output folder.
    fn pack(&self, components: &[sbom::Component]) -> Result<Tree, String> {
        for (program, bytes) in &self.programs {
            libraries::check_machine(bytes, &self.target).map_err(|error| format!("{program}: {error}"))?;
        }
        let name = format!("{TOOL}-{}-{}", self.version, self.target.triple);
        let mut all = Tree::default();
        let sbom = sbom::document(self, components)?;
        self.pack_plain(&name, sbom, &mut all)?;
        if !self.target.is_static {
            self.pack_for_distributions(&name, components, &mut all)?;
        }
        let sums = sums(&all);
        all.file(SUMS, 0o644, sums);
        Ok(all)
    }

    /// Adds what every platform has: the tarball and its SBOM.
    fn pack_plain(&self, name: &str, sbom: Vec<u8>, all: &mut Tree) -> Result<(), String> {
        all.file(&format!("{name}.tar.gz"), 0o644, self.tarball(name, &sbom)?);
        all.file(&format!("{name}.cdx.json"), 0o644, sbom);
        Ok(())
    }

    /// Adds the packages that need a C library: those of Linux distributions, and the image.
    fn pack_for_distributions(&self, name: &str, components: &[sbom::Component], all: &mut Tree) -> Result<(), String> {
        all.file(&format!("{TOOL}_{}_{}.deb", self.version, self.target.debian), 0o644, debian::package(self)?);
        all.file(&format!("{TOOL}-{}-1.{}.rpm", self.version, self.target.cpu), 0o644, rpm::package(self)?);
        let image = image::Image::of(self)?;
        let mut in_image = components.to_vec();
        in_image.extend(image.libraries().map(|(path, bytes)| sbom::Component::library(path, bytes)));
        all.file(&format!("{name}{IMAGE_SBOM}"), 0o644, sbom::document(self, &in_image)?);
        all.merge(&format!("{name}{IMAGE}"), image.layout()?);
        Ok(())
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

    /// Returns the version in the notation of Debian and RPM, where a tilde sorts a pre-release before its release.
    fn package_version(&self) -> String {
        self.version.replace('-', "~")
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
pub(crate) fn sums(tree: &Tree) -> Vec<u8> {
    let mut text = String::new();
    for (path, entry) in tree.entries() {
        if let Node::File(bytes) = &entry.node {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}  {path}", sha256(bytes));
        }
    }
    text.into_bytes()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
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

/// Returns the time for all packed files: `SOURCE_DATE_EPOCH`
/// (<https://reproducible-builds.org/docs/source-date-epoch/>), or that of the last commit.
pub(crate) fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => git(root, &["log", "-1", "--format=%ct"])
            .map_err(|error| format!("{error}; SOURCE_DATE_EPOCH can say the time instead"))?,
    };
    text.parse().map_err(|_| format!("'{text}' is no time in seconds since 1970"))
}

/// Returns the commit, if this is a git checkout.
pub(crate) fn revision(root: &Path) -> Option<String> {
    git(root, &["rev-parse", "HEAD"]).ok()
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").current_dir(root).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
