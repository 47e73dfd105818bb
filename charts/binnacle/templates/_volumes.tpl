{{/* A volume of a component: its kubeconfig, and its certificate if cert-manager issues one. */}}
{{- define "binnacle.componentVolume" -}}
- name: {{ .component }}
  projected:
    defaultMode: 0440
    sources:
      - configMap:
          name: {{ include "binnacle.fullname" .root }}-kubeconfigs
          items:
            - {key: {{ .component }}, path: kubeconfig}
      {{- if include "binnacle.certManager" .root }}
      - secret:
          name: {{ include "binnacle.fullname" .root }}-{{ .component | trimPrefix "kube-" }}
          items:
            - {key: ca.crt, path: tls/ca.crt}
            - {key: tls.crt, path: tls/tls.crt}
            - {key: tls.key, path: tls/tls.key}
      {{- end }}
{{- end -}}

{{- define "binnacle.volumes" -}}
{{- $name := include "binnacle.fullname" . -}}
{{- if not .Values.persistence.enabled }}
- {name: data, emptyDir: {}}
{{- end }}
{{- if include "binnacle.certManager" . }}
- name: tls
  secret: {secretName: {{ $name }}-tls, defaultMode: 0440}
- name: kubelet-client
  secret: {secretName: {{ $name }}-kubelet-client, defaultMode: 0440}
{{- end }}
{{- if and .Values.controllerManager.enabled (include "binnacle.ownIssuer" .) }}
- name: ca
  secret: {secretName: {{ $name }}-ca, defaultMode: 0440}
{{- end }}
{{- with .Values.serviceAccountKeys.secretName }}
- name: service-account
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.etcd.secretName }}
- name: etcd
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if .Values.controllerManager.enabled }}
{{ include "binnacle.componentVolume" (dict "root" . "component" "kube-controller-manager") }}
{{- end }}
{{- if .Values.scheduler.enabled }}
{{ include "binnacle.componentVolume" (dict "root" . "component" "kube-scheduler") }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
