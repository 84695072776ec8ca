{{/* The chart's name, or nameOverride. */}}
{{- define "gpu-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of every object's name: the release name if it contains the chart's name. */}}
{{- define "gpu-scheduler.fullname" -}}
{{- $name := include "gpu-scheduler.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The pod selector. It is immutable, so no value is part of it. */}}
{{- define "gpu-scheduler.selector" -}}
app.kubernetes.io/name: {{ include "gpu-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "gpu-scheduler.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gpu-scheduler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gpu-scheduler
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* "true" or empty. A value that is null or missing (helm upgrade --reuse-values) has its default. */}}
{{- define "gpu-scheduler.on" -}}
{{- $value := index . 0 -}}
{{- if kindIs "invalid" $value }}{{ $value = index . 1 }}{{ end -}}
{{- if $value }}true{{ end -}}
{{- end -}}
