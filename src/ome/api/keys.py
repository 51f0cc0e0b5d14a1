"""Every label, annotation and finalizer key that OME reads or writes (`spec/labels-and-annotations.md`)."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "ome.io/"

# -- requests and settings on InferenceServices ------------------------------------------------------------------------

DEPLOYMENT_MODE: Final = "ome.io/deploymentMode"
ACCELERATOR_CLASS: Final = "ome.io/accelerator-class"
RUNTIME_SYNC: Final = "ome.io/runtime-sync"
AUTOSCALER_CLASS: Final = "ome.io/autoscalerClass"
TARGET_UTILIZATION: Final = "ome.io/targetUtilizationPercentage"
METRICS: Final = "ome.io/metrics"
SERVICE_TYPE: Final = "ome.io/service-type"
LOAD_BALANCER_IP: Final = "ome.io/load-balancer-ip"
VOLCANO_QUEUE: Final = "ome.io/volcano-queue"
DEDICATED_AI_CLUSTER: Final = "ome.io/dedicated-ai-cluster"
KUEUE_ENABLED: Final = "kueue-enabled"
EXTRA_ENDPOINTS: Final = "prometheus.ome.io/extra-endpoints"

INGRESS_DISABLE_CREATION: Final = "ome.io/ingress-disable-creation"
INGRESS_DOMAIN: Final = "ome.io/ingress-domain"
INGRESS_DOMAIN_TEMPLATE: Final = "ome.io/ingress-domain-template"
INGRESS_URL_SCHEME: Final = "ome.io/ingress-url-scheme"
INGRESS_GATEWAY: Final = "ome.io/ingress-gateway"
INGRESS_ADDITIONAL_GATEWAYS: Final = "ome.io/ingress-additional-gateways"
INGRESS_PER_ISVC_SUBDOMAIN: Final = "ome.io/ingress-per-isvc-subdomain"
INGRESS_SHARED_HOST_PREFIX: Final = "ome.io/ingress-shared-host-prefix"
INGRESS_CONSISTENT_HASH_HEADERS: Final = "ome.io/ingress-consistent-hash-headers"
INGRESS_PATH_TEMPLATE: Final = "ome.io/ingress-path-template"
INGRESS_ADDITIONAL_DOMAINS: Final = "ome.io/ingress-additional-domains"
INGRESS_DISABLE_ISTIO_VIRTUALHOST: Final = "ome.io/ingress-disable-istio-virtualhost"

ROLLOUT_PAUSED: Final = "ome.io/rollout-paused"
ROLLOUT_PROMOTE: Final = "ome.io/rollout-promote"
ROLLOUT_ROLLBACK: Final = "ome.io/rollout-rollback"
ROLLOUT_REPIN: Final = "ome.io/rollout-repin"
ROLLOUT_READY_TIMEOUT: Final = "ome.io/rollout-ready-timeout"
REVISION_HISTORY_LIMIT: Final = "ome.io/revision-history-limit"
MIGRATION_REQUEST_PREFIX: Final = "ome.io/migration-request-v1-"

# -- traffic -----------------------------------------------------------------------------------------------------------

CIRCUIT_BREAKER_MAX_CONNECTIONS: Final = "ome.io/circuit-breaker-max-connections"
CIRCUIT_BREAKER_MAX_PARALLEL_REQUESTS: Final = "ome.io/circuit-breaker-max-parallel-requests"
CIRCUIT_BREAKER_MAX_PENDING_REQUESTS: Final = "ome.io/circuit-breaker-max-pending-requests"
CIRCUIT_BREAKER_MAX_PARALLEL_RETRIES: Final = "ome.io/circuit-breaker-max-parallel-retries"
CIRCUIT_BREAKER_PER_ENDPOINT: Final = "ome.io/circuit-breaker-per-endpoint-max-connections"
RETRY_ATTEMPTS: Final = "ome.io/retry-attempts"
RETRY_ON: Final = "ome.io/retry-on"
RETRY_PER_TRY_TIMEOUT: Final = "ome.io/retry-per-try-timeout"
TIMEOUT_IDLE: Final = "ome.io/timeout-idle"
TIMEOUT_MAX_CONNECTION_DURATION: Final = "ome.io/timeout-max-connection-duration"
TIMEOUT_TCP_CONNECT: Final = "ome.io/timeout-tcp-connect"
BACKEND_TRAFFIC_POLICY_PREFIX: Final = "ome.io/btp."
DESTINATION_RULE_PREFIX: Final = "ome.io/dr."
MANAGED_BY_CONFLICT_ACKED: Final = "ome.io/managed-by-conflict-acked"
TRAFFIC_DRAIN: Final = "ome.io/traffic-drain"

INTEGER_TRAFFIC_KEYS: Final = (
    CIRCUIT_BREAKER_MAX_CONNECTIONS,
    CIRCUIT_BREAKER_MAX_PARALLEL_REQUESTS,
    CIRCUIT_BREAKER_MAX_PENDING_REQUESTS,
    CIRCUIT_BREAKER_MAX_PARALLEL_RETRIES,
    CIRCUIT_BREAKER_PER_ENDPOINT,
    RETRY_ATTEMPTS,
)
DURATION_TRAFFIC_KEYS: Final = (
    RETRY_PER_TRY_TIMEOUT,
    TIMEOUT_IDLE,
    TIMEOUT_MAX_CONNECTION_DURATION,
    TIMEOUT_TCP_CONNECT,
)

# -- InferenceReplicas -------------------------------------------------------------------------------------------------

CONTROLLER_WRITE: Final = "ome.io/controller-write"
PARENT_GENERATION: Final = "ome.io/parent-generation"
COMPOSED_FIELDS: Final = "ome.io/composed-fields"
REVISION_EXCLUDED_KEYS: Final = "ome.io/revision-excluded-annotation-keys"
RELEASE_HELD_REVISION: Final = "ome.io/release-held-revision"
RESET_INSTANCES: Final = "ome.io/reset-instances"

# -- runtimes and models -----------------------------------------------------------------------------------------------

INHERIT_FROM: Final = "ome.io/inherit-from"
RUNTIME_PROFILE: Final = "ome.io/runtime-profile"
ENGINE_PRESET: Final = "ome.io/engine"
SKIP_CONFIG_PARSING: Final = "ome.oracle.com/skip-config-parsing"
MODEL_CATEGORY: Final = "models.ome.io/category"
HF_MODEL_ID: Final = "hf-model-id"
HF_MODEL_SHA: Final = "hf-model-sha"
RESERVE_MODEL_ARTIFACT: Final = "models.ome/reserve-model-artifact"

# -- pods, set by users ------------------------------------------------------------------------------------------------

INJECT_MODEL_INIT: Final = "ome.io/inject-model-init"
DECRYPTION_KEY_NAME: Final = "ome.io/base-model-decryption-key-name"
DECRYPTION_SECRET_NAME: Final = "ome.io/base-model-decryption-secret-name"
DISABLE_MODEL_DECRYPTION: Final = "ome.io/disable-model-decryption"
INJECT_SERVING_SIDECAR: Final = "ome.io/inject-serving-sidecar"
ENABLE_METRIC_AGGREGATION: Final = "ome.io/enable-metric-aggregation"
ENABLE_PROMETHEUS_SCRAPING: Final = "ome.io/enable-prometheus-scraping"
OME_PROMETHEUS_PORT: Final = "prometheus.ome.io/port"
OME_PROMETHEUS_PATH: Final = "prometheus.ome.io/path"
PROMETHEUS_SCRAPE: Final = "prometheus.io/scrape"
PROMETHEUS_PORT: Final = "prometheus.io/port"
PROMETHEUS_PATH: Final = "prometheus.io/path"
RDMA_AUTO_INJECT: Final = "rdma.ome.io/auto-inject"
RDMA_PROFILE: Final = "rdma.ome.io/profile"
RDMA_CONTAINER_NAME: Final = "rdma.ome.io/container-name"
RUNTIME_CONTAINER_NAME: Final = "runtime.ome.io/container-name"
SHM_PROFILE: Final = "runtime.ome.io/shm-profile"
PROBE_PROFILE: Final = "runtime.ome.io/probe-profile"
PROBE_PORT: Final = "runtime.ome.io/probe-port"
OBSERVABILITY_PROFILE: Final = "runtime.ome.io/observability-profile"
OBSERVABILITY_PORT: Final = "runtime.ome.io/observability-port"

# -- pods, set by OME --------------------------------------------------------------------------------------------------

INJECT_FINE_TUNED_ADAPTER: Final = "ome.io/inject-fine-tuned-adapter"
FINE_TUNED_STRATEGY: Final = "ome.io/fine-tuned-weight-ft-strategy"
FINE_TUNED_MERGED_WEIGHTS: Final = "ome.io/fine-tuned-serving-with-merged-weights"
BASE_MODEL_NAME: Final = "ome.io/base-model-name"
BASE_MODEL_FORMAT: Final = "ome.io/base-model-format"
BASE_MODEL_FORMAT_VERSION: Final = "ome.io/base-model-format-version"
BASE_MODEL_VENDOR: Final = "ome.io/base-model-vendor"
SERVING_RUNTIME: Final = "ome.io/serving-runtime"
IN_PLACE_IMAGE_TRANSITION: Final = "internal.ome.io/in-place-image-transition"
SERVING_GATE: Final = "ome.io/serving"

# -- other objects -----------------------------------------------------------------------------------------------------

AUTOSCALER_PROPAGATED_KEYS: Final = "ome.io/autoscaler-propagated-metadata-keys"
LAST_RENDERED_AUTOSCALER: Final = "ome.io/last-rendered-autoscaler"
CREATED_BY: Final = "ome.io/created-by"
CREATED_BY_OME: Final = "ome-controller"
GC_ELIGIBLE_SINCE: Final = "ome.io/gc-eligible-since"
PAIRING_PROTOCOL: Final = "ome.io/pairing-protocol"
ALLOW_IN_USE_DELETE: Final = "ome.io/allow-in-use-delete"
TOPOLOGY_KEY: Final = "ome.io/topology-key"
NODE_NAME: Final = "models.ome.io/node-name"
MODELS_MANAGED_BY: Final = "models.ome.io/managed-by"
PVC_METADATA_LAST_ERROR: Final = "models.ome/pvc-metadata-last-error"

# -- labels ------------------------------------------------------------------------------------------------------------

VISIBILITY: Final = "networking.knative.dev/visibility"
CLUSTER_LOCAL: Final = "cluster-local"
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
VOLCANO_QUEUE_NAME: Final = "volcano.sh/queue-name"
INFERENCE_SERVICE: Final = "ome.io/inferenceservice"
COMPONENT: Final = "component"
APP: Final = "app"
RAY_NODE_TYPE: Final = "ray.io/node-type"
SERVING_RUNTIME_LABEL: Final = "serving-runtime"
FINE_TUNED_SERVING: Final = "fine-tuned-serving"
BASE_MODEL_NAME_LABEL: Final = "base-model-name"
BASE_MODEL_SIZE: Final = "base-model-size"
BASE_MODEL_TYPE: Final = "base-model-type"
BASE_MODEL_VENDOR_LABEL: Final = "base-model-vendor"
FINE_TUNED_STRATEGY_LABEL: Final = "fine-tuned-weight-ft-strategy"
FINE_TUNED_MERGED_WEIGHTS_LABEL: Final = "fine-tuned-serving-with-merged-weights"
MANAGED_BY: Final = "ome.io/managed-by"
MANAGED_BY_OMENATIVE: Final = "OMENative"
INSTANCE_INDEX: Final = "ome.io/instance-index"
INSTANCE_INCARNATION: Final = "ome.io/instance-incarnation"
RUNNER: Final = "ome.io/runner"
POD_ORDINAL: Final = "ome.io/pod-ordinal"
REVISION_HASH: Final = "ome.io/revision-hash"
POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
CLUSTER_BASE_MODEL_PREFIX: Final = "models.ome.io/clusterbasemodel."
MODEL_LABEL_PREFIX: Final = "models.ome.io/"
BASE_MODEL_STATUS: Final = "models.ome/basemodel-status"
PVC_STATUS: Final = "models.ome/pvc-status"
MODEL_NAME: Final = "models.ome/model-name"
MODEL_SCOPE: Final = "models.ome/model-scope"
METADATA_SOURCE_NAMESPACE: Final = "models.ome/metadata-source-namespace"
RUNTIME_OF: Final = "ome.io/runtime-of"
RUNTIME_OF_KIND: Final = "ome.io/runtime-of-kind"
RUNTIME_OF_NAMESPACE: Final = "ome.io/runtime-of-namespace"
BENCHMARK: Final = "benchmark"
CONTROL_PLANE: Final = "control-plane"
CONTROLLER_MANAGER: Final = "ome-controller-manager"
LOCAL_QUEUE: Final = "ome.io/local-queue"

# -- finalizers --------------------------------------------------------------------------------------------------------

INFERENCE_SERVICE_FINALIZER: Final = "inferenceservice.finalizers"
BASE_MODEL_FINALIZER: Final = "basemodels.ome.io/finalizer"
CLUSTER_BASE_MODEL_FINALIZER: Final = "clusterbasemodels.ome.io/finalizer"
ACCELERATOR_CLASS_FINALIZER: Final = "acceleratorclasses.ome.io/finalizer"
TEARDOWN_FINALIZER: Final = "ome.io/ir-teardown"
TRAFFIC_MAP_FINALIZER: Final = "ome.io/trafficmap-publisher"
ACCELERATOR_QUOTA_FINALIZER: Final = "ome.io/accelerator-quota"
BENCHMARK_JOB_FINALIZER: Final = "benchmarkjobs.ome.io/finalizer"
