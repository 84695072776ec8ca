{{/* Labels of an object, of this name if one is given: (list . "name"). */}}
{{- define "fake-gpu-operator.labelsOf" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: gpu-scheduler
{{- end -}}

{{- define "fake-gpu-operator.labels" -}}
{{- include "fake-gpu-operator.labelsOf" (list . "fake-gpu-operator") -}}
{{- end -}}

{{/* Whether a section is enabled; it is by default. */}}
{{- define "fake-gpu-operator.isOn" -}}
{{- $on := (. | default dict).enabled -}}
{{- if or (kindIs "invalid" $on) $on -}}yes{{- end -}}
{{- end -}}

{{/* Whether nodes get an agent. */}}
{{- define "fake-gpu-operator.hasAgent" -}}
{{- include "fake-gpu-operator.isOn" .Values.devicePlugin -}}
{{- include "fake-gpu-operator.isOn" .Values.statusExporter -}}
{{- include "fake-gpu-operator.draAgent" . -}}
{{- end -}}

{{/* Whether DRA publishes GPUs. */}}
{{- define "fake-gpu-operator.dra" -}}
{{- if (.Values.draPlugin | default dict).enabled -}}yes{{- end -}}
{{- if (.Values.kwokDraPlugin | default dict).enabled -}}yes{{- end -}}
{{- end -}}

{{/* Whether there are compute domains. */}}
{{- define "fake-gpu-operator.domains" -}}
{{- if (.Values.computeDomainDraPlugin | default dict).enabled -}}yes{{- end -}}
{{- end -}}

{{/* Whether agents are DRA drivers. */}}
{{- define "fake-gpu-operator.draAgent" -}}
{{- if (.Values.draPlugin | default dict).enabled -}}yes{{- end -}}
{{- include "fake-gpu-operator.domains" . -}}
{{- end -}}

{{/* The DRA mode: (list DRA-section device-plugin-section). */}}
{{- define "fake-gpu-operator.draMode" -}}
{{- if not (index . 0 | default dict).enabled -}}none
{{- else if include "fake-gpu-operator.isOn" (index . 1) -}}beside
{{- else -}}instead
{{- end -}}
{{- end -}}

{{/* Whether NUMA zones are published as NodeResourceTopology. */}}
{{- define "fake-gpu-operator.zones" -}}
{{- if ((.Values.statusExporter | default dict).nodeResourceTopology | default dict).enabled -}}yes{{- end -}}
{{- end -}}

{{/* Whether agents serve the pod resources API with NUMA zones. */}}
{{- define "fake-gpu-operator.podResources" -}}
{{- if ((.Values.statusExporter | default dict).podResources | default dict).enabled -}}yes{{- end -}}
{{- end -}}

{{/* The agent's HTTP port. */}}
{{- define "fake-gpu-operator.agentPort" -}}
{{- ((.Values.operatorConfig | default dict).node | default dict).port | default 9400 -}}
{{- end -}}

{{/* The configuration file; the chart's own settings override the user's. */}}
{{- define "fake-gpu-operator.config" -}}
{{- $config := .Values.operatorConfig | default dict | deepCopy -}}
{{- $files := .Values.config | default dict -}}
{{- $plugin := .Values.devicePlugin | default dict -}}
{{- $_ := set $config "apiVersion" "gpu-scheduler.io/v1" -}}
{{- $_ := set $config "kind" "FakeGpuConfiguration" -}}
{{- $_ := set $config "topology" (dict "name" "topology" "namespace" .Release.Namespace) -}}
{{- if $files.name -}}
{{- $own := dict "name" $files.name "namespace" .Release.Namespace -}}
{{- $_ := set $config "devicePluginConfig" $own -}}
{{- end -}}
{{- if (.Values.statusUpdater | default dict).disableNodeLabeling -}}
{{- $_ := set $config "nodeLabels" (merge (dict "enabled" false) ($config.nodeLabels | default dict)) -}}
{{- end -}}
{{- $node := $config.node | default dict -}}
{{- $_ := set $node "devicePlugin" (include "fake-gpu-operator.isOn" $plugin | not | not) -}}
{{- $_ := set $node "exporter" (include "fake-gpu-operator.isOn" .Values.statusExporter | not | not) -}}
{{- $_ := set $node "kubeletFolder" ($plugin.kubeletFolder | default "/var/lib/kubelet") -}}
{{- $_ := set $node "folder" "/runai" -}}
{{- $_ := set $node "hostFolder" ($plugin.hostFolder | default "/var/lib/runai") -}}
{{- $_ := set $node "prometheusUrl" ((.Values.prometheus | default dict).url | default "") -}}
{{- if include "fake-gpu-operator.podResources" . -}}
{{- $_ := set $node "podResourcesFolder" "/pod-resources" -}}
{{- end -}}
{{- $_ := set $config "node" $node -}}
{{- if include "fake-gpu-operator.dra" . -}}
{{- $dra := $config.dra | default dict -}}
{{- $_ := set $dra "kubelet" (include "fake-gpu-operator.draMode" (list .Values.draPlugin $plugin)) -}}
{{- $_ := set $dra "kwok" (include "fake-gpu-operator.draMode" (list .Values.kwokDraPlugin .Values.kwokGpuDevicePlugin)) -}}
{{- $_ := set $config "dra" $dra -}}
{{- end -}}
{{- if include "fake-gpu-operator.domains" . -}}
{{- $_ := set $config "computeDomains" (merge (dict "enabled" true) ($config.computeDomains | default dict)) -}}
{{- end -}}
{{- if include "fake-gpu-operator.zones" . -}}
{{- $_ := set $config "nodeResourceTopology" (dict "enabled" true) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The pools. The former system's default pool is added here, because Helm would merge a pool of values.yaml
     with the user's pool of the same name, which may have another format. */}}
{{- define "fake-gpu-operator.topology" -}}
{{- $topology := .Values.topology | default dict | deepCopy -}}
{{- $pools := $topology.nodePools | default dict -}}
{{- if not $pools.default -}}
{{- $_ := set $pools "default" (dict "gpuProduct" "Tesla-K80" "gpuCount" 2 "gpuMemory" 11441) -}}
{{- end -}}
{{- $_ := set $topology "nodePools" $pools -}}
{{- toYaml $topology -}}
{{- end -}}
