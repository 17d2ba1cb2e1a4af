{{/* Converts a size of nccl-tests to bytes. */}}
{{- define "testbed.bytes" -}}
{{- $factor := dict "K" 1024 "M" 1048576 "G" 1073741824 -}}
{{- $unit := regexFind "[KMG]$" . -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $factor $unit | default 1 | int64) -}}
{{- end -}}

{{/* Checks that the schema cannot express. */}}
{{- define "testbed.checks" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "release name: expected a letter and at most 39 more of a-z, 0-9 and -, found %q" .Release.Name) -}}
{{- end -}}
{{- range $name, $test := .Values.tests -}}
{{- if gt (include "testbed.bytes" $test.minBytes | int64) (include "testbed.bytes" $test.maxBytes | int64) -}}
{{- fail (printf "tests.%s.minBytes: expected at most maxBytes %s, found %s" $name $test.maxBytes $test.minBytes) -}}
{{- end -}}
{{- end -}}
{{- range .Values.nodes.only -}}
{{- if has . $.Values.nodes.avoid -}}{{- fail (printf "nodes.avoid: %s is also in nodes.only" .) -}}{{- end -}}
{{- end -}}
{{- $limits := .Values.limits -}}
{{- $needed := add $limits.reachSeconds $limits.connectivitySeconds (mul 2 $limits.testSeconds) -}}
{{- if gt (int64 $needed) (int64 $limits.deadlineSeconds) -}}
{{- fail (printf "limits.deadlineSeconds: expected at least %d, the sum of the other limits, found %d" (int64 $needed) (int64 $limits.deadlineSeconds)) -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object, by which a search finds remaining resources. */}}
{{- define "testbed.labels" -}}
app.kubernetes.io/name: a4-gke-testbed
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
burnin-run: {{ .Values.run | quote }}
burnin-attempt: {{ .Values.attempt | int64 | toString | quote }}
burnin-cluster: {{ .Values.cluster | quote }}
burnin-expires: {{ .Values.expires | int64 | toString | quote }}
{{- end -}}

{{- define "testbed.nodes" -}}{{ div (int64 .Values.gpus) 8 }}{{- end -}}
{{/* Longer than the launcher's deadline, which starts after the image is pulled: a launcher that ends by itself has written its logs. */}}
{{- define "testbed.life" -}}
{{ add (int64 .Values.limits.deadlineSeconds) (mul 60 (int64 .Values.debug.keepMinutes)) (int64 .Values.limits.reachSeconds) }}
{{- end -}}
{{- define "testbed.folder" -}}
{{- .Values.folder | default (printf "%s/%d" .Values.run (int64 .Values.attempt)) -}}
{{- end -}}

{{/* Settings of the launcher: one line of JSON, which no shell interprets. */}}
{{- define "testbed.plan" -}}
{{- $v := .Values -}}
{{- $tests := list -}}
{{- range $name := list "all_reduce" "all_gather" -}}
{{- $t := get $v.tests $name -}}
{{- $tests = append $tests (dict "name" $name "min_bytes" (include "testbed.bytes" $t.minBytes | int64) "max_bytes" (include "testbed.bytes" $t.maxBytes | int64)
  "step_factor" (int64 $t.stepFactor) "iterations" (int64 $t.iterations) "warmup_iterations" (int64 $t.warmupIterations)) -}}
{{- end -}}
{{- dict "run" $v.run "attempt" (int64 $v.attempt) "cluster" $v.cluster "expires" (int64 $v.expires) "image" $v.image
  "nodes" (include "testbed.nodes" . | int64) "gpus_per_node" 8
  "host_prefix" (printf "%s-workload-0-" .Release.Name) "domain" (printf "%s.%s.svc.cluster.local" .Release.Name .Release.Namespace)
  "socket_interface" $v.network.socketInterface "nccl" $v.network.nccl "line_rate" $v.network.lineRate "tests" $tests
  "told" (empty $v.bucket) "reach_s" (int64 $v.limits.reachSeconds) "test_s" (int64 $v.limits.testSeconds)
  "connectivity_s" (int64 $v.limits.connectivitySeconds) "deadline_s" (int64 $v.limits.deadlineSeconds)
  "keep_s" (mul 60 (int64 $v.debug.keepMinutes)) | toJson -}}
{{- end -}}
