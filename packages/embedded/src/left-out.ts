/** What a real cluster has and this server has not; one line each, for `kubenode serve --help` and the documentation. */
export const LEFT_OUT: readonly string[] = [
  'authorization other than by roles, bindings and what a kubelet may do; anonymous requests are refused with 401, but for /healthz, /livez and /readyz',
  'admission webhooks; of ValidatingAdmissionPolicies parameters, audit annotations, the authorizer, and warnings of type checking (status)',
  'API priority and fairness: PriorityLevelConfigurations and FlowSchemas are not served',
  'CEL rules of CRDs: rules inside allOf, anyOf, oneOf and not, comprehensions of two variables, and the libraries url, ip, cidr, quantity, format, sets and semver; their cost is estimated and counted by formulas of its own, so near a limit another answer is possible',
  'bodies nested deeper than 500, and patterns that would take long for a text as long as it is, are refused',
  'conversion between versions of a CRD beyond changing apiVersion',
  'taints of effect NoExecute, and the eviction of pods by them; taints of effect NoSchedule follow conditions and cordon',
  'workloads: no scheduler, no kubelet, no Deployments, DaemonSets, Jobs, Services or volumes; a Pod is a record',
  'pods/log, exec, attach, port-forward, proxy, binding and ephemeralcontainers; nodes/proxy',
  'events.k8s.io: Events are served as core/v1',
  'protobuf and CBOR: JSON and YAML only; /openapi/v2 (kubectl of 1.27 and later uses v3)',
  'signers other than kubernetes.io/kube-apiserver-client and kubernetes.io/kube-apiserver-client-kubelet; tokens bound to pods, nodes or secrets',
  'fields that are given twice in YAML are refused, with every fieldValidation; Tables in YAML',
  'watch history across a restart: a watch from before it gets 410 and must list again',
];
