//! The commands in the documentation, except the tour's. Those that a test can run are run; for the others, the flags,
//! files, packages and tests that they mention must exist.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use binnacle_testkit::{Kubectl, Server, program, tool};

/// Programs and lines that need what a test does not have: network access, other programs, or root.
const LEFT_OUT: &[&str] = &[
    "...",
    "apt",
    "chown",
    "etcdctl",
    "export",
    "go",
    "kubectl proxy",
    "mv",
    "mysql",
    "npm",
    "pip",
    "podman",
    "psql",
    "skopeo",
    "systemctl",
];

/// A command of a page, as one line.
struct PageCommand {
    page: String,
    line: usize,
    text: String,
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn documented_commands_run_or_are_excluded() {
    let root = root();
    let mut commands = Vec::new();
    for page in pages(&root) {
        let text = std::fs::read_to_string(root.join(&page)).unwrap();
        commands.extend(read(&page, &text));
    }
    assert!(commands.len() > 100, "the pages have {} commands", commands.len());
    let mut problems = String::new();
    let mut run = Vec::new();
    for command in &commands {
        match check(&root, &command.text) {
            Ok(true) => run.push(command),
            Ok(false) => {}
            Err(problem) => writeln!(problems, "{}:{}: {problem}", command.page, command.line).unwrap(),
        }
    }
    assert!(problems.is_empty(), "{problems}");
    assert!(run.len() > 20, "{} commands are run", run.len());
    for page in run.chunk_by(|a, b| a.page == b.page) {
        try_out(page);
    }
}

/// Runs the commands of a page in order, next to a server.
fn try_out(commands: &[&PageCommand]) {
    let mut server = Server::durable();
    let kubectl = Kubectl::new(&server);
    // What the pages refer to.
    let webhooks = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "policies"},
        "webhooks": [{"name": "a.test.example", "clientConfig": {"url": "https://127.0.0.1:1"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail"}]}"#;
    kubectl.ok_with(&["create", "-f", "-"], webhooks);
    let folder = server.temp().path().join("work");
    let programs = folder.join("programs");
    for folder in [&programs, &folder.join("backups"), &folder.join(".config/fish/completions")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::os::unix::fs::symlink(tool().get_program(), programs.join("binnacle")).unwrap();
    if let Some(other) = std::env::var_os("KUBECTL") {
        std::os::unix::fs::symlink(other, programs.join("kubectl")).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let (data, place) = (server.temp().join("data"), folder.display().to_string());
    for command in commands {
        let text = command.text.replace("~/.local/share/binnacle", &data).replace("/var/lib/binnacle", &data);
        let text = text.replace("/backups/", &format!("{place}/backups/")).replace("${fpath[1]}", &place);
        let text = text.replace("127.0.0.1:6443", &server.address.to_string());
        // It needs a store that no server has open.
        let alone = command.text.starts_with("binnacle check");
        if alone {
            server.terminate();
        }
        let output = Command::new("timeout")
            .args(["60", "bash", "-o", "pipefail", "-c", &text])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("HOME", &folder)
            .env("KUBECONFIG", server.kubeconfig())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}:{}: {text}\n{output:?}", command.page, command.line);
        if alone {
            server.restart();
        }
    }
}

/// Returns true if the command should be run; otherwise checks that what it mentions exists.
fn check(root: &Path, text: &str) -> Result<bool, String> {
    let is = |start: &&&str| text == **start || text.starts_with(&format!("{start} "));
    if LEFT_OUT.iter().any(|start| is(&start)) {
        return Ok(false);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let flags = || words.iter().filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty());
    let flags = || flags().map(|flag| flag.split_once('=').map_or(flag, |(name, _)| name));
    let all_in = |help: &str, whose: &str| match flags().find(|flag| !help.contains(&format!("--{flag}"))) {
        Some(flag) => Err(format!("{whose} has no flag --{flag}")),
        None => Ok(false),
    };
    match words[..] {
        ["kube-apiserver" | "target/debug/kube-apiserver", ..] => all_in(&help(program(), &[]), "kube-apiserver"),
        // A line that continues another one: only flags.
        [first, ..] if first.starts_with("--") => all_in(&help(program(), &[]), "kube-apiserver"),
        // It needs a damaged store.
        ["binnacle", command @ "salvage", ..] => all_in(&help(tool(), &[command]), "binnacle"),
        ["binnacle", ..] if text.contains("embedded:") || text.contains("/var/lib/") || text.contains("completion") => {
            let of_elsewhere = ["etcd:", "...", "[", ".db", ".csv"];
            if of_elsewhere.iter().any(|part| text.replace("${fpath[1]}", "").contains(part)) {
                all_in(&help(tool(), &[words[1]]), "binnacle")
            } else {
                Ok(true)
            }
        }
        ["binnacle", command, ..] => all_in(&help(tool(), &[command]), "binnacle"),
        ["kube-controller-manager" | "kube-scheduler", ..] => {
            let of_server = ["admin.kubeconfig", "pki/sa.key", "pki/ca-bundle.crt", "pki/ca.crt", "pki/ca.key"];
            let mut files = words.iter().filter_map(|word| word.strip_prefix("~/.local/share/binnacle/"));
            match files.find(|file| !of_server.contains(file)) {
                Some(file) => Err(format!("the server makes no {file}")),
                None => Ok(false),
            }
        }
        ["kubectl" | "openssl" | "cp" | "source" | "timeout", ..] => Ok(true),
        ["cargo", ref words @ ..] => cargo(root, words, flags().collect()),
        ["python3", script, ..] => {
            let source = std::fs::read_to_string(root.join(script)).map_err(|error| format!("{script}: {error}"))?;
            all_in(&source, script)
        }
        [first, ..] if first.contains('/') => exists(root, first),
        _ => Err(format!("nobody says how this is checked: {text}")),
    }
}

/// Checks that the packages, tests and tasks in a cargo command exist.
fn cargo(root: &Path, words: &[&str], flags: Vec<&str>) -> Result<bool, String> {
    let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
    match words[0] {
        "xtask" => {
            let task = words.get(1).copied().unwrap_or_default();
            let sources = sources(&root.join("xtask/src"));
            let source = sources.iter().find(|source| source.contains(&format!("Command::new(\"{task}\")")));
            let source = source.ok_or_else(|| format!("there is no task {task}"))?;
            match flags.iter().find(|flag| !source.contains(&format!("\"{flag}\""))) {
                Some(flag) => Err(format!("cargo xtask {task} has no flag --{flag}")),
                None => Ok(false),
            }
        }
        "build" | "run" | "test" | "nextest" | "clippy" => {
            let crates = manifests(root);
            let named = |name: &str| crates.iter().find(|(_, text)| text.contains(&format!("name = \"{name}\"")));
            let mut folder = None;
            if let Some(package) = after("-p") {
                folder = Some(&named(package).ok_or_else(|| format!("there is no package {package}"))?.0);
            }
            if let Some(bin) = after("--bin") {
                named(bin).ok_or_else(|| format!("there is no program {bin}"))?;
            }
            let Some(folder) = folder else { return Ok(false) };
            if let Some(example) = after("--example") {
                exists(folder, &format!("examples/{example}.rs"))?;
            }
            let Some(test) = after("--test") else { return Ok(false) };
            exists(folder, &format!("tests/{test}.rs")).or_else(|_| exists(folder, &format!("tests/{test}")))?;
            let filter = words.iter().skip_while(|word| **word != test).nth(1).filter(|word| !word.starts_with('-'));
            let Some(filter) = filter.map(|filter| filter.trim_end_matches("::")) else { return Ok(false) };
            let tests = sources(&folder.join("tests"));
            let found = tests.iter().any(|source| {
                [format!("mod {filter};"), format!("fn {filter}")].iter().any(|text| source.contains(text))
            });
            if found { Ok(false) } else { Err(format!("no test is named {filter}")) }
        }
        "clean" | "deny" | "fmt" | "fuzz" | "install" => Ok(false),
        other => Err(format!("nobody says how cargo {other} is checked")),
    }
}

fn exists(folder: &Path, path: &str) -> Result<bool, String> {
    if folder.join(path).exists() { Ok(false) } else { Err(format!("there is no {path}")) }
}

fn help(mut command: Command, arguments: &[&str]) -> String {
    let output = command.args(arguments).arg("--help").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands in the indented blocks of a page, with continued lines joined and comments removed.
fn read(page: &str, text: &str) -> Vec<PageCommand> {
    let mut commands: Vec<PageCommand> = Vec::new();
    let (mut fenced, mut goes_on) = (false, false);
    for (line, text) in text.lines().enumerate() {
        fenced ^= text.trim_start().starts_with("```");
        if fenced || !text.starts_with("    ") {
            continue;
        }
        let text = text.split(" #").next().unwrap_or_default().trim();
        let before = std::mem::replace(&mut goes_on, text.ends_with('\\'));
        let text = text.trim_end_matches('\\').trim_end();
        match commands.last_mut() {
            Some(command) if before => write!(command.text, " {text}").unwrap(),
            _ if text.is_empty() || text.starts_with("Trace[") => {}
            _ => commands.push(PageCommand { page: page.to_owned(), line: line + 1, text: plain(text) }),
        }
    }
    commands
}

/// The command without leading variable assignments.
fn plain(text: &str) -> String {
    let is_setting = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    text.split(' ').skip_while(is_setting).collect::<Vec<_>>().join(" ")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn pages(root: &Path) -> Vec<String> {
    let mut pages: Vec<String> = std::fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| format!("docs/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|page| page.ends_with(".md") && page != "docs/tour.md")
        .collect();
    pages.extend(["README.md", "compat/README.md"].map(str::to_owned));
    pages.sort();
    pages
}

/// The folders of the packages, and their manifests.
fn manifests(root: &Path) -> Vec<(PathBuf, String)> {
    let inside = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let crates = inside(&root.join("crates")).flat_map(|domain| inside(&domain));
    let text = |folder: PathBuf| Some((folder.clone(), std::fs::read_to_string(folder.join("Cargo.toml")).ok()?));
    crates.chain([root.join("bench")]).filter_map(text).collect()
}

/// The Rust sources below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(path).unwrap());
        }
    }
    texts
}

#[test]
fn finds_commands_in_pages() {
    for (page, want) in [
        ("    a b   # c", &["a b"][..]),
        ("    a \\\n        b", &["a b"]),
        ("    X=1 a", &["a"]),
        ("a\n\n    b\n\nc", &["b"]),
        ("```rust\n    a\n```\n    b", &["b"]),
        ("1. a\n\n       b\n", &["b"]),
    ] {
        let found: Vec<String> = read("page", page).into_iter().map(|command| command.text).collect();
        assert_eq!(found, want, "{page}");
    }
}
