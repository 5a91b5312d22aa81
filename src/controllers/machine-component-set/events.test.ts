import { expect, it } from 'vitest';
import type { Condition } from '../../api/wire.ts';
import { eventsOf } from './events.ts';
import type { SetStatus } from './report.ts';

const AT = '2026-11-20T00:00:00Z';
const is = (type: string, status: Condition['status'], message = ''): Condition => ({
  type,
  status,
  reason: 'x',
  message,
  lastTransitionTime: AT,
});
const status = (more: Partial<SetStatus>): SetStatus => ({ conditions: [], ...more });
const verified = (version: string, at = AT) => ({ action: 'Install', version, at }) as unknown as NonNullable<SetStatus['verified']>;
const revision = { number: 4 } as unknown as NonNullable<SetStatus['revision']>;

it.each<[string, Partial<SetStatus> | undefined, Partial<SetStatus>, string[]]>([
  ['that it halted', {}, { conditions: [is('Halted', 'True', 'web/a failed')] }, ['Warning RolloutHalted web/a failed']],
  [
    'that it halted, also where nothing was known before',
    undefined,
    { conditions: [is('Halted', 'True', 'x')] },
    ['Warning RolloutHalted x'],
  ],
  [
    'that it halted again',
    { conditions: [is('Halted', 'False')] },
    { conditions: [is('Halted', 'True', 'x')] },
    ['Warning RolloutHalted x'],
  ],
  ['a halt once', { conditions: [is('Halted', 'True', 'x')] }, { conditions: [is('Halted', 'True', 'other words')] }, []],
  ['no end of a halt', { conditions: [is('Halted', 'True', 'x')] }, { conditions: [is('Halted', 'False')] }, []],
  ['no halt that is not known', {}, { conditions: [is('Halted', 'Unknown', 'x')] }, []],
  [
    'a conflict, beside a halt',
    {},
    { conditions: [is('Conflict', 'True', 'b too'), is('Halted', 'True', 'x')] },
    ['Warning RolloutHalted x', 'Warning SetsConflict b too'],
  ],
  [
    'what is verified, with its revision',
    {},
    { verified: verified('1.0.0'), revision },
    ['Normal ContentVerified revision 4: 1.0.0 is verified'],
  ],
  [
    'what is verified, where no revision is known',
    {},
    { verified: verified('1.0.0') },
    ['Normal ContentVerified revision 0: 1.0.0 is verified'],
  ],
  [
    'what is verified again',
    { verified: verified('1.0.0', '2026-11-19T00:00:00Z') },
    { verified: verified('1.0.0') },
    ['Normal ContentVerified revision 0: 1.0.0 is verified'],
  ],
  [
    'what is verified of another version at the same time',
    { verified: verified('0.9.0') },
    { verified: verified('1.0.0') },
    ['Normal ContentVerified revision 0: 1.0.0 is verified'],
  ],
  ['nothing of what was verified before', { verified: verified('1.0.0') }, { verified: verified('1.0.0') }, []],
  ['nothing where nothing is verified any more', { verified: verified('1.0.0') }, {}, []],
  ['the next batch', { batch: 1, batches: 3 }, { batch: 2, batches: 3 }, ['Normal BatchBegun batch 2 of 3']],
  ['the next batch, where their number is not known', { batch: 1 }, { batch: 2 }, ['Normal BatchBegun batch 2 of 0']],
  ['no first batch', { batch: 0, batches: 3 }, { batch: 1, batches: 3 }, []],
  ['no batch that was begun before', { batch: 2 }, { batch: 2 }, []],
  ['no batch that is an earlier one', { batch: 2 }, { batch: 1 }, []],
  ['no batch where none was known', {}, { batch: 2 }, []],
  ['no batch where none is known any more', { batch: 2 }, {}, []],
])('reports %s', (_what, before, after, expected) => {
  const events = eventsOf(before === undefined ? undefined : status(before), status(after));
  expect(events.map(({ type, reason, message }) => `${type} ${reason} ${message}`)).toEqual(expected);
});
