/**
 * What runs in the fleet's own realm, beside its code: the constructs, the guards, and what turns constructs into text. It shares no object with the realm
 * around it: only texts and numbers pass, through the two functions of the `Host`, which are called here and nowhere else, so that fleet code never gets them.
 * Bundled as one script (`tools/bundle.ts`).
 */
import './builtins/globals.ts';
import * as cdk8s from 'cdk8s';
import * as constructs from 'constructs';
import * as kubenode from '../../../constructs/index.ts';
import { nameMissing } from '../../../constructs/errors.ts';
import { hashPort } from './builtins/crypto.ts';
import { collect } from './collect.ts';
import { toFinding } from './failure.ts';
import { guard } from './guards.ts';
import { rememberLocations } from './locations.ts';
import type { ChildOutput } from '../wire.ts';

/** Both give texts only, and throw nothing but what the engine makes them throw. */
export interface RealmHost {
  write: (fd: number, text: string) => void;
  hash: (algorithm: string, hex: string) => string;
}

/** Packages that fleet code may import, by name. */
export async function shelf(plus: boolean): Promise<[name: string, exported: [string, unknown][]][]> {
  const all: [string, Record<string, unknown>][] = [
    ['kubenode/constructs', kubenode],
    ['cdk8s', cdk8s],
    ['constructs', constructs],
  ];
  // Heavy, so it is loaded only for a fleet that mentions it.
  if (plus) all.push(['cdk8s-plus-27', await import('cdk8s-plus-27')]);
  return all.map(([name, module]) => [
    name,
    Object.entries(module).filter(([key]) => key !== 'default' && key !== 'module.exports' && /^[\w$]+$/.test(key)),
  ]);
}

/** To be called after `shelf` and before fleet code runs. `finish` gives the result as text, `fail` that of anything that was thrown. */
export function prepare(host: RealmHost, entry: string): { finish: () => string; fail: (error: unknown) => string } {
  const { write, hash } = host;
  // Errors of the host's realm must not pass: at the end of the stack the engine makes them.
  const log = (fd: 1 | 2, text: string): void => {
    try {
      write(fd, text);
    } catch {
      throw new RangeError('the log could not be written');
    }
  };
  hashPort.hash = (algorithm, hex) => {
    try {
      return hash(algorithm, hex);
    } catch {
      throw new RangeError('no digest could be made');
    }
  };
  // Names after a hash of the construct's location change when it moves, and the object is replaced.
  cdk8s.Chart.prototype.generateObjectName = (object) => {
    throw nameMissing(object.kind);
  };
  const made = rememberLocations();
  Error.stackTraceLimit = 50;
  const { stringify } = JSON;
  guard(log);
  const text = (output: ChildOutput): string => stringify(output);
  return {
    finish: () => {
      const clusters = kubenode.fleet.build();
      const unsigned = kubenode.fleet.unsigned().map((error) => toFinding(error, entry));
      return text(collect(clusters, made, { entry, unsigned }));
    },
    fail: (error) => text({ ok: false, findings: [toFinding(error, entry)] }),
  };
}
