{{/* The data directory is a folder of the volume: the server refuses one that it does not own or that has other files,
     such as lost+found. */}}
{{- define "binnacle.data" -}}/var/lib/binnacle/data{{- end -}}

{{- define "binnacle.apiserverFlags" -}}
{{- $flags := dict
  "data-dir" (include "binnacle.data" .)
  "bind-address" .Values.bindAddress
  "advertise-address" (default "$(POD_IP)" .Values.advertiseAddress)
  "external-hostname" (include "binnacle.host" .)
  "secure-port" 6443
  "service-cluster-ip-range" .Values.serviceClusterIPRange
  "enable-bootstrap-token-auth" true
  "shutdown-delay-duration" .Values.shutdownDelayDuration -}}
{{- if include "binnacle.certManager" . -}}
{{- $_ := set $flags "tls-cert-file" "/etc/binnacle/tls/tls.crt" -}}
{{- $_ := set $flags "tls-private-key-file" "/etc/binnacle/tls/tls.key" -}}
{{- $_ := set $flags "client-ca-file" "/etc/binnacle/tls/ca.crt" -}}
{{- $_ := set $flags "kubelet-client-certificate" "/etc/binnacle/kubelet-client/tls.crt" -}}
{{- $_ := set $flags "kubelet-client-key" "/etc/binnacle/kubelet-client/tls.key" -}}
{{- end -}}
{{- if .Values.serviceAccountKeys.secretName -}}
{{- $_ := set $flags "service-account-signing-key-file" "/etc/binnacle/service-account/sa.key" -}}
{{- $_ := set $flags "service-account-key-file" "/etc/binnacle/service-account/sa.pub" -}}
{{- end -}}
{{- if .Values.etcd.endpoints -}}
{{- $_ := set $flags "etcd-servers" (join "," .Values.etcd.endpoints) -}}
{{- $_ := set $flags "etcd-prefix" .Values.etcd.prefix -}}
{{- if .Values.etcd.secretName -}}
{{- $_ := set $flags "etcd-cafile" "/etc/binnacle/etcd/ca.crt" -}}
{{- $_ := set $flags "etcd-certfile" "/etc/binnacle/etcd/tls.crt" -}}
{{- $_ := set $flags "etcd-keyfile" "/etc/binnacle/etcd/tls.key" -}}
{{- end -}}
{{- end -}}
{{- include "binnacle.flags" (mergeOverwrite $flags (deepCopy .Values.extraArgs)) -}}
{{- end -}}

{{/* The API server. The start probe is /livez, as in kubeadm's manifests: the server has no /startupz. */}}
{{- define "binnacle.apiserver" -}}
- name: kube-apiserver
  image: {{ include "binnacle.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- if or .Values.controllerManager.enabled .Values.scheduler.enabled }}
  restartPolicy: Always
  {{- end }}
  args:
    {{- include "binnacle.apiserverFlags" . | trim | nindent 4 }}
  env:
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {name: https, containerPort: 6443}
  startupProbe:
    httpGet: {path: /livez, port: https, scheme: HTTPS}
    periodSeconds: 2
    timeoutSeconds: 15
    failureThreshold: {{ .Values.startupFailureThreshold }}
  livenessProbe:
    httpGet: {path: /livez, port: https, scheme: HTTPS}
    periodSeconds: 10
    timeoutSeconds: 15
    failureThreshold: 8
  readinessProbe:
    httpGet: {path: /readyz, port: https, scheme: HTTPS}
    periodSeconds: 2
    timeoutSeconds: 15
    failureThreshold: 3
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /var/lib/binnacle}
    {{- if include "binnacle.certManager" . }}
    - {name: tls, mountPath: /etc/binnacle/tls, readOnly: true}
    - {name: kubelet-client, mountPath: /etc/binnacle/kubelet-client, readOnly: true}
    {{- end }}
    {{- if .Values.serviceAccountKeys.secretName }}
    - {name: service-account, mountPath: /etc/binnacle/service-account, readOnly: true}
    {{- end }}
    {{- if .Values.etcd.secretName }}
    - {name: etcd, mountPath: /etc/binnacle/etcd, readOnly: true}
    {{- end }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Flags that the controller manager and the scheduler have in common. */}}
{{- define "binnacle.componentFlags" -}}
kubeconfig: /etc/kubernetes/kubeconfig
authentication-kubeconfig: /etc/kubernetes/kubeconfig
authorization-kubeconfig: /etc/kubernetes/kubeconfig
bind-address: {{ .Values.bindAddress | quote }}
leader-elect: {{ gt (int .Values.replicas) 1 }}
{{- end -}}

{{- define "binnacle.controllerManagerFlags" -}}
{{- $flags := include "binnacle.componentFlags" . | fromYaml -}}
{{- $pki := printf "%s/pki" (include "binnacle.data" .) -}}
{{- $_ := set $flags "controllers" "*,bootstrapsigner,tokencleaner" -}}
{{- $_ := set $flags "use-service-account-credentials" true -}}
{{- $_ := set $flags "service-account-private-key-file" (printf "%s/sa.key" $pki) -}}
{{- if .Values.serviceAccountKeys.secretName -}}
{{- $_ := set $flags "service-account-private-key-file" "/etc/binnacle/service-account/sa.key" -}}
{{- end -}}
{{- if include "binnacle.ownIssuer" . -}}
{{- $_ := set $flags "cluster-signing-cert-file" "/etc/binnacle/ca/tls.crt" -}}
{{- $_ := set $flags "cluster-signing-key-file" "/etc/binnacle/ca/tls.key" -}}
{{- end -}}
{{- if include "binnacle.certManager" . -}}
{{- $_ := set $flags "root-ca-file" "/etc/kubernetes/tls/ca.crt" -}}
{{- else -}}
{{- $_ := set $flags "root-ca-file" (printf "%s/ca-bundle.crt" $pki) -}}
{{- $_ := set $flags "cluster-signing-cert-file" (printf "%s/ca.crt" $pki) -}}
{{- $_ := set $flags "cluster-signing-key-file" (printf "%s/ca.key" $pki) -}}
{{- end -}}
{{- if .Values.controllerManager.podCIDR -}}
{{- $_ := set $flags "allocate-node-cidrs" true -}}
{{- $_ := set $flags "cluster-cidr" .Values.controllerManager.podCIDR -}}
{{- $_ := set $flags "service-cluster-ip-range" .Values.serviceClusterIPRange -}}
{{- end -}}
{{- include "binnacle.flags" (mergeOverwrite $flags (deepCopy .Values.controllerManager.extraArgs)) -}}
{{- end -}}

{{- define "binnacle.schedulerFlags" -}}
{{- $flags := include "binnacle.componentFlags" . | fromYaml -}}
{{- include "binnacle.flags" (mergeOverwrite $flags (deepCopy .Values.scheduler.extraArgs)) -}}
{{- end -}}

{{/* The controller manager or the scheduler: component, values, flags, port. */}}
{{- define "binnacle.component" -}}
{{- $root := .root -}}
- name: {{ .component }}
  image: {{ printf "%s:%s" .values.image.repository (.values.image.tag | default $root.Values.kubernetesVersion) | quote }}
  command: [{{ .component }}]
  args:
    {{- .flags | trim | nindent 4 }}
  ports:
    - {name: {{ .portName }}, containerPort: {{ .port }}}
  startupProbe:
    httpGet: {path: /healthz, port: {{ .portName }}, scheme: HTTPS}
    periodSeconds: 5
    timeoutSeconds: 15
    failureThreshold: 24
  livenessProbe:
    httpGet: {path: /healthz, port: {{ .portName }}, scheme: HTTPS}
    periodSeconds: 10
    timeoutSeconds: 15
    failureThreshold: 8
  resources:
    {{- toYaml .values.resources | nindent 4 }}
  securityContext:
    {{- toYaml $root.Values.securityContext | nindent 4 }}
  volumeMounts:
    - {name: {{ .component }}, mountPath: /etc/kubernetes, readOnly: true}
    {{- if or (not (include "binnacle.certManager" $root)) (eq .component "kube-controller-manager") }}
    - {name: data, mountPath: /var/lib/binnacle, readOnly: true}
    {{- end }}
    {{- if eq .component "kube-controller-manager" }}
    {{- if include "binnacle.ownIssuer" $root }}
    - {name: ca, mountPath: /etc/binnacle/ca, readOnly: true}
    {{- end }}
    {{- if $root.Values.serviceAccountKeys.secretName }}
    - {name: service-account, mountPath: /etc/binnacle/service-account, readOnly: true}
    {{- end }}
    {{- end }}
{{- end -}}
