//! etcd for tests: real members on free loopback ports, which can be killed, frozen and restarted.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::relays::{Relays, Side};
use crate::wait::wait_blocking;
use crate::{FaultyDisk, Port, TempDir};

/// A killed member is ready after it has caught up with the others, on a busy machine too.
const READY: Duration = Duration::from_secs(120);

/// A cluster of one or more members. Dropping it kills them and removes their data.
pub struct Etcd {
    members: Vec<Member>,
    ports: Vec<Port>,
    temp: TempDir,
    /// The network between the members, if it can be cut.
    network: Option<Relays>,
    /// The disk of all members, if it can fail.
    disk: Option<FaultyDisk>,
    /// The flags for `etcdctl` to authenticate.
    identity: Vec<String>,
}

struct Member {
    child: Option<Child>,
    arguments: Vec<String>,
    /// The URL of its own port.
    endpoint: String,
    /// The URL for its clients, perhaps of a relay.
    known_as: String,
}

/// PEM files for TLS between members and clients.
pub struct EtcdTls<'a> {
    pub ca: &'a Path,
    pub certificate: &'a Path,
    pub key: &'a Path,
}

impl Etcd {
    /// Starts one member.
    #[must_use]
    pub fn single() -> Self {
        Self::start(1, None, None, None)
    }

    /// Starts one member that raises the NOSPACE alarm when its database has this many bytes.
    #[must_use]
    pub fn small(quota: u64) -> Self {
        let mut etcd = Self::single();
        etcd.kill(0);
        etcd.members[0].arguments.push(format!("--quota-backend-bytes={quota}"));
        etcd.restart(0);
        etcd
    }

    /// Starts several members and waits until all are ready.
    #[must_use]
    pub fn cluster(members: usize) -> Self {
        Self::start(members, None, None, None)
    }

    /// Starts several members with a network that can be cut, and a disk that can be slow.
    #[must_use]
    pub fn fragile(members: usize) -> Self {
        let disk = FaultyDisk::available().then(FaultyDisk::slow);
        let etcd = Self::start(members, None, Some(Relays::new()), disk);
        // ID, status, name, URLs.
        for line in etcd.ctl(0, &["member", "list"]).lines() {
            let words: Vec<_> = line.split(", ").collect();
            let member = words[2].strip_prefix('m').and_then(|number| number.parse().ok()).unwrap();
            etcd.network.as_ref().unwrap().name(words[0], member);
        }
        etcd
    }

    /// Starts one member whose answers can be lost.
    #[must_use]
    pub fn forgetful() -> Self {
        Self::start(1, None, Some(Relays::new()), None)
    }

    /// Starts one member that requires client certificates.
    #[must_use]
    pub fn secure(tls: &EtcdTls<'_>) -> Self {
        Self::secure_cluster(1, tls)
    }

    /// Starts several members that require certificates of clients, but not of each other.
    #[must_use]
    pub fn secure_cluster(members: usize, tls: &EtcdTls<'_>) -> Self {
        Self::start(members, Some(tls), None, None)
    }

    fn start(count: usize, tls: Option<&EtcdTls<'_>>, network: Option<Relays>, disk: Option<FaultyDisk>) -> Self {
        let temp = TempDir::new();
        let claims: Vec<[Port; 2]> = (0..count).map(|_| [Port::claim(), Port::claim()]).collect();
        let ports: Vec<(u16, u16)> = claims.iter().map(|[client, peer]| (client.number(), peer.number())).collect();
        let known_as = |member, side, port| match &network {
            Some(network) => network.relay(member, side, port),
            None => port,
        };
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<_> =
            ports.iter().enumerate().map(|(n, (_, port))| url(known_as(n, Side::Peers, *port))).collect();
        let cluster: Vec<_> = peers.iter().enumerate().map(|(n, peer)| format!("m{n}={peer}")).collect();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let members = ports.iter().enumerate().map(|(n, (client, peer_port))| {
            let endpoint = format!("{scheme}://127.0.0.1:{client}");
            let known_as = format!("{scheme}://127.0.0.1:{}", known_as(n, Side::Clients, *client));
            let mut arguments = vec![
                format!("--name=m{n}"),
                format!("--data-dir={}", temp.join(&format!("m{n}"))),
                format!("--listen-client-urls={endpoint}"),
                format!("--advertise-client-urls={known_as}"),
                format!("--listen-peer-urls={}", url(*peer_port)),
                format!("--initial-advertise-peer-urls={}", peers[n]),
                format!("--initial-cluster={}", cluster.join(",")),
            ];
            if count == 1 {
                // A single member has no competitors in an election.
                arguments.extend(["--heartbeat-interval=10".to_owned(), "--election-timeout=50".to_owned()]);
            }
            if let Some(tls) = tls {
                arguments.extend([
                    "--client-cert-auth".to_owned(),
                    format!("--trusted-ca-file={}", tls.ca.display()),
                    format!("--cert-file={}", tls.certificate.display()),
                    format!("--key-file={}", tls.key.display()),
                ]);
            }
            Member { child: None, arguments, endpoint, known_as }
        });
        let members = members.collect();
        let identity = tls.map(|tls| {
            let files = [("cacert", tls.ca), ("cert", tls.certificate), ("key", tls.key)];
            files.map(|(name, path)| format!("--{name}={}", path.display())).to_vec()
        });
        let ports = claims.into_iter().flatten().collect();
        let mut etcd = Self { members, ports, temp, network, disk, identity: identity.unwrap_or_default() };
        for n in 0..count {
            etcd.spawn(n);
        }
        for n in 0..count {
            etcd.wait_ready(n);
        }
        etcd
    }

    /// Adds a learner, which does not vote until it is [promoted](Self::promote). The others must be running.
    pub fn add_learner(&mut self) -> usize {
        let n = self.members.len();
        let [client_port, peer_port] = [Port::claim(), Port::claim()];
        let (client, peer) = (client_port.number(), format!("http://127.0.0.1:{}", peer_port.number()));
        let added = self.change_members(&["add", &format!("m{n}"), "--learner", &format!("--peer-urls={peer}")]);
        // One of the lines is NAME="value".
        let cluster = added.lines().find_map(|line| line.strip_prefix("ETCD_INITIAL_CLUSTER="));
        let endpoint = format!("http://127.0.0.1:{client}");
        let arguments = vec![
            format!("--name=m{n}"),
            format!("--data-dir={}", self.temp.join(&format!("m{n}"))),
            format!("--listen-client-urls={endpoint}"),
            format!("--advertise-client-urls={endpoint}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", cluster.expect("all members").trim_matches('"')),
            "--initial-cluster-state=existing".to_owned(),
        ];
        self.members.push(Member { child: None, arguments, known_as: endpoint.clone(), endpoint });
        self.ports.extend([client_port, peer_port]);
        self.spawn(n);
        self.wait_ready(n);
        n
    }

    /// Promotes a learner that has caught up to a voting member.
    pub fn promote(&self, member: usize) {
        let id = self.id(member);
        let _ = self.change_members(&["promote", &id]);
    }

    /// Removes a member from the cluster and kills it.
    pub fn remove(&mut self, member: usize) {
        let id = self.id(member);
        let _ = self.change_members(&["remove", &id]);
        self.kill(member);
    }

    /// Changes the members of the cluster, which fails while one is behind. All are called in turn: a removed one may
    /// end before it answers, and the next one reports the removal.
    fn change_members(&self, arguments: &[&str]) -> String {
        let running = self.members.iter().filter(|member| member.child.is_some());
        let mut asked = running.map(|member| &member.endpoint).cycle();
        wait_blocking(READY, "the members change", || {
            let endpoint = asked.next().expect("a member that runs");
            let mut command = Command::new("etcdctl");
            command.env("ETCDCTL_API", "3").arg(format!("--endpoints={endpoint}")).args(&self.identity);
            let output = command.arg("member").args(arguments).output().unwrap();
            let is_gone = String::from_utf8_lossy(&output.stderr).contains("member not found");
            let is_done = output.status.success() || arguments[0] == "remove" && is_gone;
            is_done.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }

    fn id(&self, member: usize) -> String {
        let name = format!("m{member}");
        // ID, status, name, URLs.
        let list = self.change_members(&["list"]);
        let line = list.lines().find(|line| line.split(", ").nth(2) == Some(&name));
        line.and_then(|line| line.split(", ").next()).expect("the member").to_owned()
    }

    /// Returns the members' client URLs.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.known_as.clone()).collect()
    }

    /// Returns them as for `--etcd-servers`.
    #[must_use]
    pub fn servers(&self) -> String {
        format!("--etcd-servers={}", self.endpoints().join(","))
    }

    /// Sends SIGKILL, and waits until the member has ended.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts a killed member, and waits until it is ready.
    pub fn restart(&mut self, member: usize) {
        self.kill(member);
        self.spawn(member);
        self.wait_ready(member);
    }

    /// Removes a member's data and restarts it, as if restored from an empty backup.
    pub fn wipe(&mut self, member: usize) {
        self.kill(member);
        std::fs::remove_dir_all(self.temp.path().join(format!("m{member}"))).unwrap();
        self.restart(member);
    }

    /// Saves a snapshot of the cluster, and returns its newest revision.
    #[must_use]
    pub fn save_snapshot(&self) -> u64 {
        let file = self.temp.join("snapshot");
        let _ = std::fs::remove_file(&file);
        let saved = self.etcdctl(0).args(["snapshot", "save", &file]).output().unwrap();
        assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
        let status = snapshots().args(["status", &file, "--write-out=simple"]).output().unwrap();
        // Hash, revision, keys, size.
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        let revision = status.split(", ").nth(1).and_then(|word| word.parse().ok());
        revision.unwrap_or_else(|| panic!("no revision in {status:?}"))
    }

    /// Kills all members, and starts the cluster with the [saved](Self::save_snapshot) snapshot.
    pub fn restore_snapshot(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
        for (n, member) in self.members.iter().enumerate() {
            std::fs::remove_dir_all(self.temp.path().join(format!("m{n}"))).unwrap();
            let place = ["--name=", "--data-dir=", "--initial-cluster=", "--initial-advertise-peer-urls="];
            let place = member.arguments.iter().filter(|flag| place.iter().any(|name| flag.starts_with(name)));
            let restored = snapshots().arg("restore").arg(self.temp.join("snapshot")).args(place).output().unwrap();
            assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        }
        for member in 0..self.members.len() {
            self.spawn(member);
        }
        for member in 0..self.members.len() {
            self.wait_ready(member);
        }
    }

    /// Stops a member's process: its connections stay open without any answers.
    pub fn freeze(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    pub fn thaw(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    /// Cuts a member off from the others, and if `alone` also from its clients, until [`Etcd::heal`].
    pub fn cut_off(&self, member: usize, alone: bool) {
        let network = self.network.as_ref().expect("a network that can be cut");
        network.cut(member, Side::Peers);
        if alone {
            network.cut(member, Side::Clients);
        }
    }

    /// Makes the next call of a client with this text lose its answer: it is carried out, and then its connection
    /// breaks.
    pub fn lose_answer(&self, text: &str) {
        self.network.as_ref().expect("a network that can be cut").lose_answer(text.as_bytes());
    }

    /// Returns true once the answer was lost.
    #[must_use]
    pub fn has_lost_answer(&self) -> bool {
        self.network.as_ref().expect("a network that can be cut").has_lost_answer()
    }

    /// Restores the network.
    pub fn heal(&self) {
        self.network.as_ref().expect("a network that can be cut").heal();
    }

    /// Returns the disk of all members, if it can be slow.
    #[must_use]
    pub fn disk(&self) -> Option<&FaultyDisk> {
        self.disk.as_ref()
    }

    /// Returns the leader, as `etcdctl` reports it.
    #[must_use]
    pub fn leader(&self) -> usize {
        wait_blocking(READY, "the cluster has a leader", || {
            (0..self.members.len()).find(|member| {
                let status = self.ctl(*member, &["endpoint", "status", "--write-out=simple"]);
                status.split(", ").any(|word| word == "true")
            })
        })
    }

    /// Returns the output of `etcdctl` for a member.
    #[must_use]
    pub fn ctl(&self, member: usize, arguments: &[&str]) -> String {
        let output = self.etcdctl(member).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Puts a value under a key.
    pub fn put(&self, key: &str, value: &[u8]) {
        assert!(self.try_put(key, value));
    }

    /// Puts a value under a key. Returns true if etcd is known to have accepted it.
    pub fn try_put(&self, key: &str, value: &[u8]) -> bool {
        let mut command = self.etcdctl(0);
        command.args(["put", key]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), value).unwrap();
        child.wait().unwrap().success()
    }

    /// Returns the bytes under a key, empty if there are none.
    #[must_use]
    pub fn value(&self, key: &str) -> Vec<u8> {
        let mut value = self.etcdctl(0).args(["get", key, "--print-value-only"]).output().unwrap().stdout;
        // `etcdctl` adds a line end.
        value.pop();
        value
    }

    fn etcdctl(&self, member: usize) -> Command {
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.members[member].endpoint))
            .args(&self.identity);
        command
    }

    fn signal(&self, member: usize, signal: Signal) {
        if let Some(child) = &self.members[member].child {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    fn log(&self, member: usize) -> std::path::PathBuf {
        self.temp.path().join(format!("m{member}.log"))
    }

    fn spawn(&mut self, member: usize) {
        let log = std::fs::File::create(self.log(member)).unwrap();
        let mut command = Command::new("etcd");
        command.args(&self.members[member].arguments).stdin(Stdio::null());
        if let Some(disk) = &self.disk {
            command = disk.under(&command);
        }
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.members[member].child = Some(command.spawn().unwrap());
    }

    fn wait_ready(&mut self, member: usize) {
        let log = self.log(member);
        let child = self.members[member].child.as_mut().unwrap();
        wait_blocking(READY, "etcd is ready", || {
            let said = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
            if let Some(status) = child.try_wait().unwrap() {
                panic!("etcd ended with {status}: {said}");
            }
            said.contains("ready to serve client requests").then_some(())
        });
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}

/// Returns the program for snapshots, which is a separate one in newer releases.
fn snapshots() -> Command {
    let own = Command::new("etcdutl").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let mut command = Command::new(if own { "etcdutl" } else { "etcdctl" });
    command.env("ETCDCTL_API", "3").arg("snapshot");
    command
}
