{{- define "binnacle.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "binnacle.selector" -}}
app.kubernetes.io/name: binnacle
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "binnacle.labels" -}}
{{ include "binnacle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "binnacle.host" -}}
{{- default (printf "%s.%s.svc" (include "binnacle.fullname" .) .Release.Namespace) .Values.externalHostname -}}
{{- end -}}

{{/* "true" if cert-manager issues the certificates. */}}
{{- define "binnacle.certManager" -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}true{{- end -}}
{{- end -}}

{{/* "true" if the chart creates the authority. */}}
{{- define "binnacle.ownIssuer" -}}
{{- if and (include "binnacle.certManager" .) (not .Values.certificates.certManager.issuerRef.name) -}}true{{- end -}}
{{- end -}}

{{- define "binnacle.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "set image.repository to the repository with the image of Binnacle" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Flags from a dictionary, as list items in the order of their names. */}}
{{- define "binnacle.flags" -}}
{{- range $name, $value := . }}
{{- if kindIs "slice" $value }}
{{- range $value }}
- {{ printf "--%s=%v" $name . | quote }}
{{- end }}
{{- else if kindIs "float64" $value }}
- {{ printf "--%s=%s" $name (toJson $value) | quote }}
{{- else if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Fails if values contradict each other. */}}
{{- define "binnacle.validate" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if not .Values.etcd.endpoints -}}
{{- fail "replicas: more than one pod needs etcd.endpoints, because one process owns an embedded store" -}}
{{- end -}}
{{- if not (include "binnacle.certManager" .) -}}
{{- fail "replicas: more than one pod needs certificates.mode cert-manager, because each pod would create its own authority" -}}
{{- end -}}
{{- if not .Values.serviceAccountKeys.secretName -}}
{{- fail "replicas: more than one pod needs serviceAccountKeys.secretName, because each pod would sign tokens with its own key" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not (include "binnacle.certManager" .)) (not .Values.serviceMonitor.authorization) -}}
{{- fail "serviceMonitor: certificates.mode own needs serviceMonitor.authorization, because anonymous users cannot read metrics" -}}
{{- end -}}
{{- end -}}
