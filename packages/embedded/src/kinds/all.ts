import { customResourceDefinition } from '../crd/definition.ts';
import { servedBuiltin } from './builtin.ts';
import { configMap } from './config-map.ts';
import { disruptionBudget } from './disruption-budget.ts';
import { event } from './event.ts';
import { lease } from './lease.ts';
import { namespace } from './namespace.ts';
import { node } from './node.ts';
import { pod } from './pod.ts';
import { admissionKinds } from './policy.ts';
import { rbacKinds } from './rbac.ts';
import { secret } from './secret.ts';
import type { Served } from './served.ts';
import { serviceAccount } from './service-account.ts';
import { signingRequest } from './signing-request.ts';

/** Every built-in kind, served again for one cluster. */
export function builtinKinds(): Served[] {
  return [
    configMap,
    event,
    namespace,
    node,
    pod,
    secret,
    serviceAccount,
    customResourceDefinition,
    signingRequest,
    lease,
    disruptionBudget,
    ...rbacKinds,
    ...admissionKinds,
  ].map(servedBuiltin);
}
