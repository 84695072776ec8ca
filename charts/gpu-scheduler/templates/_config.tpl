{{/* The scheduler's configuration file: the user's sections, overridden by the chart's own settings. */}}
{{- define "gpu-scheduler.config" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
{{- $config := .Values.config | default dict | deepCopy -}}
{{- $_ := set $config "apiVersion" "gpu-scheduler.io/v1" -}}
{{- $_ := set $config "kind" "GpuSchedulerConfiguration" -}}
{{- $_ := set $config "schedulerName" $s.schedulerName -}}
{{- $_ := set $config "healthAddress" (printf "0.0.0.0:%v" $s.healthPort) -}}
{{- $_ := set $config "costs" (dict "prices" "/etc/gpu-scheduler/prices.yaml") -}}
{{- $election := dict "resourceName" $s.lease "resourceNamespace" $s.namespace -}}
{{- $_ := set $config "leaderElection" (mergeOverwrite ($config.leaderElection | default dict) $election) -}}
{{- $webhook := dict "enabled" $s.webhook.enabled -}}
{{- if $s.webhook.enabled }}{{ $_ := set $webhook "socket" "/run/gpu-scheduler/place.sock" }}{{ end -}}
{{- $_ := set $config "webhook" (mergeOverwrite ($config.webhook | default dict) $webhook) -}}
{{- if $s.webhook.enabled }}
{{- $kept := dict "secret" $s.webhook.keptSecret "directory" $s.webhook.kept -}}
{{- if eq $s.webhook.mode "self" }}
{{- $_ := set $kept "names" (include "gpu-scheduler.serverNames" . | fromYamlArray) -}}
{{- $_ := set $kept "authority" $s.webhook.authoritySecret -}}
{{- $_ := set $kept "days" (int $s.webhook.days) -}}
{{- end }}
{{- $_ := set $config "certificates" $kept -}}
{{- end }}
{{- if $s.forwards }}
{{- $forward := dict "address" (printf ":%v" $s.forwardPort) "serverName" $s.webhook.serverName -}}
{{- $_ := set $forward "certDir" $s.webhook.certificates -}}
{{- $_ := set $forward "caFile" (printf "%s/ca.crt" $s.webhook.certificates) -}}
{{- $_ := set $forward "tokenFile" (printf "%s/token" $s.webhook.kept) -}}
{{- $_ := set $config "forward" $forward -}}
{{- end }}
{{- if ne $s.teams.source "none" }}{{ $_ := set $config "teams" $s.teams }}{{ end -}}
{{- if $s.aggregated }}{{ $_ := set $config "decisionsApi" (dict "aggregated" true) }}{{ end -}}
{{- if not $s.dashboard }}{{ $_ := set $config "dashboard" (dict "enabled" false) }}{{ end -}}
{{- toYaml $config -}}
{{- end -}}
