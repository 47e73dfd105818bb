//! The manifests of a typical shop, by kind: `manifests/*.yaml`.

/// A manifest, and kubectl's output for it.
pub(crate) struct Manifest {
    /// The resource with its group, as in kubectl's names.
    pub(crate) resource: &'static str,
    pub(crate) name: &'static str,
    pub(crate) yaml: &'static str,
    /// The column headings and cells of `get -o wide`.
    pub(crate) wide: &'static [&'static str],
    /// Lines in the output of `describe`, with runs of spaces as one.
    pub(crate) describe: &'static [&'static str],
}

impl Manifest {
    /// Returns `resource/name`, which every command accepts.
    pub(crate) fn target(&self) -> String {
        format!("{}/{}", self.resource, self.name)
    }

    /// Returns the manifest for a namespace (an event also contains that of its object).
    pub(crate) fn text(&self, namespace: &str) -> String {
        self.yaml.replace("NAMESPACE", namespace)
    }

    /// Returns true if a new object is stored without a field that is set on reads (the phase of a claim). The next
    /// write stores the field, so it changes the version even without another change, as in kube-apiserver.
    pub(crate) fn completed_when_read(&self) -> bool {
        self.resource == "persistentvolumeclaim"
    }
}

pub(crate) const ALL: &[Manifest] = &[
    Manifest {
        resource: "configmap",
        name: "shop-web",
        yaml: include_str!("../../manifests/configmap.yaml"),
        wide: &["NAME DATA AGE", "shop-web 6 "],
        describe: &["LOG_LEVEL:", "limits.json:", "worker_processes auto;", "favicon.ico: 70 bytes"],
    },
    Manifest {
        resource: "secret",
        name: "shop-db",
        yaml: include_str!("../../manifests/secret.yaml"),
        wide: &["NAME TYPE DATA AGE", "shop-db Opaque 5 "],
        describe: &["Type: Opaque", "POSTGRES_PASSWORD: 28 bytes", "POSTGRES_DB: 4 bytes"],
    },
    Manifest {
        resource: "persistentvolumeclaim",
        name: "shop-media",
        yaml: include_str!("../../manifests/pvc.yaml"),
        wide: &["NAME STATUS VOLUME CAPACITY", "VOLUMEMODE", "shop-media Pending fast <unset> "],
        describe: &["StorageClass: fast", "Status: Pending", "VolumeMode: Filesystem"],
    },
    Manifest {
        resource: "service",
        name: "shop-web",
        yaml: include_str!("../../manifests/service.yaml"),
        wide: &["NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR", "ClusterIP", "443/TCP,9113/TCP"],
        describe: &["Type: ClusterIP", "Port: https 443/TCP", "TargetPort: https/TCP", "Session Affinity: ClientIP"],
    },
    Manifest {
        resource: "ingress.networking.k8s.io",
        name: "shop",
        yaml: include_str!("../../manifests/ingress.yaml"),
        wide: &[
            "NAME CLASS HOSTS ADDRESS PORTS AGE",
            "shop nginx shop.example.com,*.preview.shop.example.com 80, 443 ",
        ],
        describe: &["shop-tls terminates shop.example.com,www.shop.example.com", "/media shop-media:8080"],
    },
    Manifest {
        resource: "deployment.apps",
        name: "shop-web",
        yaml: include_str!("../../manifests/deployment.yaml"),
        wide: &[
            "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR",
            "shop-web 0/3 0 0 ",
            "web,proxy registry.example.com/shop/web:4.12.0,registry.example.com/mirror/nginx:1.29-alpine",
        ],
        describe: &[
            "Replicas: 3 desired | 0 updated | 0 total | 0 available | 0 unavailable",
            "RollingUpdateStrategy: 0 max unavailable, 1 max surge",
            "Readiness: http-get http://:http/ready delay=0s timeout=1s period=5s #success=1 #failure=3",
            "shop-web ConfigMap with prefix 'SHOP_' Optional: false",
        ],
        // Older ones do not support startup probes and prefixes in this form.
    },
    Manifest {
        resource: "statefulset.apps",
        name: "shop-db",
        yaml: include_str!("../../manifests/statefulset.yaml"),
        wide: &["NAME READY AGE CONTAINERS IMAGES", "shop-db 0/2 ", "postgres,exporter"],
        describe: &["Replicas: 2 desired | 0 total", "Partition: 1", "StorageClass: fast", "Capacity: 100Gi"],
    },
    Manifest {
        resource: "daemonset.apps",
        name: "node-metrics",
        yaml: include_str!("../../manifests/daemonset.yaml"),
        wide: &["NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR", "kubernetes.io/os=linux"],
        describe: &["Node-Selector: kubernetes.io/os=linux", "Host Port: 9100/TCP", "Path: /proc"],
    },
    Manifest {
        resource: "job.batch",
        name: "shop-migrate",
        yaml: include_str!("../../manifests/job.yaml"),
        wide: &[
            "NAME ",
            "COMPLETIONS DURATION AGE CONTAINERS IMAGES SELECTOR",
            "0/4",
            "batch.kubernetes.io/controller-uid=",
        ],
        describe: &["Parallelism: 2", "Completions: 4", "Active Deadline Seconds: 1800s"],
    },
    Manifest {
        resource: "cronjob.batch",
        name: "shop-backup",
        yaml: include_str!("../../manifests/cronjob.yaml"),
        wide: &["NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE", "17 3 * * * Europe/Berlin False 0 <none> "],
        describe: &["Schedule: 17 3 * * *", "Concurrency Policy: Forbid", "Starting Deadline Seconds: 600s"],
        // Older ones request batch/v1beta1.
    },
    Manifest {
        resource: "role.rbac.authorization.k8s.io",
        name: "shop-operator",
        yaml: include_str!("../../manifests/role.yaml"),
        wide: &["NAME CREATED AT"],
        describe: &["deployments.apps/scale [] [shop-web] [get update]", "pods/log [] [] [get list watch]"],
    },
    Manifest {
        resource: "rolebinding.rbac.authorization.k8s.io",
        name: "shop-operator",
        yaml: include_str!("../../manifests/rolebinding.yaml"),
        wide: &["NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS", "jane@example.com shop-developers default/shop-operator"],
        describe: &["Name: shop-operator", "ServiceAccount shop-operator default", "Group shop-developers"],
    },
    Manifest {
        resource: "event",
        name: "shop-web.17f0c1d2a3b4c5d6",
        yaml: include_str!("../../manifests/event.yaml"),
        wide: &[
            "LAST SEEN TYPE REASON OBJECT SUBOBJECT SOURCE MESSAGE FIRST SEEN COUNT NAME",
            "Normal ScalingReplicaSet deployment/shop-web deployment-controller Scaled up",
        ],
        describe: &["Reason: ScalingReplicaSet", "Count: 3", "Type: Normal"],
    },
    Manifest {
        resource: "lease.coordination.k8s.io",
        name: "shop-operator",
        yaml: include_str!("../../manifests/lease.yaml"),
        wide: &["NAME HOLDER AGE", "shop-operator shop-operator-7f9c8_0b6f6d1e-2d0a-4d57-8a6f-7d0c5c9d9b31"],
        describe: &["Lease Duration Seconds: 15", "Renew Time: 2026-01-15T08:34:10.654321Z"],
    },
];

/// Returns the text with whitespace collapsed to single spaces, to compare formatted output.
pub(crate) fn squeezed(text: &str) -> String {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}
