//! Descriptions of enum values, which the dependency lacks.

use binnacle_schema::{Field, Message};

/// Returns the description of a field's value, if there is one.
pub(crate) fn value(message: &Message, field: &Field, value: &str) -> Option<&'static str> {
    let kind = message.name.rsplit('.').next().unwrap_or(&message.name);
    let mut of_field = VALUES.iter().filter(|values| values.field == field.name);
    let of_kind = of_field.clone().find(|values| values.kind == kind);
    let values = of_kind.or_else(|| of_field.find(|values| values.kind.is_empty()))?;
    values.descriptions.iter().find(|(known, _)| *known == value).map(|(_, descriptions)| *descriptions)
}

/// The values of a field, in one kind or in all other kinds.
struct Values {
    kind: &'static str,
    field: &'static str,
    descriptions: &'static [(&'static str, &'static str)],
}

const fn all(field: &'static str, descriptions: &'static [(&'static str, &'static str)]) -> Values {
    Values { kind: "", field, descriptions }
}

const fn of(kind: &'static str, field: &'static str, descriptions: &'static [(&'static str, &'static str)]) -> Values {
    Values { kind, field, descriptions }
}

const VALUES: &[Values] = &[
    of(
        "PodFailurePolicyRule",
        "action",
        &[
            ("Count", "treats the failure as any other: it counts towards backoffLimit."),
            ("FailIndex", "gives up the pod's index and starts no more pods for it. Only with backoffLimitPerIndex."),
            ("FailJob", "fails the whole job and ends its running pods."),
            ("Ignore", "starts another pod, and the failure does not count towards backoffLimit."),
        ],
    ),
    all(
        "addressType",
        &[("FQDN", "is a domain name."), ("IPv4", "is an IPv4 address."), ("IPv6", "is an IPv6 address.")],
    ),
    all(
        "completionMode",
        &[
            ("Indexed", "gives every pod an index from 0 to completions - 1; the job is complete when each index is."),
            ("NonIndexed", "makes no difference between pods; the job is complete when enough of them have succeeded."),
        ],
    ),
    all(
        "concurrencyPolicy",
        &[
            ("Allow", "lets jobs run at the same time."),
            ("Forbid", "leaves a run out while the one before is not finished."),
            ("Replace", "ends the running job and starts the new one in its place."),
        ],
    ),
    all(
        "dnsPolicy",
        &[
            (
                "ClusterFirst",
                "asks the cluster's DNS, then what the kubelet has by default; with hostNetwork only the latter.",
            ),
            (
                "ClusterFirstWithHostNet",
                "asks the cluster's DNS, then what the kubelet has by default, with hostNetwork too.",
            ),
            ("Default", "asks what the kubelet has by default."),
            ("None", "asks nobody but those that dnsConfig names."),
        ],
    ),
    of("DeviceTaint", "effect", DEVICE_EFFECTS),
    of("DeviceToleration", "effect", DEVICE_EFFECTS),
    all(
        "effect",
        &[
            ("NoExecute", "keeps pods that do not tolerate it away, and evicts those that run already."),
            ("NoSchedule", "keeps new pods that do not tolerate it away; those that run already go on."),
            (
                "PreferNoSchedule",
                "makes the scheduler look for another node first, and take this one if there is none.",
            ),
        ],
    ),
    all(
        "externalTrafficPolicy",
        &[
            ("Cluster", "goes to endpoints everywhere."),
            (
                "Local",
                "goes only to endpoints on the node where it arrived, which keeps the address of the client; without any it is dropped.",
            ),
        ],
    ),
    all(
        "failurePolicy",
        &[
            ("Fail", "refuses the request when the call or the evaluation fails."),
            ("Ignore", "goes on as if there had been nothing to ask when the call or the evaluation fails."),
        ],
    ),
    all(
        "fsGroupChangePolicy",
        &[
            ("Always", "changes owner and permissions each time that the volume is mounted. This is the default."),
            (
                "OnRootMismatch",
                "changes them only if those of the volume's root are not as they should be, which saves time.",
            ),
        ],
    ),
    all("imagePullPolicy", PULL),
    all("pullPolicy", PULL),
    all(
        "internalTrafficPolicy",
        &[
            ("Cluster", "goes to endpoints everywhere."),
            ("Local", "goes only to endpoints on the node of the client; without any it is dropped."),
        ],
    ),
    all(
        "ipFamilyPolicy",
        &[
            ("PreferDualStack", "takes both families where the cluster has them, and one where it has not."),
            ("RequireDualStack", "takes both families, and is refused where the cluster has only one."),
            ("SingleStack", "takes one family: the first of ipFamilies, or else the cluster's default."),
        ],
    ),
    all(
        "matchPolicy",
        &[
            ("Equivalent", "matches as well when the same resource is asked for by another group or version."),
            ("Exact", "matches only the groups and versions in the rules."),
        ],
    ),
    all(
        "mountPropagation",
        &[
            (
                "Bidirectional",
                "shows later mounts of the host in the container and those of the container on the host (rshared).",
            ),
            ("HostToContainer", "shows later mounts of the host in the container, not the other way round (rslave)."),
            ("None", "shows no later mounts, neither way (private)."),
        ],
    ),
    all("nodeAffinityPolicy", SPREAD),
    all("nodeTaintsPolicy", SPREAD),
    all(
        "patchType",
        &[
            ("ApplyConfiguration", "changes the object by server-side apply."),
            ("JSONPatch", "changes the object by a JSON patch."),
        ],
    ),
    all(
        "pathType",
        &[
            ("Exact", "matches this path and no other, case included."),
            ("ImplementationSpecific", "leaves it to the ingress class, which may treat it as one of the others."),
            (
                "Prefix",
                "matches paths that begin with the same elements, case included: /foo matches /foo, /foo/ and /foo/bar, but \
                 not /foobar. The longest path that matches counts.",
            ),
        ],
    ),
    all("persistentVolumeReclaimPolicy", RECLAIM),
    all("reclaimPolicy", RECLAIM),
    of(
        "NamespaceStatus",
        "phase",
        &[("Active", "can be used."), ("Terminating", "is being deleted, with everything in it.")],
    ),
    of(
        "NodeStatus",
        "phase",
        &[
            ("Pending", "was added and is not configured yet."),
            ("Running", "is configured and runs what a node needs."),
            ("Terminated", "has been removed from the cluster."),
        ],
    ),
    of(
        "PersistentVolumeClaimStatus",
        "phase",
        &[
            ("Bound", "has a volume."),
            ("Lost", "had a volume that is gone, with all data on it."),
            ("Pending", "has no volume yet."),
        ],
    ),
    of(
        "PersistentVolumeStatus",
        "phase",
        &[
            ("Available", "waits for a claim."),
            ("Bound", "has a claim."),
            ("Failed", "could not be deleted or cleaned after its claim had gone."),
            ("Pending", "cannot be used yet."),
            ("Released", "has lost its claim and has to be reclaimed before there can be another."),
        ],
    ),
    of(
        "PodStatus",
        "phase",
        &[
            ("Failed", "All containers have ended, at least one of them with an error or by the system's hand."),
            ("Pending", "The pod waits: for a node, for images, or for some container to start."),
            ("Running", "The pod has a node, all containers were started, and at least one runs or is started again."),
            ("Succeeded", "All containers have ended well and are not started again."),
            ("Unknown", "Nothing is known about the pod. No longer in use."),
        ],
    ),
    all(
        "podManagementPolicy",
        &[
            (
                "OrderedReady",
                "makes pods one after the other, each when the one before is ready, and removes them in reverse.",
            ),
            ("Parallel", "makes and removes pods all at once."),
        ],
    ),
    all(
        "podReplacementPolicy",
        &[
            ("Failed", "starts another pod once the one before has ended."),
            ("TerminatingOrFailed", "starts another pod as soon as the one before is being deleted or has failed."),
        ],
    ),
    all(
        "preemptionPolicy",
        &[
            ("Never", "waits for room and takes it from nobody."),
            ("PreemptLowerPriority", "may displace pods of lower priority."),
        ],
    ),
    all(
        "procMount",
        &[
            ("Default", "hides the parts of /proc that the container runtime hides, or makes them read-only."),
            ("Unmasked", "shows all of /proc."),
        ],
    ),
    all("protocol", &[("SCTP", "is SCTP."), ("TCP", "is TCP."), ("UDP", "is UDP.")]),
    all(
        "qosClass",
        &[
            ("BestEffort", "has neither requests nor limits."),
            ("Burstable", "has requests or limits, but not everywhere the same."),
            ("Guaranteed", "has limits everywhere, and requests that are the same."),
        ],
    ),
    of(
        "ValidationRule",
        "reason",
        &[
            ("FieldValueDuplicate", "The value is there already and must be there only once."),
            ("FieldValueForbidden", "The value is well formed and not allowed here."),
            ("FieldValueInvalid", "The value is malformed, too long or out of bounds."),
            ("FieldValueRequired", "The value is missing or empty."),
        ],
    ),
    all(
        "reinvocationPolicy",
        &[("IfNeeded", "may be asked again when others have changed the object since."), ("Never", "is asked once.")],
    ),
    all("scheme", &[("HTTP", "stands for http://."), ("HTTPS", "stands for https://.")]),
    of("NamedRuleWithOperations", "scope", SCOPES),
    of("RuleWithOperations", "scope", SCOPES),
    all(
        "scopeName",
        &[
            ("BestEffort", "Pods without requests and limits."),
            ("CrossNamespacePodAffinity", "Pods with affinity or anti-affinity across namespaces."),
            ("NotBestEffort", "Pods with requests or limits."),
            ("NotTerminating", "Pods without activeDeadlineSeconds."),
            ("PriorityClass", "Pods that name a priority class."),
            ("Terminating", "Pods with activeDeadlineSeconds."),
            ("VolumeAttributesClass", "Claims that name a class of volume attributes."),
        ],
    ),
    all(
        "sessionAffinity",
        &[
            ("ClientIP", "leads a client's address to the same pod again."),
            ("None", "leads every connection anywhere."),
        ],
    ),
    all(
        "sideEffects",
        &[
            ("None", "changes nothing beside the object."),
            ("NoneOnDryRun", "may change something, but not for a dry run."),
            ("Some", "may change something; a dry run that it would be asked about is refused."),
            ("Unknown", "may do anything; a dry run that it would be asked about is refused."),
        ],
    ),
    of(
        "ModifyVolumeStatus",
        "status",
        &[
            ("InProgress", "The volume is being changed."),
            (
                "Infeasible",
                "The driver has refused the change: name a class of volume attributes that it can carry out.",
            ),
            ("Pending", "Something is missing, such as the class of volume attributes that is named."),
        ],
    ),
    all(
        "supplementalGroupsPolicy",
        &[
            ("Merge", "adds the groups that the image gives the container's user in /etc/group."),
            ("Strict", "takes only the groups of the security context, whatever is in the image."),
        ],
    ),
    all(
        "terminationMessagePolicy",
        &[
            ("FallbackToLogsOnError", "takes the end of the log when the file is empty and the container has failed."),
            ("File", "takes what is in the file at terminationMessagePath. This is the default."),
        ],
    ),
    of(
        "DaemonSetUpdateStrategy",
        "type",
        &[
            ("OnDelete", "Replaces a pod when somebody has deleted it."),
            ("RollingUpdate", "Replaces the pods by new ones, node after node."),
        ],
    ),
    of(
        "DeploymentStrategy",
        "type",
        &[
            ("Recreate", "Ends all old pods before the first new one starts."),
            (
                "RollingUpdate",
                "Replaces old pods by new ones step by step: one replica set shrinks while the other grows.",
            ),
        ],
    ),
    of(
        "StatefulSetUpdateStrategy",
        "type",
        &[
            ("OnDelete", "Replaces a pod when somebody has deleted it; a scaled set keeps its current revision."),
            (
                "RollingUpdate",
                "Replaces the pods one after the other in the order of the set, scaled ones with the new revision.",
            ),
        ],
    ),
    of(
        "AppArmorProfile",
        "type",
        &[
            ("Localhost", "is a profile that the node has loaded."),
            ("RuntimeDefault", "is the profile of the container runtime."),
            ("Unconfined", "is no profile."),
        ],
    ),
    of(
        "HostPathVolumeSource",
        "type",
        &[
            ("", "Nothing is looked at. This is the default."),
            ("BlockDevice", "A block device must be there."),
            ("CharDevice", "A character device must be there."),
            ("Directory", "A directory must be there."),
            ("DirectoryOrCreate", "A directory is made where there is nothing: mode 0755, owned as the kubelet is."),
            ("File", "A file must be there."),
            ("FileOrCreate", "An empty file is made where there is nothing: mode 0644, owned as the kubelet is."),
            ("Socket", "A UNIX socket must be there."),
        ],
    ),
    of(
        "SeccompProfile",
        "type",
        &[
            ("Localhost", "is a profile in a file of the node, below the directory seccomp of the kubelet."),
            ("RuntimeDefault", "is the profile of the container runtime."),
            ("Unconfined", "is no profile."),
        ],
    ),
    of(
        "ServiceSpec",
        "type",
        &[
            ("ClusterIP", "has an address inside of the cluster."),
            (
                "ExternalName",
                "is another name for a host, which the cluster's DNS tells as CNAME; nothing is forwarded.",
            ),
            ("LoadBalancer", "is reached through a load balancer of the environment, and as with NodePort."),
            ("NodePort", "is reached through one port of every node, and as with ClusterIP."),
        ],
    ),
    all(
        "unhealthyPodEvictionPolicy",
        &[
            (
                "AlwaysAllow",
                "lets running pods that are not healthy be evicted at any time; they may never become healthy.",
            ),
            (
                "IfHealthyBudget",
                "lets running pods that are not healthy be evicted only while enough others are healthy.",
            ),
        ],
    ),
    all(
        "volumeBindingMode",
        &[
            ("Immediate", "finds or makes a volume at once. This is the default."),
            ("WaitForFirstConsumer", "finds or makes a volume when the first pod that needs it is scheduled."),
        ],
    ),
    all(
        "volumeMode",
        &[("Block", "is given to the pod as a raw device."), ("Filesystem", "has a file system, or gets one.")],
    ),
    all(
        "whenUnsatisfiable",
        &[
            ("DoNotSchedule", "leaves the pod waiting."),
            ("ScheduleAnyway", "takes the node that keeps the skew smallest."),
        ],
    ),
];

const DEVICE_EFFECTS: &[(&str, &str)] = &[
    ("NoExecute", "keeps pods that do not tolerate it away from the device, and evicts those that use it already."),
    ("NoSchedule", "keeps new pods that do not tolerate it away from the device; those that use it already go on."),
    ("None", "has no effect and only informs."),
];

const PULL: &[(&str, &str)] = &[
    ("Always", "asks for the newest image each time; without an answer the container fails."),
    ("IfNotPresent", "fetches the image if the node does not have it; without an answer the container fails."),
    ("Never", "takes the image that the node has; without one the container fails."),
];

const RECLAIM: &[(&str, &str)] = &[
    ("Delete", "removes the volume once its claim is gone. The volume's plugin must be able to."),
    ("Recycle", "empties the volume once its claim is gone, for another claim. The volume's plugin must be able to."),
    ("Retain", "leaves the volume to the administrator once its claim is gone."),
];

const SCOPES: &[(&str, &str)] = &[
    ("*", "stands for both."),
    ("Cluster", "stands for objects without a namespace, namespaces included."),
    ("Namespaced", "stands for objects in a namespace."),
];

const SPREAD: &[(&str, &str)] = &[
    ("Honor", "leaves such nodes out when the skew is computed."),
    ("Ignore", "counts all nodes when the skew is computed."),
];

#[cfg(test)]
mod tests {
    use binnacle_kinds::tables;

    use super::*;

    /// Every description belongs to a value in the field tables.
    #[test]
    fn describes_only_values_of_the_tables() {
        for values in VALUES {
            let messages: Vec<_> = tables::messages()
                .filter(|message| values.kind.is_empty() || message.name.ends_with(&format!(".{}", values.kind)))
                .collect();
            let fields: Vec<_> = messages
                .iter()
                .flat_map(|message| message.fields.iter())
                .filter(|field| field.name == values.field)
                .collect();
            for (value, _) in values.descriptions {
                let known = fields.iter().any(|field| field.values.iter().any(|known| known == value));
                assert!(known, "{} {} {value}", values.kind, values.field);
            }
        }
    }

    #[test]
    fn prefers_descriptions_of_the_kind() {
        for (definition, field, value, want) in [
            ("io.k8s.api.apps.v1.DeploymentStrategy", "type", "Recreate", Some("Ends all old pods")),
            ("io.k8s.api.core.v1.Taint", "effect", "NoExecute", Some("keeps pods that do not tolerate it away, and")),
            (
                "io.k8s.api.resource.v1.DeviceTaint",
                "effect",
                "NoExecute",
                Some("keeps pods that do not tolerate it away from"),
            ),
            ("io.k8s.api.core.v1.PodSpec", "restartPolicy", "Always", None),
        ] {
            let message = tables::message(definition).unwrap();
            let field = message.fields.iter().find(|known| known.name == field).unwrap();
            let got = super::value(message, field, value);
            assert_eq!(got.is_some(), want.is_some(), "{definition}");
            assert!(got.unwrap_or("").starts_with(want.unwrap_or("")), "{got:?}");
        }
    }
}
