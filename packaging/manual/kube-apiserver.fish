complete -c kube-apiserver -l advertise-address -d 'IP address that the server advertises to members of the cluster, as the endpoint of the service \'kubernetes\'. It must be reachable from the rest of the cluster. If not set, --bind-address is used, or the address of the host\'s default interface if that is unspecified or loopback.' -r -f
complete -c kube-apiserver -l cors-allowed-origins -d 'Allowed origins for CORS, as regular expressions, comma-separated. Each must anchor both ends of the host name, as in \'//example\\.com(:|$)\'. If not set, CORS is off.' -r -f
complete -c kube-apiserver -l emulated-version -d 'Kubernetes version whose APIs, features and defaults of feature gates the server emulates, as major.minor or kube=major.minor, from 1.33 to 1.36. If not set, 1.36, the version of this release.' -r -f
complete -c kube-apiserver -l external-hostname -d 'Host name of this server in the external URLs that it publishes, such as those of discovery and OpenID documents, and in the serving certificate that it generates.' -r -f
complete -c kube-apiserver -l feature-gates -d 'Feature gates to enable or disable, comma-separated: \'GenericWorkload=true,kube:StorageVersionHash=false\'. May be repeated. AllAlpha and AllBeta set all feature gates of that stage.' -r -f
complete -c kube-apiserver -l goaway-chance -d 'Probability, from 0 to 0.02, that a response tells an HTTP/2 client to reconnect (GOAWAY), so that a load balancer can choose another API server; requests in flight are completed. 0, the default, turns it off: leave it off without a load balancer.' -r -f
complete -c kube-apiserver -l livez-grace-period -d 'Time after the start during which /livez succeeds although post-start hooks have not finished yet.' -r -f
complete -c kube-apiserver -l max-mutating-requests-inflight -d 'Maximum number of mutating requests in flight. 0 means no limit. With API Priority and Fairness, its sum with --max-requests-inflight is the concurrency limit of the server and must not be 0.' -r -f
complete -c kube-apiserver -l max-requests-inflight -d 'Maximum number of non-mutating requests in flight. 0 means no limit. With API Priority and Fairness, its sum with --max-mutating-requests-inflight is the concurrency limit of the server and must not be 0.' -r -f
complete -c kube-apiserver -l min-compatibility-version -d 'Oldest Kubernetes version of other control plane components that must be able to read what this server stores, as major.minor or kube=major.minor, from 1.33 to the emulated version. If not set, the minor version before the emulated one.' -r -f
complete -c kube-apiserver -l min-request-timeout -d 'Minimum timeout of watch requests in seconds, at least 0. A watch without timeoutSeconds gets a random timeout between this value and twice as much, so that watches do not all end at once.' -r -f
complete -c kube-apiserver -l request-timeout -d 'Timeout of requests, except watches and other long-running requests. A client can set a shorter one with the query parameter \'timeout\'.' -r -f
complete -c kube-apiserver -l shutdown-delay-duration -d 'Time after the termination signal during which the server still accepts requests while /readyz fails, so that load balancers stop using it. Graceful termination follows.' -r -f
complete -c kube-apiserver -l shutdown-watch-termination-grace-period -d 'Maximum additional time that active watches get to end during graceful termination. They are ended at once and rarely need it.' -r -f
complete -c kube-apiserver -l storage-initialization-timeout -d 'Maximum time that the server waits at the start for its storage (watch caches) to be initialized before it declares itself ready.' -r -f
complete -c kube-apiserver -l strict-transport-security-directives -d 'Directives of the Strict-Transport-Security (HSTS) response header, comma-separated: max-age=SECONDS, includeSubDomains, preload. If not set, the header is not sent.' -r -f
complete -c kube-apiserver -l data-dir -d 'Directory of the embedded store, of the server\'s own certificates and keys, and of admin.kubeconfig. It is created if it does not exist. If not set: /var/lib/binnacle for root, otherwise binnacle in $XDG_DATA_HOME or ~/.local/share.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l delete-collection-workers -d 'Number of workers that delete the objects of a collection in parallel, at least 1. It speeds up the cleanup of namespaces.' -r -f
complete -c kube-apiserver -l encryption-provider-config -d 'File with an EncryptionConfiguration: the resources to encrypt at rest, and the providers and keys for them.' -r -F
complete -c kube-apiserver -l etcd-cafile -d 'File with the certificate authorities (PEM) for the serving certificates of etcd. If not set, those of the system.' -r -F
complete -c kube-apiserver -l etcd-certfile -d 'File with the TLS client certificate for etcd. It is reloaded for each connection.' -r -F
complete -c kube-apiserver -l etcd-compaction-interval -d 'Interval of compaction: each one removes the history of all objects before the revision that was current one interval earlier. 0 turns compaction off.' -r -f
complete -c kube-apiserver -l etcd-count-metric-poll-period -d 'Interval at which the stored objects of each resource are counted for metrics. 0 turns it off.' -r -f
complete -c kube-apiserver -l etcd-db-metric-poll-interval -d 'Interval at which the size of the etcd database, or of the embedded store, is polled for metrics. 0 turns it off.' -r -f
complete -c kube-apiserver -l etcd-healthcheck-timeout -d 'Timeout of the health check \'etcd\' of the store. 0 means 2s.' -r -f
complete -c kube-apiserver -l etcd-keyfile -d 'File with the TLS client key for etcd. Required with --etcd-certfile.' -r -F
complete -c kube-apiserver -l etcd-prefix -d 'Prefix of the keys of all objects in etcd.' -r -f
complete -c kube-apiserver -l etcd-readycheck-timeout -d 'Timeout of the readiness check \'etcd-readiness\' of the store. 0 means 2s.' -r -f
complete -c kube-apiserver -l etcd-servers -d 'Client URLs of the members of an etcd cluster (scheme://host:port), comma-separated. Objects are stored there instead of in the embedded store, and several API servers can share them.' -r -f
complete -c kube-apiserver -l etcd-servers-overrides -d 'etcd servers for single resources, comma-separated: group/resource#servers, where servers are URLs separated by semicolons, as in "/events#http://etcd4:2379;http://etcd5:2379".' -r -f
complete -c kube-apiserver -l event-ttl -d 'Time for which events (Event objects) are retained.' -r -f
complete -c kube-apiserver -l forward-writes-ca-file -d 'File with the certificate authorities (PEM) of the server of --forward-writes-to. It is reloaded when it changes.' -r -F
complete -c kube-apiserver -l forward-writes-to -d 'URL of the kube-apiserver that writes the etcd cluster, as in "https://10.0.0.1:6443". A server with --read-only forwards the requests to it that it would otherwise refuse, under the caller\'s identity. Requires --forward-writes-ca-file, --proxy-client-cert-file and --proxy-client-key-file: the other server must accept the client certificate for its --requestheader-client-ca-file.' -r -f
complete -c kube-apiserver -l history-retention -d 'Time for which the history of all objects is kept, instead of one --etcd-compaction-interval, and served: reads below /at/REVISION show all objects as they were at this revision of the store, to users who may get the path /at. 0 turns it off.' -r -f
complete -c kube-apiserver -l lease-reuse-duration-seconds -d 'Time in seconds for which one etcd lease is reused for new objects with a TTL, such as events. A shorter time means more leases.' -r -f
complete -c kube-apiserver -l storage-backend -d 'Storage backend of --etcd-servers. The only one is \'etcd3\', the default.' -r -f
complete -c kube-apiserver -l storage-media-type -d 'Media type in which objects are stored: application/json, application/yaml or application/vnd.kubernetes.protobuf. Objects that are stored in another one are still read.' -r -f
complete -c kube-apiserver -l watch-cache-sizes -d 'Watch cache settings of single resources, comma-separated: resource[.group]#size. Size 0 reads the resource from the store; any other size means the watch cache, whose size is dynamic.' -r -f
complete -c kube-apiserver -l bind-address -d 'IP address on which to listen for --secure-port. 0.0.0.0 or :: means all interfaces; this is the default if --advertise-address is neither unspecified nor loopback, as with kubeadm.' -r -f
complete -c kube-apiserver -l cert-dir -d 'Directory of the TLS certificate apiserver.crt and its key apiserver.key: used if both exist, otherwise generated there. Ignored with --tls-cert-file and --tls-private-key-file. If not set, the data directory.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l http2-max-streams-per-connection -d 'Maximum number of concurrent streams, which are requests in flight, of an HTTP/2 connection. 0 means the default of 100.' -r -f
complete -c kube-apiserver -l secure-port -d 'Port on which to serve HTTPS, from 1 to 65535. 0 selects a free port, which is printed.' -r -f
complete -c kube-apiserver -l tls-cert-file -d 'File with the x509 serving certificate (PEM), followed by intermediate CA certificates if there are any. Requires --tls-private-key-file. If not set, the server generates a certificate with its own CA.' -r -F
complete -c kube-apiserver -l tls-cipher-suites -d 'Cipher suites for TLS 1.2 by Go\'s names, comma-separated, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Suites without forward secrecy or authenticated encryption are skipped with a warning. If not set, all supported suites.' -r -f
complete -c kube-apiserver -l tls-curve-preferences -d 'Curves for key exchange by Go\'s CurveID, comma-separated: 23 (CurveP256), 24 (CurveP384), 29 (X25519). Others that Go knows are skipped with a warning.' -r -f
complete -c kube-apiserver -l tls-min-version -d 'Minimum TLS version: VersionTLS12 (the default) or VersionTLS13. VersionTLS10 and VersionTLS11 are accepted and mean VersionTLS12.' -r -f
complete -c kube-apiserver -l tls-private-key-file -d 'File with the x509 private key (PEM) of --tls-cert-file.' -r -F
complete -c kube-apiserver -l tls-sni-cert-key -d 'x509 certificate and private key for clients that request certain names (SNI): CERTIFICATE,KEY or CERTIFICATE,KEY:PATTERN,PATTERN, where patterns are domain names (whole segments may be *) or IP addresses. Without patterns, the names in the certificate count. May be repeated.' -r -f
complete -c kube-apiserver -l audit-log-batch-buffer-size -d 'Maximum number of events that wait to be batched; further events are dropped and counted. Only in batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-max-size -d 'Maximum number of events in a batch. Only in batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-max-wait -d 'Maximum time that an event waits for its batch to fill up. Only in batch mode.' -r -f
complete -c kube-apiserver -l audit-log-batch-throttle-burst -d 'Maximum number of batches that are sent at once after a time without any. Only in batch mode, with throttling.' -r -f
complete -c kube-apiserver -l audit-log-batch-throttle-qps -d 'Maximum average number of batches per second. Only in batch mode, with throttling.' -r -f
complete -c kube-apiserver -l audit-log-format -d 'Format of audit events in the log: "json", or "legacy" for one line of text per event.' -r -f
complete -c kube-apiserver -l audit-log-maxage -d 'Maximum number of days to retain rotated audit log files, by the timestamp in their names. 0 means no limit.' -r -f
complete -c kube-apiserver -l audit-log-maxbackup -d 'Maximum number of rotated audit log files to retain. 0 means no limit.' -r -f
complete -c kube-apiserver -l audit-log-maxsize -d 'Maximum size in megabytes of the audit log file before it is rotated. 0 turns rotation off.' -r -f
complete -c kube-apiserver -l audit-log-mode -d 'Mode of sending events: batch (asynchronous, in batches), blocking (a response waits for its events), or blocking-strict (also, a request is rejected if its event of the stage RequestReceived cannot be recorded).' -r -f
complete -c kube-apiserver -l audit-log-path -d 'File of the audit log backend, which records the events selected by --audit-policy-file; \'-\' means standard output. If not set, the backend is off.' -r -F
complete -c kube-apiserver -l audit-log-truncate-max-batch-size -d 'Maximum size of a batch in bytes, at least that of an event; larger batches are split. Only with truncation.' -r -f
complete -c kube-apiserver -l audit-log-truncate-max-event-size -d 'Maximum size of an event in bytes. Larger events lose their request and response objects, and are dropped if they are still too large. Only with truncation.' -r -f
complete -c kube-apiserver -l audit-log-version -d 'API group and version of events. The only one is audit.k8s.io/v1.' -r -f
complete -c kube-apiserver -l audit-policy-file -d 'File with the audit policy: which requests are audited, and at which level. If not set, none are.' -r -F
complete -c kube-apiserver -l audit-webhook-batch-buffer-size -d 'Maximum number of events that wait to be batched; further events are dropped and counted. Only in batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-initial-backoff -d 'DEPRECATED: use --audit-webhook-initial-backoff.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-max-size -d 'Maximum number of events in a batch. Only in batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-max-wait -d 'Maximum time that an event waits for its batch to fill up. Only in batch mode.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-throttle-burst -d 'Maximum number of batches that are sent at once after a time without any. Only in batch mode, with throttling.' -r -f
complete -c kube-apiserver -l audit-webhook-batch-throttle-qps -d 'Maximum average number of batches per second. Only in batch mode, with throttling.' -r -f
complete -c kube-apiserver -l audit-webhook-config-file -d 'File in kubeconfig format that configures the audit webhook backend, to which events are sent.' -r -F
complete -c kube-apiserver -l audit-webhook-initial-backoff -d 'Time to wait before the first retry of a failed call of the audit webhook.' -r -f
complete -c kube-apiserver -l audit-webhook-mode -d 'Mode of sending events: batch (asynchronous, in batches), blocking (a response waits for its events), or blocking-strict (also, a request is rejected if its event of the stage RequestReceived cannot be recorded).' -r -f
complete -c kube-apiserver -l audit-webhook-spill-dir -d 'Directory for events that exceed --audit-webhook-batch-buffer-size and for batches that the webhook rejects. They are sent later, also after a restart. If not set, they are dropped. Only in batch mode.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l audit-webhook-spill-max-size -d 'Maximum size of --audit-webhook-spill-dir in megabytes, at least 1. Further events are dropped and counted.' -r -f
complete -c kube-apiserver -l audit-webhook-truncate-max-batch-size -d 'Maximum size of a batch in bytes, at least that of an event; larger batches are split. Only with truncation.' -r -f
complete -c kube-apiserver -l audit-webhook-truncate-max-event-size -d 'Maximum size of an event in bytes. Larger events lose their request and response objects, and are dropped if they are still too large. Only with truncation.' -r -f
complete -c kube-apiserver -l audit-webhook-version -d 'API group and version of events. The only one is audit.k8s.io/v1.' -r -f
complete -c kube-apiserver -l compare-dir -d 'Directory for the differences that --compare-with finds, as recorded cases without secrets: at most 3 files for each cause and 1000 files in total. If not set, differences are counted and logged only.' -r -f -a "(__fish_complete_directories)"
complete -c kube-apiserver -l compare-kubeconfig -d 'Kubeconfig file with the credentials for the server of --compare-with and its certificate authority; its URL is not used. Repeated requests impersonate their users, so the user in the file needs the permission to impersonate them. Credentials of clients are never sent to the other server.' -r -f
complete -c kube-apiserver -l compare-rate -d 'Fraction of the requests that --compare-with repeats, above 0 and at most 1.' -r -f
complete -c kube-apiserver -l compare-with -d 'URL of another API server of the same etcd, such as the kube-apiserver beside a server with --read-only. A sample of the reads and access reviews is repeated there at the same resourceVersion, after the client has its answer; the answers are compared, and differences are counted in binnacle_compare_total and logged once for each cause. Needs --compare-kubeconfig.' -r -f
complete -c kube-apiserver -l debug-socket-path -d 'Path of a Unix domain socket that serves what --profiling does, without authentication and authorization: the permissions of the file control access.' -r -F
complete -c kube-apiserver -l api-audiences -d 'Identifiers of the API, comma-separated: a bearer token that is bound to audiences must be bound to one of them. If not set, the values of --service-account-issuer.' -r -f
complete -c kube-apiserver -l authentication-config -d 'File with an AuthenticationConfiguration: JWT authenticators, and anonymous requests by path. Excludes the --oidc-* flags. It is reloaded when it changes.' -r -F
complete -c kube-apiserver -l authentication-token-webhook-cache-ttl -d 'Time for which responses of the token webhook are cached.' -r -f
complete -c kube-apiserver -l authentication-token-webhook-config-file -d 'File in kubeconfig format for webhook token authentication: the server that reviews bearer tokens which no other authenticator accepts.' -r -F
complete -c kube-apiserver -l authentication-token-webhook-version -d 'API version of the TokenReview (authentication.k8s.io) that is exchanged with the token webhook: v1 or v1beta1.' -r -f
complete -c kube-apiserver -l client-ca-file -d 'File with the certificate authorities for client certificates: the common name of a certificate is the user name, its organizations are the groups. If not set, the server uses its own CA and issues an administrator\'s certificate in admin.kubeconfig.' -r -F
complete -c kube-apiserver -l oidc-ca-file -d 'File with the certificate authorities for the OpenID Connect provider. If not set, those of the system.' -r -F
complete -c kube-apiserver -l oidc-client-id -d 'Client ID for OpenID Connect: the audience that ID tokens must have. Required with --oidc-issuer-url.' -r -f
complete -c kube-apiserver -l oidc-groups-claim -d 'Claim with the groups of the user, a string or a list of strings.' -r -f
complete -c kube-apiserver -l oidc-groups-prefix -d 'Prefix that is added to each group, so that it differs from the groups of other authenticators.' -r -f
complete -c kube-apiserver -l oidc-issuer-url -d 'URL of the OpenID Connect issuer whose ID tokens (JWT) are accepted; only https. Required with --oidc-client-id.' -r -f
complete -c kube-apiserver -l oidc-required-claim -d 'Claim that ID tokens must have with a value, as claim=value. May be repeated.' -r -f
complete -c kube-apiserver -l oidc-signing-algs -d 'Allowed signing algorithms of ID tokens, comma-separated: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.' -r -f
complete -c kube-apiserver -l oidc-username-claim -d 'Claim with the user name. It should be unique and never change for a user.' -r -f
complete -c kube-apiserver -l oidc-username-prefix -d 'Prefix that is added to each user name; \'-\' for none. If not set, it is the issuer URL and \'#\', and none for the claim \'email\'.' -r -f
complete -c kube-apiserver -l requestheader-allowed-names -d 'Common names of the client certificates of authenticating proxies, comma-separated. If not set, any certificate of --requestheader-client-ca-file is accepted.' -r -f
complete -c kube-apiserver -l requestheader-client-ca-file -d 'File with the certificate authorities for client certificates of authenticating proxies, such as the aggregator (front proxies), which set the user in request headers.' -r -F
complete -c kube-apiserver -l requestheader-extra-headers-prefix -d 'Prefixes of request headers with extra fields of the user, comma-separated, such as X-Remote-Extra-.' -r -f
complete -c kube-apiserver -l requestheader-group-headers -d 'Request headers with groups of the user, comma-separated, such as X-Remote-Group.' -r -f
complete -c kube-apiserver -l requestheader-uid-headers -d 'Request headers with the UID of the user, comma-separated; X-Remote-Uid must be one of them. Needs the feature gate RemoteRequestHeaderUID.' -r -f
complete -c kube-apiserver -l requestheader-username-headers -d 'Request headers with the user name, comma-separated, such as X-Remote-User.' -r -f
complete -c kube-apiserver -l service-account-issuer -d 'Issuer of service account tokens (claim iss), a URI or another identifier. May be repeated: new tokens have the first one, tokens of all are accepted.' -r -f
complete -c kube-apiserver -l service-account-jwks-uri -d 'https URI of the JSON Web Key Set in the OpenID discovery document. If not set, that of this server.' -r -f
complete -c kube-apiserver -l service-account-key-file -d 'File with PEM-encoded RSA or ECDSA keys, private or public, that verify service account tokens. May be repeated. If not set, the signing key.' -r -F
complete -c kube-apiserver -l service-account-max-token-expiration -d 'Maximum lifetime of tokens of the TokenRequest API, from 1h to 2^32 seconds; longer requests get this lifetime. 0s means no limit.' -r -f
complete -c kube-apiserver -l service-account-signing-endpoint -d 'Unix domain socket of an external signer of service account tokens: a path, or @name for an abstract socket. Excludes --service-account-signing-key-file and --service-account-key-file.' -r -F
complete -c kube-apiserver -l service-account-signing-key-file -d 'File with the private key that signs service account tokens. Requires --service-account-key-file. If not set, a key of the server\'s own.' -r -F
complete -c kube-apiserver -l token-auth-file -d 'CSV file with static bearer tokens, one per line: token,user,uid,"group1,group2".' -r -F
complete -c kube-apiserver -l authorization-always-allow-paths -d 'Non-resource paths that every user may access, comma-separated. A * at the end matches any suffix.' -r -f
complete -c kube-apiserver -l authorization-config -d 'File with an AuthorizationConfiguration: the chain of authorizers. Excludes --authorization-mode and --authorization-webhook-*. It is reloaded when it changes.' -r -F
complete -c kube-apiserver -l authorization-mode -d 'Authorization modes in their order, comma-separated: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node.' -r -f
complete -c kube-apiserver -l authorization-policy-file -d 'File with ABAC policies, one JSON object per line. Requires the mode ABAC.' -r -F
complete -c kube-apiserver -l authorization-webhook-cache-authorized-ttl -d 'Time for which authorized responses of the webhook authorizer are cached.' -r -f
complete -c kube-apiserver -l authorization-webhook-cache-unauthorized-ttl -d 'Time for which unauthorized responses of the webhook authorizer are cached.' -r -f
complete -c kube-apiserver -l authorization-webhook-config-file -d 'File in kubeconfig format for the webhook authorizer. Requires the mode Webhook.' -r -F
complete -c kube-apiserver -l authorization-webhook-version -d 'API version of the SubjectAccessReview (authorization.k8s.io) that is exchanged with the webhook: v1 or v1beta1.' -r -f
complete -c kube-apiserver -l runtime-config -d 'Built-in APIs to enable or disable, as key=true or key=false, comma-separated. Keys are group/version (apps/v1, or v1 for the core group), group/version/resource (apps/v1/deployments), and api/all, api/ga, api/beta and api/alpha for all API versions of a stability level. More specific keys take precedence.' -r -f
complete -c kube-apiserver -l egress-selector-config-file -d 'File with an EgressSelectorConfiguration: the proxies for connections to the control plane, to etcd and to the cluster.' -r -F
complete -c kube-apiserver -l admission-control -d 'DEPRECATED: use --enable-admission-plugins and --disable-admission-plugins. Admission plugins to run, comma-separated; all others are off.' -r -f
complete -c kube-apiserver -l admission-control-config-file -d 'File with an AdmissionConfiguration: the configuration of admission plugins.' -r -F
complete -c kube-apiserver -l default-not-ready-toleration-seconds -d 'Seconds (tolerationSeconds) for which pods tolerate the taint node.kubernetes.io/not-ready:NoExecute, if they do not set it (plugin DefaultTolerationSeconds).' -r -f
complete -c kube-apiserver -l default-unreachable-toleration-seconds -d 'Seconds (tolerationSeconds) for which pods tolerate the taint node.kubernetes.io/unreachable:NoExecute, if they do not set it (plugin DefaultTolerationSeconds).' -r -f
complete -c kube-apiserver -l disable-admission-plugins -d 'Admission plugins to disable although they are enabled by default, comma-separated, in any order. docs/admission.md lists all plugins.' -r -f
complete -c kube-apiserver -l enable-admission-plugins -d 'Admission plugins to enable in addition to those that are enabled by default, comma-separated, in any order. docs/admission.md lists all plugins.' -r -f
complete -c kube-apiserver -l allow-metric-labels -d 'Allowed values of a metric\'s label, as metric,label=value1,value2; all other values are recorded as "unexpected". May be repeated.' -r -f
complete -c kube-apiserver -l allow-metric-labels-manifest -d 'YAML file with the same settings: keys \'metric,label\', values \'value1,value2\'. Excludes --allow-metric-labels.' -r -f
complete -c kube-apiserver -l disabled-metrics -d 'Metrics to disable, by their fully qualified names, comma-separated.' -r -f
complete -c kube-apiserver -l show-hidden-metrics-for-version -d 'Show the metrics that are hidden since they were deprecated in the previous minor version. The only value is that version, 1.35.' -r -f
complete -c kube-apiserver -l log-flush-frequency -d 'Maximum time between two flushes of buffered log messages, more than 0.' -r -f
complete -c kube-apiserver -l log-json-info-buffer-size -d 'In this log format with split streams, buffer size of info messages in bytes, also as a quantity such as 1K or 2Ki. 0 turns buffering off. Needs the feature gate LoggingAlphaOptions.' -r -f
complete -c kube-apiserver -l log-text-info-buffer-size -d 'In this log format with split streams, buffer size of info messages in bytes, also as a quantity such as 1K or 2Ki. 0 turns buffering off. Needs the feature gate LoggingAlphaOptions.' -r -f
complete -c kube-apiserver -l logging-format -d 'Format of the log: "text" or "json".' -r -f
complete -c kube-apiserver -s v -l v -d 'Log verbosity, a number from 0: 3 logs each request, 6 and above is for debugging the server.' -r -f
complete -c kube-apiserver -l vmodule -d 'Log verbosity of source files, as pattern=N, comma-separated: chain=6,filters/*=4. A pattern without a slash matches the name of a file without its suffix. Only for the log format text.' -r -f
complete -c kube-apiserver -l tracing-config-file -d 'File with a TracingConfiguration: the endpoint of the OpenTelemetry collector to which spans of requests are exported, and the sampling rate.' -r -F
complete -c kube-apiserver -l apiserver-count -d 'DEPRECATED: number of API servers in the cluster, at least 1, for --endpoint-reconciler-type=master-count.' -r -f
complete -c kube-apiserver -l coordinated-leadership-lease-duration -d 'Duration of the lease for coordinated leader election, after which another server replaces a leader that does not renew it. Must exceed the renew deadline. Needs the feature gate CoordinatedLeaderElection.' -r -f
complete -c kube-apiserver -l coordinated-leadership-renew-deadline -d 'Time for which the leader tries to renew its lease before it gives up leadership. Must exceed the retry period.' -r -f
complete -c kube-apiserver -l coordinated-leadership-retry-period -d 'Interval between attempts to acquire or renew the lease for coordinated leader election.' -r -f
complete -c kube-apiserver -l endpoint-reconciler-type -d 'Endpoint reconciler of the service \'kubernetes\': lease (each server renews a lease for its address), master-count (deprecated: as many addresses as --apiserver-count), or none (another component maintains the endpoints).' -r -f
complete -c kube-apiserver -l hostname-override -d 'Host name for the identity of this server among the API servers of a cluster, instead of that of the host. Needed for several servers on one host.' -r -f
complete -c kube-apiserver -l kubelet-certificate-authority -d 'File with the certificate authorities for the serving certificates of kubelets. If not set, they are not verified.' -r -F
complete -c kube-apiserver -l kubelet-client-certificate -d 'File with the TLS client certificate for kubelets. Requires --kubelet-client-key. It is reloaded when it changes.' -r -F
complete -c kube-apiserver -l kubelet-client-key -d 'File with the private key of --kubelet-client-certificate.' -r -F
complete -c kube-apiserver -l kubelet-port -d 'DEPRECATED: port of kubelets whose nodes do not report one.' -r -f
complete -c kube-apiserver -l kubelet-preferred-address-types -d 'Types of node addresses (NodeAddressType) for connections to kubelets, by preference, comma-separated.' -r -f
complete -c kube-apiserver -l kubelet-read-only-port -d 'DEPRECATED: accepted and not used.' -r -f
complete -c kube-apiserver -l kubelet-timeout -d 'Timeout of requests to kubelets. Accepted for compatibility and not used: streams to kubelets have no timeout.' -r -f
complete -c kube-apiserver -l kubernetes-service-node-port -d 'Node port of the service \'kubernetes\', within --service-node-port-range; the service is then of type NodePort. 0 means type ClusterIP.' -r -f
complete -c kube-apiserver -l logical-cluster-domain -d 'Domain of logical clusters: each is served at https://NAME.DOMAIN as well, by the host name that the client sends in the TLS handshake (SNI) or in the Host header. The name *.DOMAIN must lead to this server. A serving certificate that the server creates has this name.' -r -f
complete -c kube-apiserver -l max-awake-logical-clusters -d 'Maximum number of logical clusters that are awake without requests. Beyond it, those unused for the longest time are stopped until their next request.' -r -f
complete -c kube-apiserver -l max-connection-bytes-per-sec -d 'Maximum bytes per second, in each direction, of an upgraded connection to a kubelet, pod or service (exec, attach, port-forward, proxy). 0 means no limit.' -r -f
complete -c kube-apiserver -l peer-advertise-ip -d 'IP address at which other API servers of the cluster proxy requests to this one, together with --peer-advertise-port. If not set, --advertise-address. Needs the feature gate UnknownVersionInteroperabilityProxy.' -r -f
complete -c kube-apiserver -l peer-advertise-port -d 'Port for --peer-advertise-ip, from 1 to 65535.' -r -f
complete -c kube-apiserver -l peer-ca-file -d 'File with the certificate authorities for the serving certificates of other API servers. If set, requests for resources that this server does not serve are proxied to one that does. Needs the feature gate UnknownVersionInteroperabilityProxy.' -r -F
complete -c kube-apiserver -l proxy-client-cert-file -d 'File with the client certificate with which the aggregator authenticates to aggregated (extension) API servers. Requires --proxy-client-key-file. It is reloaded when it changes.' -r -F
complete -c kube-apiserver -l proxy-client-key-file -d 'File with the private key of --proxy-client-cert-file.' -r -F
complete -c kube-apiserver -l run-controllers -d 'Controllers of kube-controller-manager to run inside this server: \'foo\' runs the controller \'foo\', \'*\' runs all that the server has, \'-foo\' excludes one of them. They act while no other process holds the lease kube-system/kube-controller-manager. Empty for none.' -r -f
complete -c kube-apiserver -l service-cluster-ip-range -d 'CIDR range of the cluster IPs of services, of at least 8 addresses. For dual-stack, two ranges of different IP families, comma-separated.' -r -f
complete -c kube-apiserver -l service-node-port-range -d 'Port range of services of type NodePort, including both ends: low-high or low+count.' -r -f
complete -c kube-apiserver -l default-watch-cache-size -d 'The size of watch caches is dynamic. kube-apiserver ignores this deprecated flag as well.' -r -f
complete -c kube-apiserver -l config -d 'YAML file with flags, by their names. Flags on the command line take precedence. Changes of v and vmodule in the file take effect at once; other changes are shown at /configz and take effect with a restart.' -r -f
complete -c kube-apiserver -l version -d 'Print the version and exit: the Kubernetes version, or all details with --version=raw. A value such as v1.36.2-mine starts the server, which then reports that version to clients.' -r
complete -c kube-apiserver -l emulation-forward-compatible -d 'Also enable the API versions of a resource that became available after the emulated version, if the emulated version has another beta or stable version of that resource. Only with an --emulated-version below that of this release.'
complete -c kube-apiserver -l enable-priority-and-fairness -d 'Limit concurrent requests with API Priority and Fairness (APF): flow schemas assign requests to priority levels, which share the sum of --max-requests-inflight and --max-mutating-requests-inflight and queue what exceeds it. If false, requests above either limit are rejected with status 429.'
complete -c kube-apiserver -l runtime-config-emulation-forward-compatible -d 'Also enable APIs that --runtime-config names and that became available after the emulated version. Only with an --emulated-version below that of this release.'
complete -c kube-apiserver -l send-retry-after-while-not-ready-once -d 'Until /readyz has succeeded once, reject requests with status 503 and a Retry-After header, except those for health checks and metrics.'
complete -c kube-apiserver -l shutdown-send-retry-after -d 'During graceful termination, keep the listener open until requests in flight have been completed, and reject new requests with status 429 and a Retry-After header.'
complete -c kube-apiserver -l enable-garbage-collector -d 'Set the finalizers of the garbage collector on objects that are deleted with the propagation policy Orphan or Foreground. Must equal the flag of the same name of kube-controller-manager.'
complete -c kube-apiserver -l encryption-provider-config-automatic-reload -d 'Reload the file of --encryption-provider-config when it changes. All KMS plugins then share one health check, kms-providers.'
complete -c kube-apiserver -l ephemeral -d 'Keep all objects in memory only: they are lost when the server stops. Certificates and keys are kept only if --data-dir is set.'
complete -c kube-apiserver -l read-only -d 'Serve reads, watches, access reviews and metrics from the etcd cluster of --etcd-servers, which another kube-apiserver writes, and write nothing there. All other requests are refused, or forwarded with --forward-writes-to.'
complete -c kube-apiserver -l watch-cache -d 'Serve get and list requests from the watch cache. If false, they read the store; watches use the watch cache in either case.'
complete -c kube-apiserver -l disable-http2-serving -d 'Serve HTTP/1.1 only.'
complete -c kube-apiserver -l permit-port-sharing -d 'Bind the port with SO_REUSEPORT, so that several processes can listen on the same address and port.'
complete -c kube-apiserver -l audit-log-batch-throttle-enable -d 'Throttle batches to a rate (throttle-qps) and a burst (throttle-burst). Only in batch mode.'
complete -c kube-apiserver -l audit-log-compress -d 'Compress rotated audit log files with gzip.'
complete -c kube-apiserver -l audit-log-truncate-enabled -d 'Truncate events and split batches that exceed the maximum sizes.'
complete -c kube-apiserver -l audit-webhook-batch-throttle-enable -d 'Throttle batches to a rate (throttle-qps) and a burst (throttle-burst). Only in batch mode.'
complete -c kube-apiserver -l audit-webhook-truncate-enabled -d 'Truncate events and split batches that exceed the maximum sizes.'
complete -c kube-apiserver -l compare-dry-run -d 'Compare writes with dryRun=All as well. The other server then runs its admission webhooks for them.'
complete -c kube-apiserver -l enable-live-page -d 'Serve a web page at /debug/live with live figures of the server: requests, clients, watchers, priority levels, store, caches, webhooks. Users need permission to get /debug/live*.'
complete -c kube-apiserver -l profiling -d 'Serve profiles at /debug/pprof/, and /debug/flags/v, which sets the log verbosity while the server runs.'
complete -c kube-apiserver -l anonymous-auth -d 'Accept requests without credentials as anonymous requests, with the user name system:anonymous and the group system:unauthenticated. Always off with --authorization-mode=AlwaysAllow.'
complete -c kube-apiserver -l enable-bootstrap-token-auth -d 'Accept bootstrap tokens, which are secrets of type bootstrap.kubernetes.io/token in the namespace kube-system, for TLS bootstrapping of nodes.'
complete -c kube-apiserver -l service-account-extend-token-expiration -d 'Extend the expiration of projected service account tokens to a year, so that clients which do not reload their token keep working until they are updated.'
complete -c kube-apiserver -l service-account-lookup -d 'Reject service account tokens from secrets that no longer exist.'
complete -c kube-apiserver -l log-json-split-stream -d 'In this log format, write errors and warnings to standard error and info messages to standard output. Needs the feature gate LoggingAlphaOptions.'
complete -c kube-apiserver -l log-text-split-stream -d 'In this log format, write errors and warnings to standard error and info messages to standard output. Needs the feature gate LoggingAlphaOptions.'
complete -c kube-apiserver -l aggregator-reject-forwarding-redirect -d 'Reject redirect responses of aggregated API servers instead of forwarding them to the client.'
complete -c kube-apiserver -l allow-privileged -d 'Allow privileged containers.'
complete -c kube-apiserver -l enable-aggregator-routing -d 'Send requests for aggregated APIs and webhooks to endpoint IPs of their services instead of the cluster IP.'
complete -c kube-apiserver -l enable-logs-handler -d 'DEPRECATED: serve the log files of /var/log at /logs.'
complete -c kube-apiserver -l logical-clusters -d 'Host logical clusters: each object of the resource logicalclusters is a Kubernetes API of its own, served below /clusters/NAME.'
complete -c kube-apiserver -l stop-with-stdin -d 'Stop when standard input ends, as after SIGTERM. A parent process that keeps the other end of a pipe open then stops the server with itself.'
complete -c kube-apiserver -l contention-profiling -d 'Lock contention is not profiled; use perf on the process.'
complete -c kube-apiserver -l permit-address-sharing -d 'SO_REUSEADDR is always set, as Go does on Linux.'
complete -c kube-apiserver -l check-config -d 'Validate all flags and the files that they name, print all errors, and exit: with status 0 if there are none, else 1. Connects to no server and writes no file.'
complete -c kube-apiserver -s h -l help -d 'Print this help and exit.'
