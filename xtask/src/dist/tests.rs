//! Packages of a small program: made twice, unpacked by the tools that are installed, and started.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use binnacle_test_requirements::Ability;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;

/// Returns a release whose programs are `true`, which exits with success.
fn release() -> Release {
    let elf = fs::read("/bin/true").unwrap();
    Release {
        version: "1.2.3".into(),
        repository: "https://binnacle.example/binnacle".into(),
        revision: Some("abc".into()),
        epoch: 1_700_000_000,
        maintainer: "Somebody <somebody@binnacle.example>".into(),
        target: Target::named(None).unwrap(),
        programs: PROGRAMS.map(|name| (name, elf.clone())).into(),
        licence: b"licence".to_vec(),
        notice: b"notice".to_vec(),
        readme: b"readme".to_vec(),
        sysroot: "/".into(),
        // Tests run unoptimized.
        effort: Effort::Least,
    }
}

/// Returns a folder with all packages of a small program for another architecture: `true`, relabelled.
pub(crate) fn packed_for(target: Target) -> tempfile::TempDir {
    let mut elf = fs::read("/bin/true").unwrap();
    elf[18..20].copy_from_slice(&target.machine.0.to_le_bytes());
    let needs = libraries::Needs::of(&elf).unwrap();
    let (sysroot, output) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let loader = sysroot.path().join(needs.loader.unwrap().trim_start_matches('/'));
    for library in needs.libraries.iter().map(|name| sysroot.path().join("lib").join(name)).chain([loader]) {
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::copy("/bin/true", library).unwrap();
    }
    let programs = PROGRAMS.map(|name| (name, elf.clone())).into();
    let release = Release { target, programs, sysroot: sysroot.path().to_owned(), ..release() };
    release.pack(&[]).unwrap().write(output.path()).unwrap();
    output
}

/// Returns a folder with all packages.
fn packed() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    release().pack(&[]).unwrap().write(temp.path()).unwrap();
    temp
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn all_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(all_files(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn builds_are_reproducible() {
    let (one, other) = (packed(), packed());
    let relative = |temp: &tempfile::TempDir| -> Vec<_> {
        let strip =
            |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(temp.path()).unwrap().to_owned(), sha256(&bytes));
        all_files(temp.path()).into_iter().map(strip).collect()
    };
    let (one, other) = (relative(&one), relative(&other));
    assert!(one.len() > 10, "{one:?}");
    assert_eq!(one, other);
}

#[test]
fn lists_checksums_of_all_files() {
    let temp = packed();
    run(Command::new("sha256sum").args(["--check", "--strict", SUMS]).current_dir(temp.path()));
    let sums = fs::read_to_string(temp.path().join(SUMS)).unwrap();
    assert_eq!(sums.lines().count() + 1, all_files(temp.path()).len());
}

#[test]
fn tarball_contains_the_programs() {
    let temp = packed();
    let name = format!("binnacle-1.2.3-{}", release().target.triple);
    let file = fs::File::open(temp.path().join(format!("{name}.tar.gz"))).unwrap();
    tar::Archive::new(GzDecoder::new(file)).unpack(temp.path()).unwrap();
    let folder = temp.path().join(name);
    for program in PROGRAMS {
        run(&mut Command::new(folder.join(program)));
    }
    for file in ["man/man8/kube-apiserver.8.gz", "completions/bash/binnacle", "completions/zsh/_kube-apiserver"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    run(Command::new("sha256sum").args(["--check", "--strict", SUMS]).current_dir(folder));
}

/// dpkg reads the package; `packaging/deb/check` tests the installation.
#[test]
#[cfg_attr(not(has_dpkg), ignore = "needs dpkg-deb")]
fn dpkg_reads_the_package() {
    let temp = packed();
    let package = temp.path().join(format!("binnacle_1.2.3_{}.deb", release().target.debian));
    let control = temp.path().join("control");
    run(Command::new("dpkg-deb").arg("--control").arg(&package).arg(&control));
    let fields = fs::read_to_string(control.join("control")).unwrap();
    for line in ["Package: binnacle", "Version: 1.2.3", "Priority: optional"] {
        assert!(fields.lines().any(|found| found == line), "{fields}");
    }
    assert!(fields.contains("\nDepends: libc6 (>= 2."), "{fields}");
    let data = temp.path().join("data");
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&data));
    run(Command::new("md5sum").args(["--check", "--strict"]).arg(control.join("md5sums")).current_dir(&data));
    for program in ["usr/bin/binnacle", "usr/lib/binnacle/envtest/kube-apiserver", "usr/lib/binnacle/envtest/etcd"] {
        run(&mut Command::new(data.join(program)));
    }
    for file in [
        "usr/share/man/man8/kube-apiserver.8.gz",
        "usr/share/man/man8/binnacle-migrate.8.gz",
        "usr/share/bash-completion/completions/kube-apiserver",
        "usr/share/zsh/vendor-completions/_binnacle",
        "usr/share/fish/vendor_completions.d/binnacle.fish",
    ] {
        assert!(data.join(file).is_file(), "{file}");
    }
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(control.join(script)));
    }
}

fn rpm_package(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join(format!("binnacle-1.2.3-1.{}.rpm", release().target.cpu))
}

#[test]
fn rpm_package_has_digests_and_valid_scripts() {
    let temp = packed();
    let read = ::rpm::Package::open(rpm_package(&temp)).unwrap();
    read.verify_digests().unwrap();
    assert_eq!(read.metadata.get_license().unwrap(), "Apache-2.0");
    for (name, script) in rpm::SCRIPTS {
        let checked = Command::new("sh").args(["-n", "-c", script]).status().unwrap();
        assert!(checked.success(), "{name}");
    }
}

#[test]
#[cfg_attr(not(has_rpm), ignore = "needs rpm")]
fn rpm_reads_the_package() {
    let temp = packed();
    let package = rpm_package(&temp);
    let query = |arguments: &[&str]| {
        let output = run(Command::new("rpm").arg("--query").args(arguments).arg("--package").arg(&package));
        String::from_utf8(output.stdout).unwrap()
    };
    let files = query(&["--list"]);
    for file in ["/usr/bin/kube-apiserver", "/etc/default/binnacle", "/usr/lib/binnacle/envtest/etcd"] {
        assert!(files.lines().any(|line| line == file), "{file}: {files}");
    }
    assert!(!files.lines().any(|line| line == "/usr/bin"), "{files}");
    assert_eq!(query(&["--configfiles"]).trim(), "/etc/default/binnacle");
    let requires = query(&["--requires"]);
    assert!(
        requires.lines().any(|line| line.starts_with("libc.so.6(GLIBC_2.") && line.ends_with(")(64bit)")),
        "{requires}"
    );
    run(Command::new("rpm").args(["--checksig", "--nosignature"]).arg(&package));
}

#[test]
fn static_programs_are_packed_as_a_tarball_only() {
    let musl = Target::named(Some("x86_64-unknown-linux-musl")).unwrap();
    let failed = Release { target: musl, ..release() }.pack(&[]);
    if musl.runs_here() {
        // `true` needs the C library.
        assert!(failed.is_err_and(|error| error.contains("not statically linked")));
    }
    let mut all = Tree::default();
    let name = "binnacle-1.2.3-x86_64-unknown-linux-musl";
    Release { target: musl, ..release() }.pack_plain(name, b"{}".to_vec(), &mut all).unwrap();
    assert_eq!(
        all.entries().map(|(path, _)| path).collect::<Vec<_>>(),
        [format!("{name}.cdx.json"), format!("{name}.tar.gz")]
    );
}

#[test]
fn packages_sort_pre_releases_before_releases() {
    let release = Release { version: "1.2.3-rc.1".to_owned(), ..release() };
    assert_eq!(release.package_version(), "1.2.3~rc.1");
}

fn image_layout(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join(format!("binnacle-1.2.3-{}-image", release().target.triple))
}

/// Returns true if programs can be started in another root.
fn can_change_root() -> bool {
    let status = Command::new("unshare").args(["-r", "true"]).status();
    let possible = status.is_ok_and(|status| status.success());
    if !possible {
        Ability::Namespaces.is_missing("programs are not started in another root");
    }
    possible
}

/// Follows every reference from the index, compares digests and sizes, and starts the program in a root with the layers
/// only.
#[test]
fn image_is_complete_and_runs() {
    let temp = packed();
    let layout = image_layout(&temp);
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = fs::read(layout.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(sha256(&bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    };
    let document = |descriptor: &Value| -> Value { serde_json::from_slice(&blob(descriptor)).unwrap() };
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    let manifests = index["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 2);
    let can_change_root = can_change_root();
    for (descriptor, user) in manifests.iter().zip(["65532:65532", "0:0"]) {
        let manifest = document(descriptor);
        let config = document(&manifest["config"]);
        assert_eq!(config["config"]["User"], user);
        let root = tempfile::tempdir().unwrap();
        let layers = manifest["layers"].as_array().unwrap();
        let contents = config["rootfs"]["diff_ids"].as_array().unwrap();
        assert_eq!(layers.len(), contents.len());
        assert_eq!(layers.len(), config["history"].as_array().unwrap().len());
        for (layer, content) in layers.iter().zip(contents) {
            let mut archive = Vec::new();
            std::io::copy(&mut GzDecoder::new(&blob(layer)[..]), &mut archive).unwrap();
            assert_eq!(*content, format!("sha256:{}", sha256(&archive)));
            tar::Archive::new(&archive[..]).unpack(root.path()).unwrap();
        }
        let program = config["config"]["Entrypoint"][0].as_str().unwrap();
        if can_change_root {
            run(Command::new("unshare").args(["-r", "chroot"]).arg(root.path()).arg(program));
        }
    }
}

#[test]
#[cfg_attr(not(has_skopeo), ignore = "needs skopeo")]
fn skopeo_reads_the_image() {
    let temp = packed();
    let name = format!("oci:{}:1.2.3-root", image_layout(&temp).display());
    run(Command::new("skopeo").args(["inspect", "--config", &name]));
}
