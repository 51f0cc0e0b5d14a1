{{/* An image: (list root image), image = {hub?, repository, tag?}. */}}
{{- define "ome.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $tag := $image.tag | default $root.Values.global.tag | default $root.Chart.AppVersion | toString -}}
{{- if contains "/" $image.repository -}}
{{- printf "%s:%s" $image.repository $tag -}}
{{- else -}}
{{- printf "%s/%s:%s" ($image.hub | default $root.Values.global.hub) $image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* Pull secrets: (list root own), own replacing the global ones. */}}
{{- define "ome.imagePullSecrets" -}}
{{- $root := index . 0 -}}
{{- with (index . 1 | default $root.Values.global.imagePullSecrets) }}
imagePullSecrets:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{/* The parts of a pod's placement that are set: (dict). */}}
{{- define "ome.placement" -}}
{{- range $field := list "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" }}
{{- with index $ $field }}
{{ $field }}:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}
{{- end -}}
