/**
 * Who may do what, by Roles, ClusterRoles and their bindings, and by what Kubernetes gives a kubelet for its own Node. A right that was not given is refused.
 */
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { listAt, objectAt, textAt } from '../json.ts';
import type { User } from '../kinds/served.ts';
import { parsed } from '../store/entry.ts';
import type { EmbeddedStore } from '../store/store.ts';
import { RBAC_GROUP } from '../kinds/rbac.ts';
import { allowsKubelet } from './kubelet.ts';
import { allows, rulesOf, type Attributes, type PolicyRule } from './rules.ts';

export interface AuthorizerVerdict {
  readonly allowed: boolean;
  /** Which binding allows it, or which could not be resolved. */
  readonly reason: string;
}

interface Subject {
  readonly kind: string;
  readonly name: string;
  readonly namespace: string;
}

interface Binding {
  /** Undefined: of the whole cluster. */
  readonly namespace: string | undefined;
  readonly name: string;
  readonly role: { readonly kind: string; readonly name: string };
  readonly subjects: readonly Subject[];
}

/** A binding as it concerns one user. */
interface Grant {
  readonly namespace: string | undefined;
  readonly rules: readonly PolicyRule[] | undefined;
  readonly reason: string;
  readonly missing: string;
}

const ROLES = `${RBAC_GROUP}/roles`;
const CLUSTER_ROLES = `${RBAC_GROUP}/clusterroles`;
const BINDINGS = `${RBAC_GROUP}/rolebindings`;
const CLUSTER_BINDINGS = `${RBAC_GROUP}/clusterrolebindings`;
const STORED = new Set([ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS]);

/** Users whose rights are remembered until rights change. */
const REMEMBERED = 10_000;

function matches({ kind, name, namespace }: Subject, user: User): boolean {
  switch (kind) {
    case 'User':
      return name === user.name;
    case 'Group':
      return user.groups.includes(name);
    case 'ServiceAccount':
      return user.name === `system:serviceaccount:${namespace}:${name}`;
    default:
      return false;
  }
}

function bindingOf(object: JsonObject, namespace: string | undefined): Binding {
  const ref = objectAt(object, 'roleRef');
  return {
    namespace,
    name: textAt(object, 'metadata', 'name') ?? '',
    role: { kind: textAt(ref, 'kind') ?? '', name: textAt(ref, 'name') ?? '' },
    subjects: listAt(object, 'subjects').map((item) => ({
      kind: textAt(item, 'kind') ?? '',
      name: textAt(item, 'name') ?? '',
      namespace: textAt(item, 'namespace') ?? namespace ?? '',
    })),
  };
}

const quoted = (text: string): string => JSON.stringify(text);

function describe({ name, namespace, role }: Binding, { kind, name: who, namespace: of }: Subject): string {
  const binding = namespace === undefined ? `ClusterRoleBinding ${quoted(name)}` : `RoleBinding ${quoted(`${name}/${namespace}`)}`;
  const subject = kind === 'ServiceAccount' ? `${kind} ${quoted(`${who}/${of}`)}` : `${kind} ${quoted(who)}`;
  return `RBAC: allowed by ${binding} of ${role.kind} ${quoted(role.name)} to ${subject}`;
}

/** What members of system:masters have. */
export const EVERYTHING: readonly PolicyRule[] = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'], resourceNames: [], nonResourceURLs: [] },
  { verbs: ['*'], apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: ['*'] },
];

export class Authorizer {
  readonly #store: EmbeddedStore;
  #bindings: readonly Binding[] | undefined;
  #grants = new Map<string, readonly Grant[]>();

  constructor(store: EmbeddedStore) {
    this.#store = store;
    store.onEvent(({ resource }) => {
      if (STORED.has(resource)) this.#forget();
    });
  }

  #forget(): void {
    this.#bindings = undefined;
    this.#grants = new Map();
  }

  authorize(user: User, asked: Attributes): AuthorizerVerdict {
    // As on a real server, so that no user locks all users out by removing a binding.
    if (user.groups.includes('system:masters')) return { allowed: true, reason: '' };
    const missing: string[] = [];
    const namespace = 'path' in asked ? '' : asked.namespace;
    for (const grant of this.#grantsOf(user)) {
      // A binding of a namespace grants nothing in the cluster, nor in other namespaces.
      if (grant.namespace !== undefined && (namespace === '' || grant.namespace !== namespace)) continue;
      if (grant.rules === undefined) missing.push(grant.missing);
      else if (grant.rules.some((rule) => allows(rule, asked))) return { allowed: true, reason: grant.reason };
    }
    if (allowsKubelet(this.#store, user, asked)) return { allowed: true, reason: '' };
    return { allowed: false, reason: missing.length === 0 ? '' : `RBAC: ${missing.length === 1 ? missing[0] : `[${missing.join(', ')}]`}` };
  }

  /** All rules that a user has in a namespace, or with '' in the cluster. */
  rulesFor(user: User, namespace: string): PolicyRule[] {
    if (user.groups.includes('system:masters')) return [...EVERYTHING];
    return this.#grantsOf(user).flatMap((grant) =>
      grant.namespace === undefined || grant.namespace === namespace ? (grant.rules ?? []) : [],
    );
  }

  /** Rules of a role; undefined when there is none. */
  roleRules(kind: string, namespace: string, name: string): PolicyRule[] | undefined {
    const entry = kind === 'Role' ? this.#store.table(ROLES).get(`${namespace}/${name}`) : this.#store.table(CLUSTER_ROLES).get(name);
    return entry === undefined ? undefined : rulesOf(parsed(entry));
  }

  #grantsOf(user: User): readonly Grant[] {
    const key = JSON.stringify([user.name, user.groups]);
    const known = this.#grants.get(key);
    if (known !== undefined) return known;
    const grants = this.#allBindings().flatMap((binding): Grant[] => {
      const subject = binding.subjects.find((each) => matches(each, user));
      if (subject === undefined) return [];
      const { kind, name } = binding.role;
      return [
        {
          namespace: binding.namespace,
          rules: this.roleRules(kind, binding.namespace ?? '', name),
          reason: describe(binding, subject),
          missing: `${kind.toLowerCase()}.${RBAC_GROUP} ${quoted(name)} not found`,
        },
      ];
    });
    if (this.#grants.size >= REMEMBERED) this.#grants.clear();
    this.#grants.set(key, grants);
    return grants;
  }

  #allBindings(): readonly Binding[] {
    this.#bindings ??= [
      ...Array.from(this.#store.table(CLUSTER_BINDINGS).entries(), (entry) => bindingOf(parsed(entry), undefined)),
      ...Array.from(this.#store.table(BINDINGS).entries(), (entry) => bindingOf(parsed(entry), entry.namespace)),
    ];
    return this.#bindings;
  }
}
