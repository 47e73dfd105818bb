complete -c kube-apiserver -l advertise-address -d 'Address under which the rest of the cluster reaches this server: that of the \'kubernetes\' service. If not set, --bind-address, or that of the machine\'s default interface.' -r -f
complete -c kube-apiserver -l cors-allowed-origins -d 'Regular expressions of origins whose scripts may read answers, each with both ends of the host\'s name marked, as in \'//example\\.com(:|$)\'.' -r -f
complete -c kube-apiserver -l emulated-version -d 'The version whose APIs and features the server shows, \'major.minor\', from 1.33 to 1.36. If not set: 1.36.' -r -f
complete -c kube-apiserver -l external-hostname -d 'Host name of this server in documents that name it, and in the certificate that it makes for itself.' -r -f
complete -c kube-apiserver -l feature-gates -d 'Features to turn on or off, separated by commas: \'GenericWorkload=true,kube:StorageVersionHash=false\'. May be given several times. AllAlpha and AllBeta stand for all features of that stage.' -r -f
complete -c kube-apiserver -l goaway-chance -d 'Part of the requests after which an HTTP/2 connection is ended, so that clients spread over several servers: from 0 to 0.02.' -r -f
complete -c kube-apiserver -l livez-grace-period -d 'How long after the start /livez takes what the start has still to do for done.' -r -f
complete -c kube-apiserver -l max-mutating-requests-inflight -d 'How many requests that change something may be in flight, 0 for no limit. With priority and fairness, a part of the total that is shared out.' -r -f
complete -c kube-apiserver -l max-requests-inflight -d 'How many requests that only read may be in flight, 0 for no limit. With priority and fairness, a part of the total that is shared out.' -r -f
complete -c kube-apiserver -l min-compatibility-version -d 'The oldest version of other servers of the cluster, \'major.minor\', from 1.33 to the emulated version: what this server writes, they can read. If not set: the version before the emulated one.' -r -f
complete -c kube-apiserver -l min-request-timeout -d 'Seconds that a watch lasts at least which names no timeout; it is ended at random before twice as many.' -r -f
complete -c kube-apiserver -l request-timeout -d 'How long a request may take that is no watch or stream; clients may ask for less.' -r -f
complete -c kube-apiserver -l shutdown-delay-duration -d 'How long to go on serving after the signal to stop, while /readyz already fails.' -r -f
complete -c kube-apiserver -l shutdown-watch-termination-grace-period -d 'How long watches may take to end when the server stops, beyond the time that they usually need.' -r -f
complete -c kube-apiserver -l storage-initialization-timeout -d 'How long the start waits for the caches of what is stored to be filled.' -r -f
complete -c kube-apiserver -l strict-transport-security-directives -d 'Directives of the Strict-Transport-Security header, for example \'max-age=31536000,includeSubDomains,preload\'.' -r -f
complete -c kube-apiserver -l data-dir -d 'Directory of the objects, of the server\'s own certificates and keys and of admin.kubeconfig. It is created when it does not exist. If not set: /var/lib/binnacle for root, otherwise binnacle in $XDG_DATA_HOME or ~/.local/share.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l delete-collection-workers -d 'How many objects of a collection are deleted at once, as when a namespace is emptied.' -r -f
complete -c kube-apiserver -l encryption-provider-config -d 'File that says which resources are encrypted in the store, and with which keys (EncryptionConfiguration).' -r -F
complete -c kube-apiserver -l etcd-cafile -d 'File with the authorities that etcd\'s certificates must come from. If not set, the system\'s.' -r -F
complete -c kube-apiserver -l etcd-certfile -d 'File with the certificate that is shown to etcd. It is read again for every connection.' -r -F
complete -c kube-apiserver -l etcd-compaction-interval -d 'How often the history of all objects is cut off: at the revision that was current one interval ago. 0 keeps all history.' -r -f
complete -c kube-apiserver -l etcd-count-metric-poll-period -d 'How often the objects of each resource are counted for the metrics. 0 for never.' -r -f
complete -c kube-apiserver -l etcd-db-metric-poll-interval -d 'How often etcd is asked for the size of its database for the metrics. 0 for never.' -r -f
complete -c kube-apiserver -l etcd-healthcheck-timeout -d 'How long the store may take to answer the health check \'etcd\'.' -r -f
complete -c kube-apiserver -l etcd-keyfile -d 'File with the key that belongs to --etcd-certfile.' -r -F
complete -c kube-apiserver -l etcd-prefix -d 'How the keys of all objects in etcd begin.' -r -f
complete -c kube-apiserver -l etcd-readycheck-timeout -d 'How long the store may take to answer the health check \'etcd-readiness\'.' -r -f
complete -c kube-apiserver -l etcd-servers -d 'URLs of the members of an etcd cluster, separated by commas. The objects are kept there instead of in the data directory, and several servers may share them.' -r -f
complete -c kube-apiserver -l etcd-servers-overrides -d 'Resources that are kept in other etcd clusters, separated by commas: group/resource#URLs, the URLs separated by semicolons, as in "/events#http://etcd4:2379;http://etcd5:2379".' -r -f
complete -c kube-apiserver -l event-ttl -d 'How long events are kept.' -r -f
complete -c kube-apiserver -l lease-reuse-duration-seconds -d 'For how many seconds new events are given the same lease of the store.' -r -f
complete -c kube-apiserver -l storage-backend -d 'The kind of store behind --etcd-servers. There is one: etcd3.' -r -f
complete -c kube-apiserver -l storage-media-type -d 'The form in which objects are stored: application/json, application/yaml or application/vnd.kubernetes.protobuf. Those that are stored in another form are read all the same.' -r -f
complete -c kube-apiserver -l watch-cache-sizes -d 'Resources that are to be read from the store, separated by commas: resource[.group]#0. Any other number says that they are to be read from memory.' -r -f
complete -c kube-apiserver -l bind-address -d 'Address to listen on. An unspecified one (0.0.0.0 or ::) stands for all interfaces, and is the default where --advertise-address says that others reach the server, as kubeadm does.' -r -f
complete -c kube-apiserver -l cert-dir -d 'Directory of apiserver.crt and apiserver.key: taken from there if both exist, otherwise made and kept there. If not set, the data directory. --tls-cert-file goes before it.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l http2-max-streams-per-connection -d 'How many requests one HTTP/2 connection may have in flight; 0 for the default of 250.' -r -f
complete -c kube-apiserver -l secure-port -d 'Port for HTTPS; 0 takes a free one and prints which.' -r -f
complete -c kube-apiserver -l tls-cert-file -d 'File with the serving certificate, followed by those of its authorities. If not set, the server makes one.' -r -F
complete -c kube-apiserver -l tls-cipher-suites -d 'Cipher suites for TLS 1.2, by Go\'s names. Those without forward secrecy or authenticated encryption are left out with a warning.' -r -f
complete -c kube-apiserver -l tls-curve-preferences -d 'Key exchanges by Go\'s numbers: 23 (P-256), 24 (P-384), 29 (X25519). Others that Go knows are left out with a warning.' -r -f
complete -c kube-apiserver -l tls-min-version -d 'VersionTLS12 or VersionTLS13. VersionTLS10 and VersionTLS11 mean 1.2, which is the oldest that is spoken.' -r -f
complete -c kube-apiserver -l tls-private-key-file -d 'File with the private key that belongs to --tls-cert-file.' -r -F
complete -c kube-apiserver -l tls-sni-cert-key -d 'Certificate and key for clients that ask for certain names: CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME with domains (whole segments may be *) and addresses. Without names, those in the certificate count. May be given more than once.' -r -f
complete -c kube-apiserver -l audit-log-batch-buffer-size -d 'Events that wait in a queue at most; further ones are lost and counted. For batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-max-size -d 'Events in a batch at most. For batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-max-wait -d 'How long the first event of a batch waits for others. For batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-throttle-burst -d 'Batches that may leave at once when none have for a while. For batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-throttle-qps -d 'Batches per second on average. For batch mode.' -r -f
complete -c kube-apiserver -l audit-log-format -d 'Format of events: "json", or "legacy" for a line of text.' -r -f
complete -c kube-apiserver -l audit-log-maxage -d 'Days that files are kept which were put aside, by the time in their names; 0 for no limit.' -r -f
complete -c kube-apiserver -l audit-log-maxbackup -d 'How many files are kept that were put aside; 0 for no limit.' -r -f
complete -c kube-apiserver -l audit-log-maxsize -d 'Megabytes after which the file is put aside and a new one begun; 0 for never.' -r -f
complete -c kube-apiserver -l audit-log-mode -d 'Whether requests wait for their events: batch (they do not), blocking (they do), blocking-strict (they do, and are refused when their arrival cannot be recorded).' -r -f
complete -c kube-apiserver -l audit-log-path -d 'File to which events are written that --audit-policy-file asks for; \'-\' for standard output.' -r -F
complete -c kube-apiserver -l audit-log-truncate-max-batch-size -d 'Bytes of a batch; larger ones are split.' -r -f
complete -c kube-apiserver -l audit-log-truncate-max-event-size -d 'Bytes of an event; larger ones lose their objects, and are lost if that does not suffice.' -r -f
complete -c kube-apiserver -l audit-log-version -d 'Group and version of events.' -r -f
complete -c kube-apiserver -l audit-policy-file -d 'File with the audit policy: which requests are recorded, and how much of them. Without it, none are.' -r -F
complete -c kube-apiserver -l audit-webhook-batch-buffer-size -d 'Events that wait in a queue at most; further ones are lost and counted. For batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-initial-backoff -d 'DEPRECATED: use --audit-webhook-initial-backoff.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-max-size -d 'Events in a batch at most. For batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-max-wait -d 'How long the first event of a batch waits for others. For batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-throttle-burst -d 'Batches that may leave at once when none have for a while. For batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-throttle-qps -d 'Batches per second on average. For batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-config-file -d 'File in kubeconfig format that names the server to which events are sent.' -r -F
complete -c kube-apiserver -l audit-webhook-initial-backoff -d 'How long to wait before a failed call is tried again for the first time.' -r -f
complete -c kube-apiserver -l audit-webhook-mode -d 'Whether requests wait for their events: batch (they do not), blocking (they do), blocking-strict (they do, and are refused when their arrival cannot be recorded).' -r -f
complete -c kube-apiserver -l audit-webhook-spill-dir -d 'Directory for events that --audit-webhook-batch-buffer-size has no room for, and for batches that the webhook refuses; they are sent later, also after a restart. Without it they are lost. For batch mode.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l audit-webhook-spill-max-size -d 'Megabytes in --audit-webhook-spill-dir at most; further events are lost and counted.' -r -f
complete -c kube-apiserver -l audit-webhook-truncate-max-batch-size -d 'Bytes of a batch; larger ones are split.' -r -f
complete -c kube-apiserver -l audit-webhook-truncate-max-event-size -d 'Bytes of an event; larger ones lose their objects, and are lost if that does not suffice.' -r -f
complete -c kube-apiserver -l audit-webhook-version -d 'Group and version of events.' -r -f
complete -c kube-apiserver -l debug-socket-path -d 'Path of a unix socket on which what --profiling is about is served to who may open it, without authorization.' -r -F
complete -c kube-apiserver -l api-audiences -d 'Names of this API: tokens that are made for audiences must be for one of these. If not set, the issuers of service account tokens.' -r -f
complete -c kube-apiserver -l authentication-config -d 'File with an AuthenticationConfiguration: issuers of ID tokens, instead of the --oidc-... flags, and the paths that are open without credentials. Read again when it changes.' -r -F
complete -c kube-apiserver -l authentication-token-webhook-cache-ttl -d 'How long answers of the token webhook are remembered.' -r -f
complete -c kube-apiserver -l authentication-token-webhook-config-file -d 'File in the form of a kubeconfig with the server that is asked about bearer tokens that nobody else knows.' -r -F
complete -c kube-apiserver -l authentication-token-webhook-version -d 'Version of the TokenReviews that are sent to the token webhook and expected from it: v1 or v1beta1.' -r -f
complete -c kube-apiserver -l client-ca-file -d 'File with the authorities whose client certificates are accepted: the common name is the user, the organizations are the groups. If not set, the server\'s own authority is accepted and an administrator\'s certificate is made.' -r -F
complete -c kube-apiserver -l oidc-ca-file -d 'File with the authorities for the OpenID provider; those of the system if not set.' -r -F
complete -c kube-apiserver -l oidc-client-id -d 'Client for which the OpenID provider\'s tokens must be made.' -r -f
complete -c kube-apiserver -l oidc-groups-claim -d 'Claim with the groups of a user, one or a list.' -r -f
complete -c kube-apiserver -l oidc-groups-prefix -d 'What is put before each group.' -r -f
complete -c kube-apiserver -l oidc-issuer-url -d 'URL of the OpenID provider, https only, whose tokens are accepted.' -r -f
complete -c kube-apiserver -l oidc-required-claim -d 'Claim that must be there with a value, \'claim=value\'. May be given more than once.' -r -f
complete -c kube-apiserver -l oidc-signing-algs -d 'Algorithms by which tokens may be signed: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.' -r -f
complete -c kube-apiserver -l oidc-username-claim -d 'Claim with the name of a user.' -r -f
complete -c kube-apiserver -l oidc-username-prefix -d 'What is put before each name; \'-\' for nothing. If not set, names other than by \'email\' get the issuer before them.' -r -f
complete -c kube-apiserver -l requestheader-allowed-names -d 'Common names of the proxies in front that may say who is calling; any that their authority has signed if not set.' -r -f
complete -c kube-apiserver -l requestheader-client-ca-file -d 'File with the authorities for proxies in front of the server, which say in headers who is calling.' -r -F
complete -c kube-apiserver -l requestheader-extra-headers-prefix -d 'Beginnings of the headers in which such proxies say more about callers.' -r -f
complete -c kube-apiserver -l requestheader-group-headers -d 'Headers in which such proxies name groups.' -r -f
complete -c kube-apiserver -l requestheader-uid-headers -d 'Headers in which such proxies name UIDs.' -r -f
complete -c kube-apiserver -l requestheader-username-headers -d 'Headers in which such proxies name users.' -r -f
complete -c kube-apiserver -l service-account-issuer -d 'Issuer of service account tokens. May be given more than once: the first issues, all are accepted.' -r -f
complete -c kube-apiserver -l service-account-jwks-uri -d 'Where the key set is that the discovery document names, if it is not taken from this server.' -r -f
complete -c kube-apiserver -l service-account-key-file -d 'File with RSA or ECDSA keys, private or public, that service account tokens are verified by. May be given more than once. If not set, the key that signs.' -r -F
complete -c kube-apiserver -l service-account-max-token-expiration -d 'The longest that requested service account tokens are good for; 0 for no limit.' -r -f
complete -c kube-apiserver -l service-account-signing-endpoint -d 'Path of the unix socket, or @name of the abstract one, of another process that signs service account tokens and has the keys. Neither --service-account-signing-key-file nor --service-account-key-file can be given beside it.' -r -F
complete -c kube-apiserver -l service-account-signing-key-file -d 'File with the private key that service account tokens are signed with. If not set, a key of the server\'s own.' -r -F
complete -c kube-apiserver -l token-auth-file -d 'File with static bearer tokens, one \'token,user,uid,"group1,group2"\' a line.' -r -F
complete -c kube-apiserver -l authorization-always-allow-paths -d 'Paths that are not those of resources and that everybody may use; a * at the end stands for whatever follows.' -r -f
complete -c kube-apiserver -l authorization-config -d 'File with the configuration of the authorizers, read again when it changes. Not together with --authorization-mode and --authorization-webhook-* flags.' -r -F
complete -c kube-apiserver -l authorization-mode -d 'Ordered list of authorizers: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node.' -r -f
complete -c kube-apiserver -l authorization-policy-file -d 'File with policies, one JSON object a line, for the mode ABAC.' -r -F
complete -c kube-apiserver -l authorization-webhook-cache-authorized-ttl -d 'How long answers of the webhook authorizer that allow are remembered.' -r -f
complete -c kube-apiserver -l authorization-webhook-cache-unauthorized-ttl -d 'How long answers of the webhook authorizer that do not allow are remembered.' -r -f
complete -c kube-apiserver -l authorization-webhook-config-file -d 'File in kubeconfig format that says how to reach the webhook, for the mode Webhook.' -r -F
complete -c kube-apiserver -l authorization-webhook-version -d 'Version of SubjectAccessReview that the webhook is sent and answers with: v1 or v1beta1.' -r -f
complete -c kube-apiserver -l runtime-config -d 'APIs to turn on or off, as key=true or key=false, separated by commas: group/version (apps/v1), group/version/resource (apps/v1/deployments), or api/all, api/ga, api/beta, api/alpha for all versions of a maturity. What is more particular counts more.' -r -f
complete -c kube-apiserver -l egress-selector-config-file -d 'File with an EgressSelectorConfiguration: the proxies that connections to the control plane, to etcd and to the cluster leave by.' -r -F
complete -c kube-apiserver -l admission-control -d 'The admission plugins that are asked, and no others. Deprecated: use --enable-admission-plugins and --disable-admission-plugins.' -r -f
complete -c kube-apiserver -l admission-control-config-file -d 'File with what admission plugins are told (AdmissionConfiguration).' -r -F
complete -c kube-apiserver -l default-not-ready-toleration-seconds -d 'How long pods stay on a node that is not ready, unless they say so themselves (DefaultTolerationSeconds).' -r -f
complete -c kube-apiserver -l default-unreachable-toleration-seconds -d 'How long pods stay on a node that cannot be reached, unless they say so themselves (DefaultTolerationSeconds).' -r -f
complete -c kube-apiserver -l disable-admission-plugins -d 'Admission plugins that are not asked although they are by default; docs/admission.md lists all of them. Their order does not matter.' -r -f
complete -c kube-apiserver -l enable-admission-plugins -d 'Admission plugins that are asked beside those that are by default; docs/admission.md lists all of them. Their order does not matter.' -r -f
complete -c kube-apiserver -l allow-metric-labels -d 'Values that a label of a metric may have; all others are counted as "unexpected": metric,label=value1,value2.' -r -f
complete -c kube-apiserver -l allow-metric-labels-manifest -d 'YAML file that says the same, with keys \'metric,label\' and values \'value1,value2\'.' -r -f
complete -c kube-apiserver -l disabled-metrics -d 'Full names of metrics that are left out, separated by commas.' -r -f
complete -c kube-apiserver -l show-hidden-metrics-for-version -d 'The version, which must be the one before this release, for which metrics are shown again that are hidden since they were deprecated.' -r -f
complete -c kube-apiserver -l log-flush-frequency -d 'How often lines are written that a buffer holds back.' -r -f
complete -c kube-apiserver -l log-json-info-buffer-size -d 'In this format with split streams, hold back as many bytes of what is no error, as 512, 1K, 2Ki. Needs the feature gate LoggingAlphaOptions.' -r -f
complete -c kube-apiserver -l log-text-info-buffer-size -d 'In this format with split streams, hold back as many bytes of what is no error, as 512, 1K, 2Ki. Needs the feature gate LoggingAlphaOptions.' -r -f
complete -c kube-apiserver -l logging-format -d 'Format of the log: "text" or "json".' -r -f
complete -c kube-apiserver -s v -l v -d 'Log verbosity as a number: 3 logs each request, 6 and more is for debugging.' -r -f
complete -c kube-apiserver -l vmodule -d 'Verbosity of the source files that a pattern matches, as pattern=N, separated by commas: chain=6,filters/*=4. A pattern without a slash is for the file\'s name. Only for the text format.' -r -f
complete -c kube-apiserver -l tracing-config-file -d 'File with a TracingConfiguration: where the collector of OpenTelemetry is that spans of requests are sent to, and how many requests are sampled.' -r -F
complete -c kube-apiserver -l apiserver-count -d 'DEPRECATED: Number of servers in the cluster, for --endpoint-reconciler-type=master-count.' -r -f
complete -c kube-apiserver -l coordinated-leadership-lease-duration -d 'How long the server that elects leaders keeps that part without renewing its lease. Needs the feature gate CoordinatedLeaderElection.' -r -f
complete -c kube-apiserver -l coordinated-leadership-renew-deadline -d 'How long it tries to renew its lease before it gives up.' -r -f
complete -c kube-apiserver -l coordinated-leadership-retry-period -d 'How often it renews its lease, and others try to get it.' -r -f
complete -c kube-apiserver -l endpoint-reconciler-type -d 'Who keeps the endpoints of the service kubernetes: each server with a lease on its own entry (lease), each as long as there are no more than --apiserver-count (master-count, deprecated), or somebody else (none).' -r -f
complete -c kube-apiserver -l hostname-override -d 'Name that is used instead of that of this machine for the server\'s identity among the servers of a cluster: for several of them on one machine.' -r -f
complete -c kube-apiserver -l kubelet-certificate-authority -d 'File with the certificates of who signs kubelets\' certificates. If not set, these are not verified.' -r -F
complete -c kube-apiserver -l kubelet-client-certificate -d 'File with the certificate that is shown to kubelets. It is read again when it changes.' -r -F
complete -c kube-apiserver -l kubelet-client-key -d 'File with the private key that belongs to --kubelet-client-certificate.' -r -F
complete -c kube-apiserver -l kubelet-port -d 'DEPRECATED: Port of kubelets whose nodes do not tell it.' -r -f
complete -c kube-apiserver -l kubelet-preferred-address-types -d 'Types of node addresses by which kubelets are reached, the best first.' -r -f
complete -c kube-apiserver -l kubelet-read-only-port -d 'DEPRECATED: Nothing asks this port any more.' -r -f
complete -c kube-apiserver -l kubelet-timeout -d 'Taken for compatibility: streams to kubelets last as long as they are used.' -r -f
complete -c kube-apiserver -l kubernetes-service-node-port -d 'Port of nodes at which the service kubernetes is reached; 0 for none.' -r -f
complete -c kube-apiserver -l max-connection-bytes-per-sec -d 'The most bytes a second, each way, of a connection to a kubelet, pod or service that was upgraded; 0 for no limit.' -r -f
complete -c kube-apiserver -l peer-advertise-ip -d 'Address at which other servers of the cluster reach this one, together with --peer-advertise-port, to hand on requests for what they lack. --advertise-address by default.' -r -f
complete -c kube-apiserver -l peer-advertise-port -d 'Port that belongs to --peer-advertise-ip.' -r -f
complete -c kube-apiserver -l peer-ca-file -d 'File with the authorities that sign the certificates of all servers of the cluster. With it, requests for what this server lacks are handed on to one that has it.' -r -F
complete -c kube-apiserver -l proxy-client-cert-file -d 'File with the certificate that is shown to servers of aggregated APIs, by which they know this server. It is read again when it changes.' -r -F
complete -c kube-apiserver -l proxy-client-key-file -d 'File with the private key that belongs to --proxy-client-cert-file.' -r -F
complete -c kube-apiserver -l service-cluster-ip-range -d 'Range from which services get their addresses; two of different families, separated by a comma, for dual-stack.' -r -f
complete -c kube-apiserver -l service-node-port-range -d 'Ports for services of type NodePort, both ends included.' -r -f
complete -c kube-apiserver -l default-watch-cache-size -d 'Caches are sized by what they hold; kube-apiserver ignores this deprecated flag as well.' -r -f
complete -c kube-apiserver -l config -d 'File with flags in YAML: their names are its keys. Flags of the command line win. A changed --v or --vmodule in it is in force at once; what else differs from the running server is shown at /configz.' -r -f
complete -c kube-apiserver -l version -d 'Print the version and quit; with a value such as v1.36.2-mine, start and report that version to clients.' -r
complete -c kube-apiserver -l emulation-forward-compatible -d 'With --emulated-version: also serve those later versions of a resource that the emulated release does not know, where it knows another version that is not alpha.'
complete -c kube-apiserver -l enable-priority-and-fairness -d 'Share the limits of requests in flight out by flow schemas and priority levels, and let requests wait. Without it, requests above the limits are refused.'
complete -c kube-apiserver -l runtime-config-emulation-forward-compatible -d 'With --emulated-version: also serve what --runtime-config names and the emulated release does not know.'
complete -c kube-apiserver -l send-retry-after-while-not-ready-once -d 'Answer requests with 503 and Retry-After until the server has been ready once, but those for health and metrics.'
complete -c kube-apiserver -l shutdown-send-retry-after -d 'After that, go on listening until all short requests are answered, and answer new ones with 429 and Retry-After.'
complete -c kube-apiserver -l enable-garbage-collector -d 'Whether deletes set the finalizers that ask the garbage collector to orphan or to delete dependents. Must be the same as that of kube-controller-manager.'
complete -c kube-apiserver -l encryption-provider-config-automatic-reload -d 'Whether the file named by --encryption-provider-config is read again when it changes. All KMS plugins then share one health check, kms-providers.'
complete -c kube-apiserver -l ephemeral -d 'Keep all objects in memory and forget them at the end. Certificates are kept only if --data-dir is set.'
complete -c kube-apiserver -l watch-cache -d 'Serve reads from memory. If not, only watches are, and every read asks the store.'
complete -c kube-apiserver -l disable-http2-serving -d 'Leave HTTP/2 out.'
complete -c kube-apiserver -l permit-port-sharing -d 'Let other processes listen on the same port (SO_REUSEPORT).'
complete -c kube-apiserver -l audit-log-batch-throttle-enable -d 'Whether batches are throttled. For batch mode.'
complete -c kube-apiserver -l audit-log-compress -d 'Whether files that were put aside are compressed with gzip.'
complete -c kube-apiserver -l audit-log-truncate-enabled -d 'Whether events and batches are kept below a size.'
complete -c kube-apiserver -l audit-webhook-batch-throttle-enable -d 'Whether batches are throttled. For batch mode.'
complete -c kube-apiserver -l audit-webhook-truncate-enabled -d 'Whether events and batches are kept below a size.'
complete -c kube-apiserver -l enable-live-page -d 'Serve a page for browsers at /debug/live that shows what the server is doing: requests, clients, watchers, queues, store, caches, webhooks. Who may get /debug/live* may see it.'
complete -c kube-apiserver -l profiling -d 'Serve profiles at /debug/pprof/, and /debug/flags/v, which changes the verbosity of the log while the server runs.'
complete -c kube-apiserver -l anonymous-auth -d 'Whether requests without credentials are served, as system:anonymous in the group system:unauthenticated.'
complete -c kube-apiserver -l enable-bootstrap-token-auth -d 'Whether secrets of type bootstrap.kubernetes.io/token in kube-system are tokens, for nodes that join.'
complete -c kube-apiserver -l service-account-extend-token-expiration -d 'Whether tokens that admission mounted into pods really live for a year, so that clients that never read them again have time to be updated.'
complete -c kube-apiserver -l service-account-lookup -d 'Whether service account tokens from secrets must still be there.'
complete -c kube-apiserver -l log-json-split-stream -d 'In this format, write errors and warnings to standard error and all else to standard output. Needs the feature gate LoggingAlphaOptions.'
complete -c kube-apiserver -l log-text-split-stream -d 'In this format, write errors and warnings to standard error and all else to standard output. Needs the feature gate LoggingAlphaOptions.'
complete -c kube-apiserver -l aggregator-reject-forwarding-redirect -d 'Whether redirects of servers of aggregated APIs are refused rather than passed on to clients.'
complete -c kube-apiserver -l allow-privileged -d 'Whether containers may be privileged.'
complete -c kube-apiserver -l enable-aggregator-routing -d 'Whether services of aggregated APIs and of webhooks are reached at one of their endpoints rather than at their cluster IP.'
complete -c kube-apiserver -l enable-logs-handler -d 'DEPRECATED: Serve the files of /var/log at /logs.'
complete -c kube-apiserver -l stop-with-stdin -d 'Stop when standard input ends, as after SIGTERM. A program that starts the server and keeps the other end of a pipe takes the server along when it dies.'
complete -c kube-apiserver -l contention-profiling -d 'How long threads wait for locks is not measured; use perf on the process.'
complete -c kube-apiserver -l permit-address-sharing -d 'SO_REUSEADDR is always set, which is what this asks for.'
complete -c kube-apiserver -l check-config -d 'Read all flags and the files that they name, print everything that is wrong with them, and quit. Connects to nobody and writes nothing.'
complete -c kube-apiserver -s h -l help -d 'help for kube-apiserver'
