//! Flags for the storage of objects.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use binnacle_apiserver::settings::{Etcd, Storage, WriterAddress};
use binnacle_meta::{GroupResource, go_quote};
use binnacle_registry::UncachedResources;

use super::FromFlags;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Storage",
    flags: &[
        Flag::new(
            "data-dir",
            ValueKind::Value("string"),
            "",
            "Directory of the embedded store, of the server's own certificates and keys, and of admin.kubeconfig. It \
             is created if it does not exist. If not set: /var/lib/binnacle for root, otherwise binnacle in \
             $XDG_DATA_HOME or ~/.local/share.",
        ),
        Flag::new(
            "delete-collection-workers",
            ValueKind::Value("int"),
            "1",
            "Number of workers that delete the objects of a collection in parallel, at least 1. It speeds up the \
             cleanup of namespaces.",
        ),
        Flag::new(
            "enable-garbage-collector",
            ValueKind::Bool,
            "true",
            "Set the finalizers of the garbage collector on objects that are deleted with the propagation policy \
             Orphan or Foreground. Must equal the flag of the same name of kube-controller-manager.",
        ),
        Flag::new(
            "encryption-provider-config",
            ValueKind::Value("string"),
            "",
            "File with an EncryptionConfiguration: the resources to encrypt at rest, and the providers and keys for \
             them.",
        ),
        Flag::new(
            "encryption-provider-config-automatic-reload",
            ValueKind::Bool,
            "",
            "Reload the file of --encryption-provider-config when it changes. All KMS plugins then share one health \
             check, kms-providers.",
        ),
        Flag::new(
            "ephemeral",
            ValueKind::Bool,
            "",
            "Keep all objects in memory only: they are lost when the server stops. Certificates and keys are kept \
             only if --data-dir is set.",
        ),
        Flag::new(
            "etcd-cafile",
            ValueKind::Value("string"),
            "",
            "File with the certificate authorities (PEM) for the serving certificates of etcd. If not set, those of \
             the system.",
        ),
        Flag::new(
            "etcd-certfile",
            ValueKind::Value("string"),
            "",
            "File with the TLS client certificate for etcd. It is reloaded for each connection.",
        ),
        Flag::new(
            "etcd-compaction-interval",
            ValueKind::Value("duration"),
            "5m0s",
            "Interval of compaction: each one removes the history of all objects before the revision that was current \
             one interval earlier. 0 turns compaction off.",
        ),
        Flag::new(
            "etcd-count-metric-poll-period",
            ValueKind::Value("duration"),
            "1m0s",
            "Interval at which the stored objects of each resource are counted for metrics. 0 turns it off.",
        ),
        Flag::new(
            "etcd-db-metric-poll-interval",
            ValueKind::Value("duration"),
            "30s",
            "Interval at which the size of the etcd database, or of the embedded store, is polled for metrics. 0 \
             turns it off.",
        ),
        Flag::new(
            "etcd-healthcheck-timeout",
            ValueKind::Value("duration"),
            "2s",
            "Timeout of the health check 'etcd' of the store. 0 means 2s.",
        ),
        Flag::new(
            "etcd-keyfile",
            ValueKind::Value("string"),
            "",
            "File with the TLS client key for etcd. Required with --etcd-certfile.",
        ),
        Flag::new("etcd-prefix", ValueKind::Value("string"), "/registry", "Prefix of the keys of all objects in etcd."),
        Flag::new(
            "etcd-readycheck-timeout",
            ValueKind::Value("duration"),
            "2s",
            "Timeout of the readiness check 'etcd-readiness' of the store. 0 means 2s.",
        ),
        Flag::new(
            "etcd-servers",
            ValueKind::Value("strings"),
            "",
            "Client URLs of the members of an etcd cluster (scheme://host:port), comma-separated. Objects are stored \
             there instead of in the embedded store, and several API servers can share them.",
        ),
        Flag::new(
            "etcd-servers-overrides",
            ValueKind::Value("strings"),
            "",
            "etcd servers for single resources, comma-separated: group/resource#servers, where servers are URLs \
             separated by semicolons, as in \"/events#http://etcd4:2379;http://etcd5:2379\".",
        ),
        Flag::new(
            "event-ttl",
            ValueKind::Value("duration"),
            "1h0m0s",
            "Time for which events (Event objects) are retained.",
        ),
        Flag::new(
            "forward-writes-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the certificate authorities (PEM) of the server of --forward-writes-to. It is reloaded when it \
             changes.",
        ),
        Flag::new(
            "forward-writes-to",
            ValueKind::Value("string"),
            "",
            "URL of the kube-apiserver that writes the etcd cluster, as in \"https://10.0.0.1:6443\". A server with \
             --read-only forwards the requests to it that it would otherwise refuse, under the caller's identity. \
             Requires --forward-writes-ca-file, --proxy-client-cert-file and --proxy-client-key-file: the other server \
             must accept the client certificate for its --requestheader-client-ca-file.",
        ),
        Flag::new(
            "history-retention",
            ValueKind::Value("duration"),
            "0s",
            "Time for which the history of all objects is kept, instead of one --etcd-compaction-interval, and served: \
             reads below /at/REVISION show all objects as they were at this revision of the store, to users who may get \
             the path /at. 0 turns it off.",
        ),
        Flag::new(
            "lease-reuse-duration-seconds",
            ValueKind::Value("int"),
            "60",
            "Time in seconds for which one etcd lease is reused for new objects with a TTL, such as events. A shorter \
             time means more leases.",
        ),
        Flag::new(
            "read-only",
            ValueKind::Bool,
            "",
            "Serve reads, watches, access reviews and metrics from the etcd cluster of --etcd-servers, which another \
             kube-apiserver writes, and write nothing there. All other requests are refused, or forwarded with \
             --forward-writes-to.",
        ),
        Flag::new(
            "storage-backend",
            ValueKind::Value("string"),
            "",
            "Storage backend of --etcd-servers. The only one is 'etcd3', the default.",
        ),
        Flag::new(
            "storage-media-type",
            ValueKind::Value("string"),
            PROTOBUF,
            "Media type in which objects are stored: application/json, application/yaml or \
             application/vnd.kubernetes.protobuf. Objects that are stored in another one are still read.",
        ),
        Flag::new(
            "watch-cache",
            ValueKind::Bool,
            "true",
            "Serve get and list requests from the watch cache. If false, they read the store; watches use the watch \
             cache in either case.",
        ),
        Flag::new(
            "watch-cache-sizes",
            ValueKind::Value("strings"),
            "",
            "Watch cache settings of single resources, comma-separated: resource[.group]#size. Size 0 reads the \
             resource from the store; any other size means the watch cache, whose size is dynamic.",
        ),
    ],
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Reads the server that gets the writes of a read-only server.
fn writer(flags: &FlagSet, read_only: bool) -> Result<Option<WriterAddress>, FlagError> {
    let value = |name: &str| flags.text(name).filter(|value| !value.is_empty());
    let Some(url) = value("forward-writes-to") else { return Ok(None) };
    if !read_only {
        return Err(FlagError::new("--forward-writes-to requires --read-only"));
    }
    let parsed =
        url.parse().map_err(|error| FlagError::new(format!("--forward-writes-to {}: {error}", go_quote(url))))?;
    for name in ["proxy-client-cert-file", "proxy-client-key-file"] {
        if value(name).is_none() {
            return Err(FlagError::new(format!("--forward-writes-to requires --{name}")));
        }
    }
    let ca_file = value("forward-writes-ca-file")
        .ok_or_else(|| FlagError::new("--forward-writes-to requires --forward-writes-ca-file"))?;
    Ok(Some(WriterAddress { url: parsed, ca_file: ca_file.into() }))
}

impl FromFlags for Storage {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let ephemeral = flags.flag("ephemeral")?;
        let etcd: Option<Etcd> = FromFlags::read(flags)?;
        if ephemeral && etcd.is_some() {
            return Err(FlagError::new("--ephemeral and --etcd-servers cannot be given together"));
        }
        let read_only = flags.flag("read-only")?;
        if read_only && etcd.is_none() {
            return Err(FlagError::new("--read-only requires --etcd-servers"));
        }
        if flags.text("storage-backend").is_some_and(|backend| backend != "etcd3") {
            return Err(FlagError::new(
                "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
            ));
        }
        // Ignored, but validated.
        flags.integer("default-watch-cache-size")?;
        let media_type = flags.text("storage-media-type").unwrap_or(PROTOBUF);
        let media_type = media_type.parse().map_err(|()| {
            FlagError::new(format!(
                "--storage-media-type {media_type:?} invalid, allowed values: application/json, {PROTOBUF}, application/yaml"
            ))
        })?;
        let encryption_file =
            flags.text("encryption-provider-config").filter(|path| !path.is_empty()).map(PathBuf::from);
        let encryption_reload = flags.flag("encryption-provider-config-automatic-reload")?;
        if encryption_reload && encryption_file.is_none() {
            return Err(FlagError::new(
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
            ));
        }
        let number = |name: &str| flags.integer(name).map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Self {
            data_dir: flags.text("data-dir").map(PathBuf::from),
            ephemeral,
            etcd,
            read_only,
            writer: writer(flags, read_only)?,
            encryption_file,
            encryption_reload,
            compaction_interval: interval(flags, "etcd-compaction-interval")?,
            history_retention: history_retention(flags, read_only)?,
            count_metric_interval: interval(flags, "etcd-count-metric-poll-period")?,
            size_metric_interval: interval(flags, "etcd-db-metric-poll-interval")?,
            // As in kube-apiserver, zero means the default.
            health_timeout: interval(flags, "etcd-healthcheck-timeout")?.unwrap_or(DEFAULT_TIMEOUT),
            ready_timeout: interval(flags, "etcd-readycheck-timeout")?.unwrap_or(DEFAULT_TIMEOUT),
            media_type,
            uncached: uncached(flags)?,
            garbage_collector: flags.flag("enable-garbage-collector")?,
            delete_workers: usize::try_from(number("delete-collection-workers")?).unwrap_or(usize::MAX).max(1),
            event_ttl: interval(flags, "event-ttl")?.unwrap_or_default(),
            lease_reuse: Duration::from_secs(number("lease-reuse-duration-seconds")?),
        })
    }
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

impl FromFlags for Option<Etcd> {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let overrides = flags.list("etcd-servers-overrides").into_iter().map(server_override);
        let overrides: HashMap<_, _> = overrides.collect::<Result<_, _>>()?;
        let servers = flags.list("etcd-servers");
        let path = |name| flags.text(name).map(PathBuf::from);
        if servers.is_empty() {
            // Without --etcd-servers, the other flags would have no effect.
            let lost = ["etcd-servers-overrides", "etcd-cafile", "etcd-certfile", "etcd-keyfile"];
            return match lost.iter().find(|name| flags.text(name).is_some()) {
                Some(name) => Err(FlagError::new(format!("--{name} needs --etcd-servers"))),
                None => Ok(None),
            };
        }
        let prefix = flags.text("etcd-prefix").unwrap_or_default().trim_matches('/');
        let root = if prefix.is_empty() { "/".to_owned() } else { format!("/{prefix}/") };
        let (ca_file, cert_file, key_file) = (path("etcd-cafile"), path("etcd-certfile"), path("etcd-keyfile"));
        Ok(Some(Etcd { servers, overrides, ca_file, cert_file, key_file, root }))
    }
}

fn server_override(text: String) -> Result<(GroupResource, Vec<String>), FlagError> {
    let parts = || {
        let (resource, servers) = text.split_once('#')?;
        let (group, resource) = resource.split_once('/')?;
        let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
        let whole = !resource.contains('/') && servers.iter().all(|server| !server.is_empty() && !server.contains('#'));
        whole.then(|| (GroupResource::new(group, resource), servers))
    };
    parts().ok_or_else(|| {
        FlagError::new(
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, \
             semicolon separated",
        )
    })
}

fn uncached(flags: &FlagSet) -> Result<UncachedResources, FlagError> {
    let mut resources = HashSet::new();
    for text in flags.list("watch-cache-sizes") {
        let invalid = || FlagError::new(format!("invalid value of watch cache size: {text}"));
        let (resource, size) = text.split_once('#').filter(|(_, size)| !size.contains('#')).ok_or_else(invalid)?;
        let size: i64 =
            size.parse().map_err(|_| FlagError::new(format!("invalid size of watch cache size: {text}")))?;
        if size < 0 {
            return Err(FlagError::new(format!("watch cache size cannot be negative: {text}")));
        }
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let resource = GroupResource::new(group, resource);
        if size == 0 {
            resources.insert(resource);
        } else {
            resources.remove(&resource);
        }
    }
    Ok(if flags.flag("watch-cache")? { UncachedResources::Some(resources) } else { UncachedResources::All })
}

/// Reads an interval; `None` if it is 0 or, as in kube-apiserver, negative.
fn history_retention(flags: &FlagSet, read_only: bool) -> Result<Option<Duration>, FlagError> {
    let retention = interval(flags, "history-retention")?;
    match retention.is_some() && read_only {
        true => Err(FlagError::new("--history-retention cannot be used with --read-only")),
        false => Ok(retention),
    }
}

fn interval(flags: &FlagSet, name: &str) -> Result<Option<Duration>, FlagError> {
    Ok(Some(flags.duration(name)?).filter(|interval| !interval.is_zero()))
}
