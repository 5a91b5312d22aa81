/** Starts a unit, and is killed before the step that its argument names. */
import { nodeFiles } from '../../../src/agent/ports/files.ts';
import type { Files } from '../../../src/agent/ports/files.ts';
import { nodeSystemctl } from '../../../src/agent/ports/systemctl.ts';
import { createSystemdUnits } from '../../../src/agent/ports/systemd.ts';
import { systemClock } from '../../../src/kube/clock.ts';
import { recordingLog } from '../../../src/kube/testing/log.ts';

const [, , given = '', hash = ''] = process.argv;
let left = Number(given);

function step(): void {
  if (left-- === 0) process.kill(process.pid, 'SIGKILL');
}

const CHANGES = ['write', 'rename', 'unlink', 'symlink', 'sync', 'mkdir'];
const real = nodeFiles();
const files: Files = new Proxy(real, {
  get(target, name, receiver) {
    const found: unknown = Reflect.get(target, name, receiver);
    if (typeof name !== 'string' || !CHANGES.includes(name) || typeof found !== 'function') return found;
    return (...args: unknown[]): unknown => {
      step();
      return Reflect.apply(found, target, args);
    };
  },
});
const units = createSystemdUnits({
  files,
  systemctl: (args, timeoutMs) => {
    step();
    return nodeSystemctl(args, timeoutMs);
  },
  clock: systemClock(),
  log: recordingLog(),
});
await units.start({
  name: 'app',
  exec: ['/bin/sh', '-c', 'while true; do sleep 0.05; done', 'new-one'],
  environment: {},
  stopTimeoutSeconds: 5,
  hash,
  generation: 'g1',
});
units.close();
process.exit(0);
