{{/*
The CA of the webhook's certificate, as YAML: `certificate` and `key` (PEM), and `bundle`, which the
API server trusts.

The CA is created once: an existing one is rendered again, so an upgrade changes nothing. A rendering
without access to the cluster (helm template, ArgoCD) creates another one; ArgoCD's ignoreDifferences
keep the first. Secret and registration must be of one rendering, so the result is stored in .Release,
which all templates of a rendering share.
*/}}
{{- define "gpu-scheduler.authority" -}}
{{- if not (hasKey .Release "gpuSchedulerAuthority") }}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
{{- $kept := (lookup "v1" "Secret" $s.namespace $s.webhook.authoritySecret | default dict).data | default dict -}}
{{- $made := dict -}}
{{- if and (index $kept "ca.crt") (index $kept "ca.key") }}
{{- $certificate := index $kept "ca.crt" | b64dec -}}
{{- $made = dict "certificate" $certificate "key" (index $kept "ca.key" | b64dec) "bundle" $certificate -}}
{{- else }}
{{- $ca := genCAWithKey "gpu-scheduler webhook authority" 3650 (genPrivateKey "ecdsa") -}}
{{- /* Replicas may still serve a certificate of the former CA; it is trusted until the next upgrade. */ -}}
{{- $serving := (lookup "v1" "Secret" $s.namespace $s.webhook.secret | default dict).data | default dict -}}
{{- $former := index $serving "ca.crt" | default "" | b64dec -}}
{{- $made = dict "certificate" $ca.Cert "key" $ca.Key "bundle" (printf "%s%s" $ca.Cert $former) -}}
{{- end }}
{{- $_ := set .Release "gpuSchedulerAuthority" $made -}}
{{- end }}
{{- toYaml .Release.gpuSchedulerAuthority -}}
{{- end -}}

{{/*
What the API server trusts of the webhook's certificate, base64. With cert-manager it is
cert-manager's: the chart leaves it out, so no upgrade and no ArgoCD takes it away.
*/}}
{{- define "gpu-scheduler.caBundle" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
{{- if eq $s.webhook.mode "existingSecret" -}}
{{- (.Values.webhook | default dict).caBundle -}}
{{- else if eq $s.webhook.mode "self" -}}
{{- (include "gpu-scheduler.authority" . | fromYaml).bundle | b64enc -}}
{{- end -}}
{{- end -}}

{{/* "true" where a release before decision 0025 has a role on the registration, else empty. */}}
{{- define "gpu-scheduler.hasFormerRole" -}}
{{- $name := printf "%s-certificates" (include "gpu-scheduler.fullname" .) -}}
{{- if (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" $name | default dict).rules }}true{{ end -}}
{{- end -}}
