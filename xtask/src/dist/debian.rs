//! A Debian package: an `ar` archive of two tar archives. Its unit, its user and its scripts are in `packaging/deb`.
//!
//! It is written here and not by dpkg-deb, so that every system can make it, and the bytes do not depend on the version
//! of dpkg.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::archive::{Node, Tree};
use super::installed::{self, CONFIGURATION, DESCRIPTION};
use super::libraries::Needs;
use super::{Release, TOOL};
use crate::gzip::{Effort, pack};

/// The scripts that dpkg runs. Each needs the newline after its first line to be executable.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../../packaging/deb/postinst")),
    ("prerm", include_str!("../../../packaging/deb/prerm")),
    ("postrm", include_str!("../../../packaging/deb/postrm")),
];
/// Returns the package file.
pub(super) fn package(release: &Release) -> Result<Vec<u8>, String> {
    let data = data(release)?;
    let mut control = Tree::default();
    control.file("control", 0o644, control_file(release, &data)?.into_bytes());
    control.file("conffiles", 0o644, format!("/{CONFIGURATION}\n").into_bytes());
    control.file("md5sums", 0o644, md5sums(&data).into_bytes());
    for (name, script) in SCRIPTS {
        control.file(name, 0o755, script.as_bytes().to_vec());
    }
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", pack(&control.tar(release.epoch, "./")?, release.effort)?),
        ("data.tar.gz", pack(&data.tar(release.epoch, "./")?, release.effort)?),
    ];
    Ok(ar(&members, release.epoch))
}

/// Returns the files that the package installs.
fn data(release: &Release) -> Result<Tree, String> {
    let mut data = installed::tree(release, "usr/share/zsh/vendor-completions")?;
    let documents = "usr/share/doc/binnacle";
    data.file(&format!("{documents}/copyright"), 0o644, copyright(release));
    data.file(&format!("{documents}/changelog.gz"), 0o644, pack(changelog(release)?.as_bytes(), Effort::Best)?);
    Ok(data)
}

fn control_file(release: &Release, data: &Tree) -> Result<String, String> {
    let mut depends = libraries(release)?;
    // As in Debian's own packages: systemd, or one of the two programs alone.
    for program in ["sysusers", "tmpfiles"] {
        depends.insert(format!("systemd | systemd-standalone-{program} | systemd-{program}"));
    }
    let files = data.entries().map(|(_, entry)| match &entry.node {
        Node::File(bytes) => bytes.len().div_ceil(1024),
        Node::Folder | Node::Link(_) => 1,
    });
    let depends = depends.into_iter().collect::<Vec<_>>().join(", ");
    Ok(format!(
        "Package: {TOOL}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\nDepends: {depends}\n\
         Section: admin\nPriority: optional\n{DESCRIPTION}",
        release.package_version(),
        release.target.debian,
        release.maintainer,
        files.sum::<usize>(),
    ))
}

/// Returns the packages that contain the shared libraries, in at least the versions that the programs were linked with.
fn libraries(release: &Release) -> Result<BTreeSet<String>, String> {
    let mut packages: BTreeMap<&str, Option<Vec<u32>>> = BTreeMap::new();
    for program in release.programs.values() {
        let needs = Needs::of(program)?;
        for library in &needs.libraries {
            packages.entry(owner(library)?.0).or_default();
        }
        for (library, version) in &needs.versions {
            let (package, family) = owner(library)?;
            // Versions without a number (GLIBC_PRIVATE) are ignored.
            let Some(number) = version.strip_prefix(family).and_then(numbers) else { continue };
            let newest = packages.entry(package).or_default();
            *newest = newest.take().max(Some(number));
        }
    }
    let text = |(package, version): (&str, Option<Vec<u32>>)| match version {
        Some(version) => {
            let version: Vec<_> = version.iter().map(u32::to_string).collect();
            format!("{package} (>= {})", version.join("."))
        }
        None => package.to_owned(),
    };
    Ok(packages.into_iter().map(text).collect())
}

/// Returns the package that contains a library, and the prefix of its symbol versions.
fn owner(library: &str) -> Result<(&'static str, &'static str), String> {
    match library {
        "libgcc_s.so.1" => Ok(("libgcc-s1", "GCC_")),
        "libc.so.6" | "libm.so.6" | "libdl.so.2" | "libpthread.so.0" | "librt.so.1" => Ok(("libc6", "GLIBC_")),
        loader if loader.starts_with("ld-linux") => Ok(("libc6", "GLIBC_")),
        _ => Err(format!("which package of Debian has {library} is not known")),
    }
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// Returns the copyright file in the format of Debian's policy.
fn copyright(release: &Release) -> Vec<u8> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Binnacle\n\n\
         Files: *\nCopyright: 2026 The Binnacle authors\nLicense: Apache-2.0\n \
         On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.\n",
    );
    text.push_str(" .\n The SBOM of the release lists the licences of the libraries in the programs.\n");
    let _ = write!(text, " .\n Built from commit {}.\n", release.revision.as_deref().unwrap_or("unknown"));
    text.into_bytes()
}

fn changelog(release: &Release) -> Result<String, String> {
    Ok(format!(
        "{TOOL} ({}) unstable; urgency=medium\n\n  * CHANGELOG.md of the sources lists the changes.\n\n -- {}  {}\n",
        release.package_version(),
        release.maintainer,
        release.mail_date()?,
    ))
}

/// Returns the checksums of the installed files, as `dpkg --verify` reads them.
fn md5sums(data: &Tree) -> String {
    let mut text = String::new();
    for (path, entry) in data.entries() {
        if let Node::File(bytes) = &entry.node
            && path != CONFIGURATION
        {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:x}  {path}", md5::compute(bytes));
        }
    }
    text
}

/// Returns an archive in the common format of `ar`: text fields of fixed width before each member, members at even
/// offsets.
fn ar(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, bytes.len());
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_archive_members() {
        let archive = ar(&[("a", b"x".to_vec()), ("b", b"yz".to_vec())], 7);
        let want = "!<arch>\n\
            a               7           0     0     100644  1         `\nx\n\
            b               7           0     0     100644  2         `\nyz";
        assert_eq!(String::from_utf8_lossy(&archive), want);
    }

    #[test]
    fn compares_versions_by_number() {
        assert!(numbers("2.34") > numbers("2.4"));
        assert_eq!(numbers("PRIVATE"), None);
    }
}
