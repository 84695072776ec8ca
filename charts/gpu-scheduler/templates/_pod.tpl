{{/* The pod: the scheduler container with the token, and the webhook container without. */}}
{{- define "gpu-scheduler.podSpec" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
serviceAccountName: {{ $s.account }}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ ternary 30 .Values.terminationGracePeriodSeconds (kindIs "invalid" .Values.terminationGracePeriodSeconds) }}
containers:
  {{- include "gpu-scheduler.schedulerContainer" . | nindent 2 }}
  {{- if $s.webhook.enabled }}
  {{- include "gpu-scheduler.webhookContainer" . | nindent 2 }}
  {{- end }}
volumes:
  {{- include "gpu-scheduler.podVolumes" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "gpu-scheduler.selector" . | nindent 14 }}
  {{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gpu-scheduler.schedulerContainer" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
{{- $scheduler := .Values.scheduler | default dict -}}
- name: scheduler
  {{- include "gpu-scheduler.image" (list . "gpu-scheduler") | nindent 2 }}
  command: [python, -m, scheduler]
  args:
    - --config=/etc/gpu-scheduler/config.yaml
    {{- if $scheduler.logJson }}
    - --log-json
    {{- end }}
    - --log-level={{ $scheduler.logLevel | default "info" }}
    {{- if $scheduler.verbose }}
    - --verbose
    {{- end }}
  env:
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - name: SCHEDULER_NAME
      value: {{ $s.schedulerName | quote }}
    {{- with .Values.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {name: health, containerPort: {{ $s.healthPort }}, protocol: TCP}
    {{- if $s.forwards }}
    - {name: forward, containerPort: {{ $s.forwardPort }}, protocol: TCP}
    {{- end }}
  {{- with .Values.livenessProbe }}
  livenessProbe:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.readinessProbe }}
  readinessProbe:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - {name: config, mountPath: /etc/gpu-scheduler, readOnly: true}
    - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
    {{- if $s.webhook.enabled }}
    - {name: shared, mountPath: /run/gpu-scheduler}
    - {name: kept, mountPath: {{ $s.webhook.kept }}}
    {{- if ne $s.webhook.mode "self" }}
    - {name: certs, mountPath: /certs, readOnly: true}
    {{- end }}
    {{- end }}
    {{- with .Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "gpu-scheduler.webhookContainer" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
{{- $webhook := .Values.webhook | default dict -}}
{{- $scheduler := .Values.scheduler | default dict -}}
- name: webhook
  {{- include "gpu-scheduler.image" (list . "gpu-scheduler") | nindent 2 }}
  command: [python, -m, webhook]
  args:
    - --socket=/run/gpu-scheduler/place.sock
    - --cert-dir={{ $s.webhook.certificates }}
    - --port={{ $s.webhook.port }}
    - --scheduler-name={{ $s.schedulerName }}
    - --wait-s=120
    - --drain-s={{ ternary 5 $webhook.drainSeconds (kindIs "invalid" $webhook.drainSeconds) }}
    {{- if $webhook.clientCAConfigMap }}
    - --client-ca=/client-ca/ca.crt
    {{- end }}
    {{- if $s.aggregated }}
    - --decisions-port={{ $s.decisionsPort }}
    {{- end }}
    {{- if $scheduler.logJson }}
    - --log-format=json
    {{- end }}
    - --log-level={{ ternary "debug" ($scheduler.logLevel | default "info") (default false $scheduler.verbose) }}
  ports:
    - {name: webhook, containerPort: {{ $s.webhook.port }}, protocol: TCP}
    {{- if $s.aggregated }}
    - {name: decisions, containerPort: {{ $s.decisionsPort }}, protocol: TCP}
    {{- end }}
  # The certificate may not exist yet.
  startupProbe:
    httpGet: {path: /healthz, port: webhook, scheme: HTTPS}
    periodSeconds: 1
    failureThreshold: 150
  {{- with $webhook.livenessProbe }}
  livenessProbe:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $webhook.readinessProbe }}
  readinessProbe:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $webhook.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - {name: shared, mountPath: /run/gpu-scheduler}
    {{- if eq $s.webhook.mode "self" }}
    - {name: kept, mountPath: {{ $s.webhook.kept }}, readOnly: true}
    {{- else }}
    - {name: certs, mountPath: /certs, readOnly: true}
    {{- end }}
    {{- if $webhook.clientCAConfigMap }}
    - {name: client-ca, mountPath: /client-ca, readOnly: true}
    {{- end }}
{{- end -}}

{{- define "gpu-scheduler.podVolumes" -}}
{{- $s := include "gpu-scheduler.settings" . | fromYaml -}}
{{- $webhook := .Values.webhook | default dict -}}
- name: config
  configMap: {name: {{ $s.fullname }}-config}
# The ServiceAccount token, mounted in one container only.
- name: token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]
{{- if $s.webhook.enabled }}
# The socket between the two containers.
- name: shared
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
# The replicas' token and, in mode self, the certificate; in memory, never on a disk.
- name: kept
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if ne $s.webhook.mode "self" }}
- name: certs
  secret: {secretName: {{ $s.webhook.secret }}, defaultMode: 0440}
{{- end }}
{{- with $webhook.clientCAConfigMap }}
- name: client-ca
  configMap: {name: {{ . }}}
{{- end }}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
