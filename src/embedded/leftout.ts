/** What a real cluster has and this server has not; one line each, for `kubenode serve --help` and the documentation. */
export const LEFT_OUT: readonly string[] = [
  'authorization: every authenticated user may do everything (no RBAC, no admission policies, no webhooks)',
  'CEL rules of CRDs: their cost, rules inside allOf, anyOf, oneOf and not, comprehensions of two variables, and the libraries url, ip, cidr, quantity, format, sets and semver; regular expressions are those of JavaScript',
  'conversion between versions of a CRD beyond changing apiVersion',
  'workloads: no scheduler, no kubelet, no Deployments, DaemonSets, Jobs, Services or volumes; a Pod is a record',
  'pods/log, exec, attach, port-forward, proxy, binding and ephemeralcontainers; nodes/proxy',
  'events.k8s.io: Events are served as core/v1',
  'protobuf and CBOR: JSON and YAML only; /openapi/v2 (kubectl of 1.27 and later uses v3)',
  'signers other than kubernetes.io/kube-apiserver-client and kubernetes.io/kube-apiserver-client-kubelet; tokens bound to pods, nodes or secrets',
  'duplicate fields in JSON bodies are not detected: the last one counts',
  'watch history across a restart: a watch from before it is told to list again (410)',
];
