{{/* The part that all names share: the release's name, with the chart's name in it once. */}}
{{- define "tierwright.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tierwright.operatorName" -}}
{{ include "tierwright.fullname" . }}-operator
{{- end -}}

{{/* The roles' name: several operators, each of its own namespace, may have a role in one namespace they serve. */}}
{{- define "tierwright.roleName" -}}
{{ include "tierwright.operatorName" . }}{{ if .Values.watchNamespaces }}-{{ .Release.Namespace }}{{ end }}
{{- end -}}

{{- define "tierwright.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "tierwright.operatorName" .) }}
{{- else -}}
{{ required "serviceAccount.name: say which ServiceAccount to use, or set serviceAccount.create to true" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* What the Deployment and the Service select by. Immutable: never change it. */}}
{{- define "tierwright.operatorSelector" -}}
app.kubernetes.io/name: tierwright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "tierwright.labels" -}}
{{ include "tierwright.operatorSelector" . }}
app.kubernetes.io/part-of: tierwright
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tierwright.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels of all objects, and those by which a Prometheus or Grafana finds its own: (list . ofTheirs). */}}
{{- define "tierwright.monitoringLabels" -}}
{{ include "tierwright.labels" (index . 0) }}
{{- with index . 1 }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Whether the cluster serves this kind of the Prometheus Operator, in the group and version that is written here: (list . kind). */ -}}
{{- define "tierwright.knowsMonitoring" -}}
{{- $kind := printf "monitoring.coreos.com/v1/%s" (index . 1) -}}
{{- if (index . 0).Capabilities.APIVersions.Has $kind }}true{{ end -}}
{{- end -}}

{{- /* The kinds of the Prometheus Operator that were asked for and are not served, separated by commas. */ -}}
{{- define "tierwright.monitoringLeftOut" -}}
{{- $root := . -}}
{{- $asked := dict "ServiceMonitor" .Values.monitoring.serviceMonitor.enabled "PodMonitor" .Values.monitoring.podMonitor.enabled "PrometheusRule" .Values.monitoring.rules.enabled -}}
{{- $left := list -}}
{{- range $kind, $wanted := $asked -}}
{{- if and $wanted (not (include "tierwright.knowsMonitoring" (list $root $kind))) -}}
{{- $left = append $left $kind -}}
{{- end -}}
{{- end -}}
{{- join ", " $left -}}
{{- end -}}
