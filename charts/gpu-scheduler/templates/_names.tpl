{{/* The chart's name, or what stands for it. */}}
{{- define "gpu-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The beginning of every object's name: the release's if it says the chart's name already. */}}
{{- define "gpu-scheduler.fullname" -}}
{{- $name := include "gpu-scheduler.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the pods: it can never change, so nothing of it is a value. */}}
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

{{/* "true" or nothing. A value that is null or unknown (helm upgrade --reuse-values) is the default. */}}
{{- define "gpu-scheduler.on" -}}
{{- $value := index . 0 -}}
{{- if kindIs "invalid" $value }}{{ $value = index . 1 }}{{ end -}}
{{- if $value }}true{{ end -}}
{{- end -}}
