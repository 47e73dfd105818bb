//! Small file systems of the operating system, for tests of a full disk. They need the permission to mount: as root an
//! ext4 file system in a file, otherwise a tmpfs in a user namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use binnacle_test_requirements::Ability;

const DIR: &str = "BINNACLE_SMALL_DISK";
/// The exit status of a process that cannot mount.
const NOT_MOUNTED: i32 = 77;

const EXT4: &str = "truncate -s ${2}M $1/image && mkfs.ext4 -q -F -m 0 $1/image && mount -o loop $1/image $1/disk";
const TMPFS: &str = "mount -t tmpfs -o size=${2}m none $1/disk";

/// Returns the directory of an empty file system of `mib` MiB, in a separate process that only runs the test with this
/// name. Returns `None` in the process that started it, after it has succeeded, and if nothing can be mounted.
pub(crate) fn enter(test: &str, mib: u32) -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os(DIR) {
        return Some(dir.into());
    }
    let ways: [(&[&str], &str); 2] = [(&["--mount"], EXT4), (&["--user", "--map-root-user", "--mount"], TMPFS)];
    for (namespaces, mount) in ways {
        let dir = tempfile::tempdir().expect("a directory");
        let status = run(namespaces, mount, dir.path(), mib, test);
        match status.map(|status| status.code()) {
            Ok(Some(0)) => return None,
            // Without `unshare`, or without the permission for a namespace or a mount.
            Err(_) | Ok(Some(1 | NOT_MOUNTED)) => {}
            Ok(code) => panic!("{test} failed on a small disk ({code:?})"),
        }
    }
    Ability::Mounts.is_missing(&format!("{test}: no file system can be mounted"));
    None
}

fn run(namespaces: &[&str], mount: &str, dir: &Path, mib: u32, test: &str) -> std::io::Result<ExitStatus> {
    std::fs::create_dir(dir.join("disk"))?;
    let script = format!("({mount}) >/dev/null 2>&1 || exit {NOT_MOUNTED}; shift 2; exec \"$@\"");
    // The namespace, and with it the mount, ends with the process.
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &script, "sh"]).arg(dir).arg(mib.to_string());
    command.arg(std::env::current_exe()?).args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir.join("disk")).status()
}
