{{/*
All settings that the templates use, computed once, as YAML. Sections may be null and keys may be
missing: the values of an older release do not have newer keys.
*/}}
{{- define "gpu-scheduler.settings" -}}
{{- $values := .Values -}}
{{- $fullname := include "gpu-scheduler.fullname" . -}}
{{- $webhook := $values.webhook | default dict -}}
{{- $certificates := $webhook.certificates | default dict -}}
{{- $enabled := include "gpu-scheduler.on" (list $webhook.enabled true) -}}
{{- $mode := $certificates.mode | default "self" -}}
{{- if and $webhook.caBundle (eq $mode "self") }}{{ $mode = "existingSecret" }}{{ end -}}
{{- $secret := $certificates.secretName | default (printf "%s-webhook-tls" $fullname) -}}
{{- $service := $webhook.serviceName | default (printf "%s-webhook" $fullname) -}}
{{- $autoscaling := $values.autoscaling | default dict -}}
{{- $replicas := ternary 2 $values.replicaCount (kindIs "invalid" $values.replicaCount) | int -}}
{{- $least := ternary (int ($autoscaling.minReplicas | default 1)) $replicas (not (empty $autoscaling.enabled)) -}}
{{- $pdb := $values.podDisruptionBudget | default dict -}}
{{- $account := $values.serviceAccount | default dict -}}
{{- $metrics := $values.metrics | default dict -}}
{{- $admission := $values.admissionPolicies | default dict -}}
{{- $forwarding := $values.forwarding | default dict -}}
{{- $decisions := $values.decisionsApi | default dict -}}
{{- $health := $values.service | default dict -}}
{{- $config := $values.config | default dict -}}
{{- /* YAML reads a bare on or off as a boolean. */}}
{{- $restore := ($config.restore | default dict).mode -}}
{{- $moves := ternary "on" (toString $restore) (kindIs "invalid" $restore) -}}
{{- $moves = get (dict "true" "on" "false" "off" "on" "on" "off" "off" "report" "report") $moves -}}
{{- $preempts := $config.preemption | default dict -}}
{{- $preemption := ternary ($preempts.victims | default "own") "off" (eq (include "gpu-scheduler.on" (list $preempts.enabled true)) "true") -}}
{{- $teams := $config.teams | default dict -}}
{{- $scheduler := ($values.scheduler | default dict).name | default "gpu-scheduler" -}}
{{- $unseen := concat (list "kube-system" .Release.Namespace) ($webhook.excludedNamespaces | default list) | uniq | sortAlpha -}}
fullname: {{ $fullname }}
namespace: {{ .Release.Namespace }}
schedulerName: {{ $scheduler }}
moves: {{ $moves | quote }}
preempts: {{ ne $preemption "off" }}
# For the admission policies: the pods of this scheduler, and the pods that the webhook reviews.
policyVariables:
  scheduler: {{ $scheduler | toJson | quote }}
  schedulers: {{ prepend ($admission.otherSchedulers | default list) $scheduler | toJson | quote }}
  preemption: {{ $preemption | toJson | quote }}
  scope: {{ ($config.fallback | default dict).scope | default "ours" | toJson | quote }}
  unseen: {{ $unseen | toJson | quote }}
unseen: {{ $unseen | toJson }}
lease: {{ $fullname }}
teams:
  source: {{ $teams.source | default (ternary "none" "configMap" (empty $values.teams)) }}
  configMap: {{ $teams.configMap | default "gpu-scheduler-teams" }}
account: {{ $account.name | default (ternary $fullname "default" (eq (include "gpu-scheduler.on" (list $account.create true)) "true")) }}
makesAccount: {{ include "gpu-scheduler.on" (list $account.create true) | default "false" }}
makesRoles: {{ include "gpu-scheduler.on" (list ($values.rbac | default dict).create true) | default "false" }}
replicas: {{ $replicas }}
leastReplicas: {{ $least }}
scales: {{ not (empty $autoscaling.enabled) }}
disruptionBudget: {{ and (gt $least 1) (eq (include "gpu-scheduler.on" (list $pdb.enabled true)) "true") }}
healthService: {{ $health.name | default $fullname }}
healthPort: {{ $health.targetPort | default 8080 }}
networkPolicy: {{ include "gpu-scheduler.on" (list ($values.networkPolicy | default dict).enabled true) | default "false" }}
serviceMonitor: {{ not (empty (($metrics.serviceMonitor | default dict).enabled)) }}
prometheusRule: {{ not (empty (($metrics.prometheusRule | default dict).enabled)) }}
dashboards: {{ not (empty (($metrics.dashboards | default dict).enabled)) }}
protectedAnnotations: {{ include "gpu-scheduler.on" (list $admission.protectedAnnotations true) | default "false" }}
fencing: {{ include "gpu-scheduler.on" (list $admission.fencing true) | default "false" }}
flowSchemas: {{ include "gpu-scheduler.on" (list ($values.flowSchemas | default dict).enabled true) | default "false" }}
tests: {{ include "gpu-scheduler.on" (list ($values.tests | default dict).enabled true) | default "false" }}
forwards: {{ and (eq $enabled "true") (eq (include "gpu-scheduler.on" (list $forwarding.enabled true)) "true") }}
forwardPort: {{ $forwarding.port | default 8444 }}
aggregated: {{ not (empty $decisions.aggregated) }}
dashboard: {{ include "gpu-scheduler.on" (list ($values.dashboard | default dict).enabled true) | default "false" }}
decisionsPort: {{ $decisions.port | default 8445 }}
webhook:
  enabled: {{ $enabled | default "false" }}
  mode: {{ $mode }}
  service: {{ $service }}
  serverName: {{ printf "%s.%s.svc" $service .Release.Namespace }}
  configuration: {{ $webhook.configurationName | default (printf "%s-webhook" $fullname) }}
  secret: {{ $secret }}
  # The Secret that the scheduler writes: certificate and token, or only the replicas' token.
  keptSecret: {{ ternary $secret (printf "%s-replicas" $fullname) (eq $mode "self") }}
  # The Secret of the CA, which the chart creates once.
  authoritySecret: {{ printf "%s-webhook-ca" $fullname }}
  # Only the scheduler writes there; the webhook's mount is read-only.
  kept: /kept
  certificates: {{ ternary "/kept" "/certs" (eq $mode "self") }}
  port: {{ $webhook.port | default 8443 }}
  days: {{ $certificates.days | default 90 }}
{{- end -}}

{{/* The names of the webhook's Service, as a certificate must carry them. */}}
{{- define "gpu-scheduler.serverNames" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
- {{ $s.webhook.service }}
- {{ $s.webhook.service }}.{{ $s.namespace }}
- {{ $s.webhook.serverName }}
- {{ $s.webhook.serverName }}.cluster.local
{{- end -}}
