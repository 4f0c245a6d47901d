{{/*
Ends the rendering with one line if a value cannot be used. The program checks its settings again when it starts.
tests/end_to_end/chart has a table of what is refused, and compares it with the program.
*/}}
{{- define "cloud-map-forwarder.refuse" -}}
{{- include "cloud-map-forwarder.refuseUnknown" . -}}
{{- include "cloud-map-forwarder.refuseNonBoolean" (pick .Values "enabled") -}}
{{- if .Values.enabled -}}
{{- include "cloud-map-forwarder.refuseSettings" . -}}
{{- include "cloud-map-forwarder.refuseImage" . -}}
{{- include "cloud-map-forwarder.refuseWorkload" . -}}
{{- end -}}
{{- end -}}

{{/* A misspelt value would be ignored without a word. Helm gives a subchart the values of "global". */}}
{{- define "cloud-map-forwarder.refuseUnknown" -}}
{{- $known := dict
  "" (list "enabled" "queueUrl" "cluster" "annotationPrefix" "multiCluster" "region" "logLevel" "extraEnv" "image" "replicas" "serviceAccount" "podDisruptionBudget" "networkPolicy" "resources" "podLabels" "podAnnotations" "priorityClassName" "nodeSelector" "tolerations" "affinity" "global")
  "image" (list "repository" "tag" "digest" "pullPolicy" "pullSecrets")
  "serviceAccount" (list "create" "name" "annotations")
  "podDisruptionBudget" (list "enabled")
  "networkPolicy" (list "enabled" "extraIngress" "extraEgress")
  "resources" (list "requests" "limits" "claims") -}}
{{- range $parent, $names := $known -}}
{{- $here := $.Values -}}
{{- if $parent -}}{{- $here = index $.Values $parent -}}{{- end -}}
{{- if not (kindIs "map" $here) -}}
{{- fail (printf "%s is not a map: give it one or more of %s" $parent (join ", " $names)) -}}
{{- end -}}
{{- range $name, $_ := $here -}}
{{- if not (has $name $names) -}}
{{- fail (printf "%s is no value of this chart: use one of %s" (list $parent $name | compact | join ".") (without $names "global" | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A value that is not text: YAML reads off as false and 2024 as a number. */}}
{{- define "cloud-map-forwarder.refuseNonText" -}}
{{- range $name, $value := . -}}
{{- if not (kindIs "string" $value) -}}
{{- fail (printf "%s is %v and not text: give it in quotes in a file, or with --set-string" $name $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cloud-map-forwarder.refuseNonBoolean" -}}
{{- range $name, $value := . -}}
{{- if not (kindIs "bool" $value) -}}
{{- fail (printf "%s is %v: it would be true or false, without quotes" $name $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cloud-map-forwarder.refuseSettings" -}}
{{- with .Values -}}
{{- if not .queueUrl -}}
{{- fail "queueUrl is not set: give it the output QueueUrl of the function's stack, such as https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync" -}}
{{- end -}}
{{- if not .cluster -}}
{{- fail "cluster is not set: give it this cluster's name or ARN as in the function's setting CLUSTERS, such as blue" -}}
{{- end -}}
{{- include "cloud-map-forwarder.refuseNonText" (pick . "queueUrl" "cluster" "annotationPrefix" "multiCluster" "region" "logLevel" "priorityClassName") -}}
{{- if hasSuffix ".fifo" .queueUrl -}}
{{- fail (printf "queueUrl %q is a FIFO queue: give it the output QueueUrl of the function's stack, a standard queue" .queueUrl) -}}
{{- end -}}
{{- if not (regexMatch `^https://[0-9A-Za-z.-]+(:[0-9]+)?/[0-9]{12}/[0-9A-Za-z_-]{1,80}$` .queueUrl) -}}
{{- fail (printf "queueUrl %q is not the URL of an SQS queue: it would be such as https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync" .queueUrl) -}}
{{- end -}}
{{- if not (or .region (regexMatch `^https://([0-9A-Za-z-]+\.)*(sqs|sqs-fips)\.[a-z0-9-]+(\.[a-z0-9-]+){2,}/|^https://[a-z0-9-]+\.queue\.` .queueUrl)) -}}
{{- fail (printf "queueUrl %q contains no Region: set region, such as eu-central-1" .queueUrl) -}}
{{- end -}}
{{- if not (regexMatch `^([a-z]{2,4}(-[a-z]+)+-[0-9]+)?$` .region) -}}
{{- fail (printf "region %q is not an AWS Region: it would be such as eu-central-1" .region) -}}
{{- end -}}
{{- if not (regexMatch `^(arn:aws[a-z-]*:eks:[a-z0-9-]+:[0-9]{12}:cluster/)?[0-9A-Za-z][0-9A-Za-z_-]{0,99}$` .cluster) -}}
{{- fail (printf "cluster %q is not the name or ARN of an EKS cluster: it would be such as blue or arn:aws:eks:eu-central-1:111122223333:cluster/blue" .cluster) -}}
{{- end -}}
{{- if or (gt (len .annotationPrefix) 254) (not (regexMatch `^([a-z0-9]([a-z0-9-]*[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/$` .annotationPrefix)) -}}
{{- fail (printf "annotationPrefix %q is not a lower-case DNS name with a slash at its end: it would be such as cloudmap.controller/" .annotationPrefix) -}}
{{- end -}}
{{- if not (has .multiCluster (list "off" "on" "export" "import")) -}}
{{- fail (printf "multiCluster %q is not one of off, on, export, import" .multiCluster) -}}
{{- end -}}
{{- if not (has .logLevel (list "error" "warn" "info" "debug" "trace")) -}}
{{- fail (printf "logLevel %q is not one of error, warn, info, debug, trace" .logLevel) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cloud-map-forwarder.refuseImage" -}}
{{- with .Values.image -}}
{{- include "cloud-map-forwarder.refuseNonText" (dict "image.repository" .repository "image.tag" .tag "image.digest" .digest "image.pullPolicy" .pullPolicy) -}}
{{- if not .repository -}}
{{- fail "image.repository is not set: only the chart of a release has it; give it the image that you have built, such as 111122223333.dkr.ecr.eu-central-1.amazonaws.com/cloud-map-forwarder" -}}
{{- end -}}
{{- if not (regexMatch `^[0-9a-z]([0-9a-z._/-]|:[0-9]+/)*$` .repository) -}}
{{- fail (printf "image.repository %q is not a repository: it has neither a scheme nor a tag, such as 111122223333.dkr.ecr.eu-central-1.amazonaws.com/cloud-map-forwarder" .repository) -}}
{{- end -}}
{{- if not (regexMatch `^([0-9A-Za-z_][0-9A-Za-z_.-]{0,127})?$` .tag) -}}
{{- fail (printf "image.tag %q is not a tag: it would be such as 0.1.0" .tag) -}}
{{- end -}}
{{- if not (regexMatch `^(sha256:[0-9a-f]{64})?$` .digest) -}}
{{- fail (printf "image.digest %q is not a digest: it would be sha256: and 64 hexadecimal digits" .digest) -}}
{{- end -}}
{{- if not (has .pullPolicy (list "Always" "IfNotPresent" "Never")) -}}
{{- fail (printf "image.pullPolicy %q is not one of Always, IfNotPresent, Never" .pullPolicy) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cloud-map-forwarder.refuseWorkload" -}}
{{- with .Values -}}
{{- if not (regexMatch `^[1-9][0-9]?$` (toString .replicas)) -}}
{{- fail (printf "replicas %v is not a number from 1 to 99: two are enough for any cluster" .replicas) -}}
{{- end -}}
{{- include "cloud-map-forwarder.refuseNonBoolean" (dict "serviceAccount.create" .serviceAccount.create "podDisruptionBudget.enabled" .podDisruptionBudget.enabled "networkPolicy.enabled" .networkPolicy.enabled) -}}
{{- if not (or .serviceAccount.create .serviceAccount.name) -}}
{{- fail "serviceAccount.name is not set: with serviceAccount.create false, name the ServiceAccount that exists" -}}
{{- end -}}
{{- if not (regexMatch `^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$` (toString .serviceAccount.name)) -}}
{{- fail (printf "serviceAccount.name %q is not a name of Kubernetes: it would be such as cloud-map-forwarder" .serviceAccount.name) -}}
{{- end -}}
{{- range $name, $value := dict "resources" .resources "podLabels" .podLabels "podAnnotations" .podAnnotations "nodeSelector" .nodeSelector "affinity" .affinity "serviceAccount.annotations" .serviceAccount.annotations -}}
{{- if not (kindIs "map" $value) -}}
{{- fail (printf "%s is %v: it would be a map, such as {}" $name $value) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := dict "tolerations" .tolerations "image.pullSecrets" .image.pullSecrets "extraEnv" .extraEnv "networkPolicy.extraIngress" .networkPolicy.extraIngress "networkPolicy.extraEgress" .networkPolicy.extraEgress -}}
{{- if not (kindIs "slice" $value) -}}
{{- fail (printf "%s is %v: it would be a list, such as []" $name $value) -}}
{{- end -}}
{{- end -}}
{{- range .image.pullSecrets -}}
{{- if not (and (kindIs "map" .) (eq "name" (keys . | join ",")) (kindIs "string" .name) .name) -}}
{{- fail (printf "image.pullSecrets has %v: as in Kubernetes each would be a map with the name of a Secret, such as {name: registry}" .) -}}
{{- end -}}
{{- end -}}
{{- $own := dict "QUEUE_URL" "queueUrl" "CLUSTER" "cluster" "ANNOTATION_PREFIX" "annotationPrefix" "MULTI_CLUSTER" "multiCluster" "RUST_LOG" "logLevel" "AWS_REGION" "region" -}}
{{- range .extraEnv -}}
{{- if not (and (kindIs "map" .) (hasKey . "name") (empty (omit . "name" "value" "valueFrom")) (kindIs "string" .name) .name (kindIs "string" (.value | default ""))) -}}
{{- fail (printf "extraEnv has %v: as in Kubernetes each would be a map with a name, and a value in quotes or valueFrom, such as {name: HTTPS_PROXY, value: \"http://proxy.internal:3128\"}" .) -}}
{{- end -}}
{{- if hasKey $own .name -}}
{{- fail (printf "extraEnv has %s, which the chart sets itself: use the value %s" .name (get $own .name)) -}}
{{- end -}}
{{- if eq .name "PROBE_PORT" -}}
{{- fail "extraEnv has PROBE_PORT: leave it out, since the probes ask port 8080" -}}
{{- end -}}
{{- end -}}
{{- $own = include "cloud-map-forwarder.labels" $ | fromYaml -}}
{{- range $label, $_ := .podLabels -}}
{{- if hasKey $own $label -}}
{{- fail (printf "podLabels has %s, which the chart sets itself: use a label that is none of %s" $label (keys $own | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
