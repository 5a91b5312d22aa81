/** What Kubernetes' Node authorizer and NodeRestriction give a kubelet, `system:node:NAME` in the group system:nodes: its own Node, Lease and pods. */
import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { Served, User } from '../kinds/served.ts';
import { forbiddenObject } from '../refusal.ts';
import { parsed } from '../store/entry.ts';
import { textAt } from '../json.ts';
import type { EmbeddedStore } from '../store/store.ts';
import type { Attributes } from './rules.ts';

const PREFIX = 'system:node:';
const LEASES = 'kube-node-lease';

/** The Node of a kubelet; undefined for everybody else. */
function nodeOf(user: User): string | undefined {
  return user.name.startsWith(PREFIX) && user.groups.includes('system:nodes') ? user.name.slice(PREFIX.length) : undefined;
}

const READ = ['get', 'list', 'watch'];

export function allowsKubelet(store: EmbeddedStore, user: User, asked: Attributes): boolean {
  const node = nodeOf(user);
  if (node === undefined || 'path' in asked) return false;
  const { verb, group, resource, subresource, namespace, name } = asked;
  const what = `${group}/${resource}${subresource === '' ? '' : `/${subresource}`}`;
  switch (what) {
    case '/nodes':
      return verb === 'create' || (name === node && [...READ, 'update', 'patch'].includes(verb));
    case '/nodes/status':
      return name === node && ['get', 'update', 'patch'].includes(verb);
    case 'coordination.k8s.io/leases':
      return namespace === LEASES && (verb === 'create' || (name === node && ['get', 'update', 'patch', 'delete'].includes(verb)));
    case '/pods':
      return (
        (name === '' && READ.includes(verb)) || (name !== '' && ['get', 'delete'].includes(verb) && isOf(store, node, namespace, name))
      );
    case '/pods/status':
      return ['get', 'update', 'patch'].includes(verb) && isOf(store, node, namespace, name);
    case '/pods/eviction':
      return verb === 'create' && isOf(store, node, namespace, name);
    case '/events':
      return ['create', 'update', 'patch'].includes(verb);
    case 'certificates.k8s.io/certificatesigningrequests':
      return ['create', ...READ].includes(verb);
    default:
      return false;
  }
}

/** Whether the pod runs on the node. */
function isOf(store: EmbeddedStore, node: string, namespace: string, name: string): boolean {
  const entry = store.table('/pods').get(`${namespace}/${name}`);
  return entry !== undefined && textAt(parsed(entry), 'spec', 'nodeName') === node;
}

/** What a kubelet may not write although it may write of the kind: Nodes of others. Throws a Refusal. */
export function restrictKubelet(served: Served, user: User, object: JsonObject): void {
  const node = nodeOf(user);
  const name = textAt(object, 'metadata', 'name') ?? '';
  if (node === undefined || served.storageKey !== '/nodes' || name === node) return;
  throw forbiddenObject(served, name, `node ${JSON.stringify(node)} is not allowed to modify node ${JSON.stringify(name)}`);
}
