{{- define "fake-gpu-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: fake-gpu-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gpu-scheduler
{{- end -}}

{{/* The configuration file; the chart decides where the pools are read. */}}
{{- define "fake-gpu-operator.config" -}}
{{- $config := .Values.config | default dict | deepCopy -}}
{{- $_ := set $config "apiVersion" "gpu-scheduler.io/v1" -}}
{{- $_ := set $config "kind" "FakeGpuConfiguration" -}}
{{- $_ := set $config "topology" (dict "name" "topology" "namespace" .Release.Namespace) -}}
{{- toYaml $config -}}
{{- end -}}
