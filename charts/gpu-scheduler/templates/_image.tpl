{{/*
The image of a container and its pull policy, as YAML. `make charts` copies this file into each chart.

  include "gpu-scheduler.image" (list . "gpu-scheduler")

The registry of global.imageRegistry replaces the registry of image.repository. As in image
references, the part before the first slash is a registry if it has a dot or a port, or is localhost.
*/}}
{{- define "gpu-scheduler.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image | default dict -}}
{{- $repository := $image.repository | default (index . 1) -}}
{{- $tag := $image.tag | default $root.Chart.AppVersion | toString -}}
{{- with ($root.Values.global | default dict).imageRegistry -}}
{{- $parts := splitList "/" $repository -}}
{{- if and (gt (len $parts) 1) (regexMatch "[.:]|^localhost$" (first $parts)) }}{{ $parts = rest $parts }}{{ end -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (join "/" $parts) -}}
{{- end -}}
image: {{ ternary (printf "%s:%s" $repository $tag) (printf "%s@%s" $repository ($image.digest | default "")) (empty $image.digest) | quote }}
imagePullPolicy: {{ $image.pullPolicy | default (ternary "Always" "IfNotPresent" (and (eq $tag "latest") (empty $image.digest))) }}
{{- end -}}
