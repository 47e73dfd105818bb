//! An image of the server in the layout of the Open Container Initiative, made without a daemon: the program, the
//! shared libraries that it needs, certificate authorities, and users. It contains no shell and nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::archive::Tree;
use super::{Release, SERVER, libraries, sha256};
use crate::gzip::pack;

/// The user ID of `nonroot` in distroless images.
const USER: u64 = 65532;
const PASSWD: &str = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";
/// The authorities that outgoing connections (webhooks, token issuers) trust, unless a flag names others.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
const DATA: &str = "var/lib/binnacle";

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The contents of an image.
pub(super) struct Image<'r> {
    release: &'r Release,
    libraries: BTreeMap<String, Vec<u8>>,
}

impl<'r> Image<'r> {
    pub(super) fn of(release: &'r Release) -> Result<Self, String> {
        let libraries = libraries::all(release.program(SERVER)?, &release.sysroot, &release.target)?;
        Ok(Self { release, libraries })
    }

    /// Returns the path and bytes of each shared library in the image.
    pub(super) fn libraries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.libraries.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Returns the layout's folder, with two images of the same layers: one that runs as `nonroot`, and one that runs
    /// as root and can read the keys that kubeadm writes for root only.
    pub(super) fn layout(&self) -> Result<Tree, String> {
        let mut blobs = Blobs::default();
        let layers = [self.base()?, self.program()?];
        let mut descriptors = Vec::new();
        let mut contents = Vec::new();
        for layer in &layers {
            let archive = layer.tar(self.release.epoch, "")?;
            contents.push(format!("sha256:{}", sha256(&archive)));
            descriptors.push(blobs.add(LAYER, pack(&archive, self.release.effort)?));
        }
        let mut manifests = Vec::new();
        for (name, user) in [(self.release.version.clone(), USER), (format!("{}-root", self.release.version), 0)] {
            let config = blobs.add_json(CONFIG, &self.config(user, &contents)?);
            let manifest = json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config,
                "layers": descriptors,
                "annotations": self.labels()?,
            });
            let mut descriptor = blobs.add_json(MANIFEST, &manifest);
            descriptor["platform"] = json!({"architecture": self.release.target.debian, "os": "linux"});
            descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
            manifests.push(descriptor);
        }
        Ok(blobs.layout(&manifests))
    }

    /// Returns the layer that changes seldom.
    fn base(&self) -> Result<Tree, String> {
        let mut layer = Tree::default();
        layer.file("etc/passwd", 0o644, PASSWD.into());
        layer.file("etc/group", 0o644, GROUP.into());
        if let Ok(authorities) = std::fs::read(self.release.sysroot.join(AUTHORITIES)) {
            layer.file(AUTHORITIES, 0o644, authorities);
        }
        for (path, bytes) in &self.libraries {
            layer.file(path.trim_start_matches('/'), 0o755, bytes.clone());
        }
        layer.folder("home/nonroot", 0o700, USER);
        layer.folder("tmp", 0o1777, 0);
        layer.folder(DATA, 0o700, USER);
        Ok(layer)
    }

    fn program(&self) -> Result<Tree, String> {
        let mut layer = Tree::default();
        // The path in upstream's image: kubeadm's manifests start the server by its name.
        layer.file(&format!("usr/local/bin/{SERVER}"), 0o755, self.release.program(SERVER)?.to_vec());
        layer.file("usr/share/doc/binnacle/LICENSE", 0o644, self.release.licence.clone());
        layer.file("usr/share/doc/binnacle/NOTICE", 0o644, self.release.notice.clone());
        Ok(layer)
    }

    fn config(&self, user: u64, layers: &[String]) -> Result<Value, String> {
        let date = self.release.date()?;
        let history: Vec<_> = ["libraries, users, authorities", SERVER]
            .map(|what| json!({"created": date, "created_by": "cargo xtask dist", "comment": what}))
            .into();
        let data = Path::new("/").join(DATA);
        Ok(json!({
            "created": date,
            "architecture": self.release.target.debian,
            "os": "linux",
            "config": {
                "User": format!("{user}:{user}"),
                "ExposedPorts": {"6443/tcp": {}},
                "Env": [
                    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
                    // The server's data directory is its subfolder `binnacle`.
                    "XDG_DATA_HOME=/var/lib",
                ],
                "Entrypoint": [format!("/usr/local/bin/{SERVER}")],
                // A container's loopback address cannot be reached from outside.
                "Cmd": ["--bind-address=0.0.0.0"],
                "Volumes": {data.to_string_lossy(): {}},
                "WorkingDir": "/",
                "StopSignal": "SIGTERM",
                "Labels": self.labels()?,
            },
            "rootfs": {"type": "layers", "diff_ids": layers},
            "history": history,
        }))
    }

    /// Returns the image's labels, which are annotations of the specification.
    fn labels(&self) -> Result<Value, String> {
        let mut labels = json!({
            "org.opencontainers.image.title": SERVER,
            "org.opencontainers.image.description": "Binnacle: a Kubernetes API server with a durable store in one process",
            "org.opencontainers.image.version": self.release.version,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.source": self.release.repository,
            "org.opencontainers.image.created": self.release.date()?,
        });
        if let Some(revision) = &self.release.revision {
            labels["org.opencontainers.image.revision"] = json!(revision);
        }
        Ok(labels)
    }
}

/// Blobs by digest.
#[derive(Default)]
pub(crate) struct Blobs(Tree);

impl Blobs {
    /// Adds a blob, and returns its descriptor.
    fn add(&mut self, kind: &str, bytes: Vec<u8>) -> Value {
        let (size, digest) = (bytes.len(), sha256(&bytes));
        self.0.file(&format!("blobs/sha256/{digest}"), 0o644, bytes);
        json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": size})
    }

    pub(crate) fn add_json(&mut self, kind: &str, document: &Value) -> Value {
        self.add(kind, document.to_string().into_bytes())
    }

    /// Adds a blob of another layout by its path.
    pub(crate) fn insert(&mut self, path: &str, bytes: &[u8]) {
        self.0.file(path, 0o644, bytes.to_vec());
    }

    /// Returns the folder of a layout with these images.
    pub(crate) fn layout(self, images: &[Value]) -> Tree {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images});
        let mut layout = self.0;
        layout.file("index.json", 0o644, index.to_string().into_bytes());
        layout.file("oci-layout", 0o644, json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes());
        layout
    }
}
