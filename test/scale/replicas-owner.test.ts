import { afterEach, beforeEach, describe, it, vi } from 'vitest';
import { openCell, type TestCell } from '../../src/controllers/machine-component-set/testing/cell.ts';
import { runMachineSetController } from '../../src/controllers/machine-set/controller.ts';
import { CASES, scaledSet } from './replicas-owner.ts';

vi.setConfig({ testTimeout: 120_000 });

describe('C8e: machines go by a commit alone, on an embedded server', () => {
  let cell: TestCell;
  let running: Promise<void>[];
  beforeEach(async () => {
    cell = await openCell();
    running = [
      runMachineSetController({ ...cell.ports, providers: new Map([['fake', { validate: () => [] }]]), term: Promise.resolve(1) }),
    ];
  });
  afterEach(() => cell.close(running));

  it.each(CASES)('%s', (_, run) => run(scaledSet(cell.client, 'web')));
});
