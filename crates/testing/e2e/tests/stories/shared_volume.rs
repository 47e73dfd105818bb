//! A data directory on a volume of Kubernetes: its root belongs to root and to the group `fsGroup` of the pod.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use binnacle_test_requirements::Ability;
use binnacle_testkit::{TempDir, program};

/// The user of the server, and the group of the volume. Neither needs an account.
const USER: u32 = 65532;
const GROUP: u32 = 2000;

/// Returns a command that runs the server as an ordinary user with one more group.
fn unprivileged(data: &Path) -> Command {
    let server = program();
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={GROUP}")]);
    command.arg(server.get_program()).arg("--data-dir").arg(data).arg("--secure-port=0").stdin(Stdio::null());
    command.env_remove("XDG_DATA_HOME").env("HOME", "/nonexistent");
    command
}

/// Makes the root of a volume as kubelet leaves it: owned by root, writable for the group.
fn volume(temp: &TempDir, name: &str) -> PathBuf {
    let path = temp.path().join(name);
    fs::create_dir(&path).unwrap();
    chown(&path, Some(0), Some(GROUP)).unwrap();
    set_mode(&path, 0o2775);
    let lost = path.join("lost+found");
    fs::create_dir(&lost).unwrap();
    set_mode(&lost, 0o700);
    path
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Does what kubelet does before each start of a pod with a `fsGroup`: the group owns all files, and may write them.
fn share_with_group(path: &Path) {
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            share_with_group(&path);
        }
        if kind.is_dir() || kind.is_file() {
            chown(&path, None, Some(GROUP)).unwrap();
            set_mode(&path, mode(&path) | if kind.is_dir() { 0o2770 } else { 0o660 });
        }
    }
}

/// Starts a server and waits until it serves.
fn start(data: &Path) -> Child {
    let mut child = unprivileged(data).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.contains("https://") {
        let _ = child.kill();
        panic!("{line:?}: {}", String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr));
    }
    child
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Returns false if this process cannot run programs as another user, or if that user cannot reach the program.
fn can_change_users(temp: &TempDir) -> bool {
    set_mode(temp.path(), 0o755);
    let mut command = unprivileged(temp.path());
    let status = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let possible = status.is_ok_and(|status| status.success());
    if !possible {
        Ability::Users.is_missing("the server cannot be started as another user");
    }
    possible
}

#[test]
fn volume_of_root_and_fs_group_is_a_data_directory() {
    let temp = TempDir::new();
    if !can_change_users(&temp) {
        return;
    }
    let data = volume(&temp, "volume");
    let check = || {
        for name in ["store", "pki"] {
            assert_eq!(mode(&data.join(name)), 0o700, "{name}");
        }
        assert_eq!(mode(&data.join("admin.kubeconfig")), 0o600);
        // Nobody else can enter the directory of the certificates, whose own permissions are not changed.
        let files = fs::read_dir(data.join("pki")).unwrap().map(|file| file.unwrap().path());
        let keys: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "key")).collect();
        assert!(!keys.is_empty());
        keys.iter().for_each(|key| assert_eq!(mode(key), 0o600, "{}", key.display()));
        assert_eq!(mode(&data), 0o2775, "the volume belongs to root");
    };
    stop(start(&data));
    check();
    share_with_group(&data);
    assert_eq!(mode(&data.join("pki")), 0o2770);
    stop(start(&data));
    check();
}

#[test]
fn volume_that_others_can_change_is_no_data_directory() {
    let temp = TempDir::new();
    if !can_change_users(&temp) {
        return;
    }
    let of_another = volume(&temp, "of-another");
    chown(&of_another, Some(USER + 1), None).unwrap();
    let writable = volume(&temp, "writable");
    set_mode(&writable, 0o2777);
    let in_use = volume(&temp, "in-use");
    fs::write(in_use.join("letter"), "").unwrap();
    let unwritable = volume(&temp, "unwritable");
    set_mode(&unwritable, 0o755);
    for (data, why) in [
        (&of_another, "it belongs to the user 65533, who could replace its files"),
        (&writable, "all users can write to it (mode 2777)"),
        (&in_use, "others can read it (mode 2775) and there are other things in it, such as letter"),
        (&unwritable, "Permission denied"),
    ] {
        let output = unprivileged(data).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(why), "{why}: {text}");
        assert!(!data.join("pki").exists() && !data.join("store").exists(), "{why}");
    }
}
