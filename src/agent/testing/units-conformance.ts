/** What every implementation of the port `Units` does. Tests check it with real processes. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { send, startOf } from '../ports/processes.ts';
import type { LastingUnits, UnitDefinition } from '../ports/units.ts';

export interface UnitsHarness {
  /** As a next agent opens it. */
  open(): Promise<LastingUnits>;
  /** Where scripts may write; made for each test. */
  folder(): string;
  /** How a program that is not there ends. */
  absent: string;
  /** The main process. */
  pidOf(name: string): Promise<number>;
}

export const shellUnit = (script: string, rest: Partial<UnitDefinition> = {}): UnitDefinition => ({
  name: 'app',
  exec: ['/bin/sh', '-c', script],
  environment: {},
  stopTimeoutSeconds: 5,
  hash: 'h1',
  generation: 'g1',
  ...rest,
});

export function unitsConformance(name: string, harness: UnitsHarness): void {
  const out = (file = 'out'): string => {
    const path = join(harness.folder(), file);
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  };
  const to = (file = 'out'): string => join(harness.folder(), file);
  const forever = (word = 'begun'): string => `echo ${word} >> ${to()}; while true; do sleep 0.05; done`;
  const wrote = async (text: string): Promise<unknown> => await waitFor(() => out().includes(text), { deadlineMs: 10_000, what: text });
  const first = async (units: LastingUnits) => (await units.list()).find((each) => each.name === 'app');

  test(`${name}: before a start nothing is listed, and stopping or reloading is no error`, async () => {
    const units = await harness.open();
    expect(await units.list()).toEqual([]);
    await units.stop('app');
    await units.reload('app');
  });

  test(`${name}: a unit has only PATH of the agent's environment, and its words unchanged`, async () => {
    process.env['KUBENODE_SECRET'] = 'secret';
    const words = [
      '',
      'a b',
      '%n %% %h',
      '$HOME ${HOME} $$',
      '"quoted" \'single\'',
      '\\ \\n',
      'line\nExecStartPre=/bin/false',
      '\ttab',
      ';',
      '# x',
      'ü✓',
    ];
    const script = `env -0 > ${to('env')}; printf '%s\\0' "$@" > ${to('words')}; ${forever()}`;
    const units = await harness.open();
    const status = await units.start(
      shellUnit('', { exec: ['/bin/sh', '-c', script, 'app', ...words], environment: { OWN: 'a "b" %n $X \\ \n c', EMPTY: '' } }),
    );
    delete process.env['KUBENODE_SECRET'];
    expect(status).toMatchObject({ name: 'app', running: true, hash: 'h1', generation: 'g1' });
    await wrote('begun');
    expect(out('words').split('\0').slice(0, -1)).toEqual(words);
    const environment = out('env').split('\0');
    expect(environment).toContain('OWN=a "b" %n $X \\ \n c');
    expect(environment).toContain('EMPTY=');
    expect(out('env')).toContain('KUBENODE_ROOT=');
    expect(out('env')).not.toContain('secret');
  });

  test(`${name}: a unit outlives the agent, and the next one has the same`, async () => {
    const one = await harness.open();
    const { invocation } = await one.start(shellUnit(forever()));
    await wrote('begun');
    one.close();
    const two = await harness.open();
    expect(await two.list()).toEqual([{ name: 'app', running: true, invocation, hash: 'h1', generation: 'g1' }]);
    send(await harness.pidOf('app'), 'SIGKILL');
    await waitFor(async () => (await first(two))?.running === false);
    expect(await first(two)).toMatchObject({ running: false, hash: 'h1', generation: 'g1' });
  });

  test(`${name}: a unit that ends by itself is reported soon, with how it ended; it is not started again`, async () => {
    const units = await harness.open();
    let exits = 0;
    units.onExit(() => exits++);
    await units.start(shellUnit(`while [ ! -e ${to('end')} ]; do sleep 0.02; done; exit 3`));
    const before = await first(units);
    expect(before).toMatchObject({ running: true });
    const { writeFileSync } = await import('node:fs');
    writeFileSync(to('end'), '');
    await waitFor(() => exits > 0);
    expect(await first(units)).toEqual({ ...before, running: false, exit: 'exit code 3' });
  });

  test(`${name}: one that ends at once has ended, however quick it was`, async () => {
    const units = await harness.open();
    await units.start(shellUnit('exit 4'));
    await waitFor(async () => (await first(units))?.exit === 'exit code 4');
    await units.start(shellUnit('kill -9 $$'));
    await waitFor(async () => (await first(units))?.exit === 'signal SIGKILL');
  });

  test(`${name}: a program that is not there ends its unit; it has no other effect`, async () => {
    const units = await harness.open();
    await units.start(shellUnit('', { exec: ['/no/such/program'] }));
    await waitFor(async () => (await first(units))?.exit === harness.absent);
    await units.start(shellUnit(forever()));
    expect(await first(units)).toMatchObject({ running: true });
  });

  test(`${name}: stopping asks first, and then takes the whole group; then it is not listed`, async () => {
    const units = await harness.open();
    await units.start(shellUnit(`trap 'echo asked >> ${to()}; exit 0' TERM; ${forever()}`));
    await wrote('begun');
    await units.stop('app');
    expect(out()).toContain('asked');
    const unresponsive = `trap '' TERM; while true; do sleep 0.05; done`;
    await units.start(
      shellUnit(`trap '' TERM; sh -c "${unresponsive}" & echo child $! >> ${to()}; ${forever('again')}`, { stopTimeoutSeconds: 1 }),
    );
    await wrote('again');
    const pid = await harness.pidOf('app');
    const child = Number(/child (\d+)/.exec(out())?.[1]);
    expect(await startOf(child)).toBeDefined();
    await units.stop('app');
    expect(await startOf(pid)).toBeUndefined();
    expect(await startOf(child)).toBeUndefined();
    expect(await units.list()).toEqual([]);
  });

  test(`${name}: what a dead leader left behind is stopped before the unit runs again`, async () => {
    const units = await harness.open();
    await units.start(shellUnit(`sh -c 'while true; do sleep 0.05; done' & echo child $! >> ${to()}; echo begun >> ${to()}; sleep 60`));
    await wrote('begun');
    const child = Number(/child (\d+)/.exec(out())?.[1]);
    send(await harness.pidOf('app'), 'SIGKILL');
    await waitFor(async () => (await first(units))?.running === false);
    await units.start(shellUnit(forever('again'), { hash: 'h2' }));
    expect(await startOf(child)).toBeUndefined();
    expect(await first(units)).toMatchObject({ running: true, hash: 'h2' });
  });

  test(`${name}: a unit that is started again is another invocation; one that is reloaded is not`, async () => {
    const units = await harness.open();
    const one = await units.start(shellUnit(`trap 'echo reloaded >> ${to()}' HUP; ${forever()}`));
    await wrote('begun');
    await units.reload('app');
    await wrote('reloaded');
    expect((await first(units))?.invocation).toBe(one.invocation);
    const two = await units.start(shellUnit(forever(), { generation: 'g2' }));
    expect(two.invocation).not.toBe(one.invocation);
    expect(await units.list()).toMatchObject([{ running: true, generation: 'g2' }]);
  });

  test(`${name}: units are distinguished`, async () => {
    const units = await harness.open();
    const app = await units.start(shellUnit(forever()));
    await units.start(shellUnit(forever('other'), { name: 'other', hash: 'h3' }));
    await wrote('other');
    await units.stop('other');
    expect(await units.list()).toEqual([app]);
  });
}
