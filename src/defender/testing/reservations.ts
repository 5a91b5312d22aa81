import type { DefenderPolicySpec, LimitSpec } from '../../api/defender-policy.ts';
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import type { IndexedMachine } from '../availability-index.ts';
import type { Request } from '../request.ts';

export const T0 = Date.UTC(2026, 10, 20);
const iso = (seconds: number): string => new Date(T0 + seconds * 1000).toISOString();

export function reservation(id: string, machine: string, change: Partial<LedgerReservation> = {}): LedgerReservation {
  return {
    id,
    machineUID: `uid-${machine}`,
    machine: `web/${machine}`,
    kind: 'Change',
    class: 'Change',
    requesterUID: 's1',
    requester: 'MachineComponentSet/kubelet',
    scopes: ['cluster', 'pool/web'],
    since: iso(0),
    notAfter: iso(900),
    ...change,
  };
}

export function request(machine: string, change: Partial<Request> = {}): Request {
  return {
    machineUID: `uid-${machine}`,
    machine: `web/${machine}`,
    nodeUID: undefined,
    kind: 'Change',
    class: 'Change',
    requesterUID: 's1',
    requester: 'MachineComponentSet/kubelet',
    labels: {},
    lastDisruptionMs: undefined,
    scopes: ['cluster', 'pool/web'],
    since: 0,
    mustBeginWithinMs: 900_000,
    ...change,
  };
}

export function counted(machine: string, change: Partial<IndexedMachine> = {}): IndexedMachine {
  return {
    uid: `uid-${machine}`,
    name: `web/${machine}`,
    scopes: ['cluster', 'pool/web'],
    unavailable: false,
    persistently: false,
    ...change,
  };
}

export const policy = (name: string, ...limits: LimitSpec[]): { metadata: { name: string }; spec: DefenderPolicySpec } => ({
  metadata: { name },
  spec: { limits },
});
