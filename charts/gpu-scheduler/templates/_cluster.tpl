{{/*
The objects of a file below files/cluster, which are copies of the repository's cluster/ (`make
charts` renews them), with the names of this release instead of those of the default one.
Arguments: the root, the file's name, annotations, and optionally resources or API groups whose rules are
omitted.
*/}}
{{- define "gpu-scheduler.cluster" -}}
{{- $root := index . 0 -}}
{{- $annotations := index . 2 -}}
{{- $without := list -}}
{{- if gt (len .) 3 }}{{ $without = index . 3 }}{{ end -}}
{{- $s := include "gpu-scheduler.settings" $root | fromYaml -}}
{{- $user := printf "system:serviceaccount:%s:%s" $s.namespace $s.account -}}
{{- range regexSplit "(?m)^---\\s*$" ($root.Files.Get (printf "files/cluster/%s" (index $ 1))) -1 }}
{{- $object := . | replace "system:serviceaccount:gpu-scheduler-system:gpu-scheduler" $user | fromYaml -}}
{{- $meta := $object.metadata -}}
{{- if hasPrefix "gpu-scheduler" $meta.name }}
{{- $_ := set $meta "name" (printf "%s%s" $s.fullname (trimPrefix "gpu-scheduler" $meta.name)) -}}
{{- end }}
{{- $_ := set $meta "labels" (include "gpu-scheduler.labels" $root | fromYaml) -}}
{{- with $annotations }}{{ $_ := set $meta "annotations" . }}{{ end -}}
{{- if and $meta.namespace (ne $object.kind "Namespace") }}{{ $_ := set $meta "namespace" $s.namespace }}{{ end -}}
{{- range $object.rules }}
{{- if has "gpu-scheduler-teams" .resourceNames }}{{ $_ := set . "resourceNames" (list $s.teams.configMap) }}{{ end -}}
{{- end }}
{{- if and $object.rules $without }}
{{- $left := list -}}
{{- range $object.rules }}
{{- if not (or (has (first .resources) $without) (has (first .apiGroups) $without)) }}{{ $left = append $left . }}{{ end -}}
{{- end }}
{{- $_ := set $object "rules" $left -}}
{{- end }}
{{- with $object.roleRef }}
{{- $_ := set . "name" $meta.name -}}
{{- $_ := set $object "subjects" (list (dict "kind" "ServiceAccount" "name" $s.account "namespace" $s.namespace)) -}}
{{- end }}
{{- with ($object.spec | default dict).policyName }}
{{- $_ := set $object.spec "policyName" (printf "%s%s" $s.fullname (trimPrefix "gpu-scheduler" .)) -}}
{{- end }}
{{- range ($object.spec | default dict).variables }}
{{- if hasKey $s.policyVariables .name }}
{{- $_ := set . "expression" (get $s.policyVariables .name) -}}
{{- end }}
{{- end }}
{{- with ($object.spec | default dict).paramRef }}
{{- $_ := set . "name" $s.lease -}}
{{- $_ := set . "namespace" $s.namespace -}}
{{- end }}
{{- if eq $object.kind "FlowSchema" }}
{{- range $rule := $object.spec.rules }}
{{- range $rule.subjects }}
{{- $_ := set . "serviceAccount" (dict "name" $s.account "namespace" $s.namespace) -}}
{{- end }}
{{- range $rule.resourceRules }}
{{- if has "gpu-scheduler-system" .namespaces }}{{ $_ := set . "namespaces" (list $s.namespace) }}{{ end -}}
{{- end }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end -}}

{{/* The rules of a role in files/cluster/rbac.yaml, by its kind. */}}
{{- define "gpu-scheduler.rules" -}}
{{- $root := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $s := include "gpu-scheduler.settings" $root | fromYaml -}}
{{- range regexSplit "(?m)^---\\s*$" ($root.Files.Get "files/cluster/rbac.yaml") -1 }}
{{- $object := fromYaml . -}}
{{- if eq $object.kind $kind }}
{{- range $object.rules }}
{{- if has "gpu-scheduler" .resourceNames }}{{ $_ := set . "resourceNames" (list $s.lease) }}{{ end -}}
{{- end }}
{{- toYaml $object.rules }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The version of MutatingAdmissionPolicies that the API server has: v1 from Kubernetes 1.36 on, v1beta1 if
it is enabled in an older one, else empty. `helm template` knows versions, and no kinds. */}}
{{- define "gpu-scheduler.mutatingPolicyVersion" -}}
{{- if or (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) -}}
admissionregistration.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}
admissionregistration.k8s.io/v1beta1
{{- end }}
{{- end -}}
