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

{{/* The lines of the map; none if the default scheduler places the pods. */}}
{{- define "gpu-scheduler-check.map" -}}
{{- $scheduling := .Values.gpuScheduling | default dict -}}
{{- if include "gpu-scheduler-check.on" (list $scheduling.enabled true) -}}
{{- range $scheduling.schedulingMap }}
{{ .podIndex }}={{ .nodeName }}:{{ .gpuDevices }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The number of pods: as many as the map has lines, or one. */}}
{{- define "gpu-scheduler-check.replicas" -}}
{{- $lines := len (((.Values.gpuScheduling | default dict).schedulingMap) | default list) -}}
{{- ternary (max 1 $lines) (.Values.replicaCount | int) (kindIs "invalid" .Values.replicaCount) -}}
{{- end -}}

{{/* The container's resources, with one GPU for a pod without a map. */}}
{{- define "gpu-scheduler-check.resources" -}}
{{- $resources := .Values.resources | default dict | deepCopy -}}
{{- $scheduling := .Values.gpuScheduling | default dict -}}
{{- if and (include "gpu-scheduler-check.on" (list $scheduling.enabled true)) (not $scheduling.schedulingMap) -}}
{{- $one := dict ($scheduling.resource | default "nvidia.com/gpu") 1 -}}
{{- $_ := set $resources "limits" (merge $one ($resources.limits | default dict)) -}}
{{- end -}}
{{- with $resources }}{{ toYaml . }}{{ end -}}
{{- end -}}
