{{- define "distributary.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "distributary.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "distributary.labels" -}}
{{ include "distributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "distributary.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}

{{/* The name of a node's pod in the network. */}}
{{- define "distributary.podHost" -}}
{{ printf "$(POD_NAME).%s-nodes.%s.svc" (include "distributary.name" .) .Release.Namespace }}
{{- end -}}

{{/* A value in TOML's form: strings, numbers and lists as in JSON, tables in one line. */}}
{{- define "distributary.toml" -}}
{{- if kindIs "map" . -}}
{ {{- $parts := list -}}
{{- range $key, $value := . -}}
{{- $parts = append $parts (printf "%s = %s" (toJson $key) (include "distributary.toml" $value)) -}}
{{- end -}}
{{ join ", " $parts }} }
{{- else if kindIs "slice" . -}}
[{{- $parts := list -}}
{{- range . -}}
{{- $parts = append $parts (include "distributary.toml" .) -}}
{{- end -}}
{{ join ", " $parts }}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{- define "distributary.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "distributary.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where pods may connect to. */}}
{{- define "distributary.egress" -}}
{{- if .Values.networkPolicy.to }}
- to:
    {{- toYaml .Values.networkPolicy.to | nindent 4 }}
- to:
    - podSelector:
        matchLabels:
          {{- include "distributary.selector" . | nindent 10 }}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- else }}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          {{- toYaml .Values.networkPolicy.never | nindent 10 }}
    - ipBlock:
        cidr: ::/0
        except: ["fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128"]
{{- end }}
{{- end }}

{{- define "distributary.executor" -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "distributary.labels" . | nindent 4 }}
    app.kubernetes.io/component: executor
spec:
  serviceAccountName: {{ include "distributary.name" . }}-executor
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext:
    {{- include "distributary.podSecurity" . | nindent 4 }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.spark.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.spark.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Not all executors on one machine.
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "distributary.selector" . | nindent 10 }}
          app.kubernetes.io/component: executor
  containers:
    - name: executor
      image: {{ include "distributary.image" . }}
      command: [tini, --, python, /opt/distributary/share/distributary/executor.py]
      securityContext:
        {{- include "distributary.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: scratch, mountPath: /var/lib/distributary}
        - {name: spark-secret, mountPath: /etc/distributary/spark, readOnly: true}
        {{- with .Values.log.caSecret.name }}
        - {name: log-ca, mountPath: /etc/distributary/log, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- include "distributary.volumes" . | nindent 4 }}
    - name: scratch
      emptyDir: {sizeLimit: 1Gi}
{{- end }}
{{- define "distributary.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
- name: spark-secret
  secret:
    secretName: {{ .Values.spark.secret.name }}
    defaultMode: 0440
    items:
      - {key: {{ .Values.spark.secret.key | quote }}, path: secret}
{{- with .Values.log.caSecret }}
{{- if .name }}
- name: log-ca
  secret:
    secretName: {{ .name }}
    items:
      - {key: {{ .key | quote }}, path: ca.crt}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
