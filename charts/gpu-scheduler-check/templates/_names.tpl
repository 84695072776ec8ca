{{- define "gpu-scheduler-check.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for a pod's index and a revision hash behind it. */}}
{{- define "gpu-scheduler-check.fullname" -}}
{{- $name := include "gpu-scheduler-check.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpu-scheduler-check.selector" -}}
app.kubernetes.io/name: {{ include "gpu-scheduler-check.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpu-scheduler-check.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gpu-scheduler-check.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gpu-scheduler
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name, namespace, labels and annotations of every object. */}}
{{- define "gpu-scheduler-check.metadata" -}}
name: {{ include "gpu-scheduler-check.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "gpu-scheduler-check.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* "true" or empty. A value that is null or missing has its default. */}}
{{- define "gpu-scheduler-check.on" -}}
{{- $value := index . 0 -}}
{{- if kindIs "invalid" $value }}{{ $value = index . 1 }}{{ end -}}
{{- if $value }}true{{ end -}}
{{- end -}}

{{- define "gpu-scheduler-check.account" -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- $own := include "gpu-scheduler-check.fullname" . -}}
{{- $account.name | default (ternary $own "default" (eq (include "gpu-scheduler-check.on" (list $account.create true)) "true")) -}}
{{- end -}}

{{- define "gpu-scheduler-check.image" -}}
{{- $image := .Values.image | default dict -}}
{{- $repository := $image.repository | default "gpu-scheduler-check" -}}
{{- if $image.digest }}{{ $repository }}@{{ $image.digest }}{{ else }}{{ $repository }}:{{ $image.tag | default "latest" }}{{ end -}}
{{- end -}}
