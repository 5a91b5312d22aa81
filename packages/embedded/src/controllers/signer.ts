import type { JsonObject } from '@kubenode/api-machinery/wire';
import { messageOf } from '@kubenode/api-machinery/errors';
import { listAt, numberAt, objectAt, stringsAt, textAt } from '../json.ts';
import { makeAuthority, signClient, type Asked, type Identity } from '../pki.ts';
import type { StoreDisk } from '../store/disk.ts';
import { parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import { now, type World } from '../world.ts';
import { change, type Context, type EmbeddedController } from './controller.ts';

const REQUESTS = 'certificates.k8s.io/certificatesigningrequests';
const USAGES = new Set(['digital signature', 'key encipherment', 'client auth']);

/** By name: what a request must be besides one for a client certificate, as kube-controller-manager asks it. */
const SIGNERS = new Map<string, (asked: Asked) => void>([
  ['kubernetes.io/kube-apiserver-client', () => undefined],
  ['kubernetes.io/kube-apiserver-client-kubelet', requireKubelet],
]);

function requireKubelet({ commonNames, organizations, hasAlternativeNames }: Asked): void {
  if (organizations.length !== 1 || organizations[0] !== 'system:nodes') throw new Error('subject organization is not system:nodes');
  if (hasAlternativeNames) throw new Error('subjectAltNames are not allowed');
  if (commonNames.at(-1)?.startsWith('system:node:') !== true) throw new Error('subject common name does not begin with system:node:');
}

/** Longest validity given, as kube-controller-manager's default. */
const MAX_SECONDS = 365 * 24 * 3600;

/** The authority whose client certificates this cluster accepts, and no other cluster's. Made on first use. */
export async function clientAuthority(world: World): Promise<Identity> {
  const kept = keptAuthority(world.disk);
  if (kept !== undefined) return kept;
  const made = await makeAuthority(`kubenode client CA of ${world.name}`, { now: world.clock.now(), random: world.random });
  // Two first uses at once: one of them wins.
  const meanwhile = keptAuthority(world.disk);
  if (meanwhile !== undefined) return meanwhile;
  world.disk.keepSecret('client-ca.key', made.key);
  world.disk.keepSecret('client-ca.crt', made.certificate);
  return made;
}

function keptAuthority(disk: StoreDisk): Identity | undefined {
  const certificate = disk.secret('client-ca.crt');
  const key = disk.secret('client-ca.key');
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

function has(object: JsonObject, type: string): boolean {
  return listAt(object, 'status', 'conditions').some((item) => textAt(item, 'type') === type);
}

function usagesProblem(object: JsonObject): string | undefined {
  const usages = stringsAt(object, 'spec', 'usages');
  const strange = usages.filter((usage) => !USAGES.has(usage));
  if (strange.length > 0) return `invalid usage for client certificate: ${strange.join(', ')}`;
  return usages.includes('client auth') ? undefined : 'usages must include client auth';
}

/** Signs approved requests for client certificates of users and of kubelets. Other signer names wait for other signers. */
export function signerController({ world, tasks }: Context): EmbeddedController {
  const served = world.registry.byStorage(REQUESTS);
  const underWay = new Set<string>();

  function finish(entry: Entry, status: (object: JsonObject) => JsonObject): void {
    tasks.add(`sign ${entry.key}`, () => {
      if (served === undefined) return;
      change(world, served, entry, 'status', (object) => ({ ...object, status: { ...objectAt(object, 'status'), ...status(object) } }));
    });
  }

  function fail(entry: Entry, message: string): void {
    const at = now(world);
    const failed = {
      type: 'Failed',
      status: 'True',
      reason: 'SignerValidationFailure',
      message,
      lastUpdateTime: at,
      lastTransitionTime: at,
    };
    finish(entry, (object) => ({ conditions: [...listAt(object, 'status', 'conditions'), failed] }));
  }

  async function sign(entry: Entry, object: JsonObject): Promise<void> {
    const wrong = usagesProblem(object);
    if (wrong !== undefined) return fail(entry, wrong);
    const request = Buffer.from(textAt(object, 'spec', 'request') ?? '', 'base64').toString('utf8');
    const seconds = Math.min(MAX_SECONDS, numberAt(object, 'spec', 'expirationSeconds') ?? MAX_SECONDS);
    try {
      const authority = await clientAuthority(world);
      const making = { now: world.clock.now(), random: world.random };
      const certificate = await signClient(authority, request, seconds, making, SIGNERS.get(textAt(object, 'spec', 'signerName') ?? ''));
      finish(entry, () => ({ certificate: Buffer.from(certificate, 'utf8').toString('base64') }));
    } catch (error) {
      fail(entry, messageOf(error));
    }
  }

  function reconcile(entry: Entry): void {
    if (underWay.has(entry.uid)) return;
    const object = parsed(entry);
    const open =
      has(object, 'Approved') && !has(object, 'Denied') && !has(object, 'Failed') && textAt(object, 'status', 'certificate') === undefined;
    if (!open || !SIGNERS.has(textAt(object, 'spec', 'signerName') ?? '')) return;
    underWay.add(entry.uid);
    void sign(entry, object).finally(() => underWay.delete(entry.uid));
  }

  return {
    start() {
      for (const entry of world.store.table(REQUESTS).entries()) reconcile(entry);
    },
    onEvent({ resource, type, entry }: EntryEvent) {
      if (resource === REQUESTS && type !== 'DELETED') reconcile(entry);
    },
  };
}
