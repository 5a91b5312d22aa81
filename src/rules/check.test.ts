import { describe, expect, it } from 'vitest';
import { checkRule, checkRules } from './check.ts';
import { compileRule } from './index.ts';
import { validationErrorText } from './validation-error.ts';
import { bad, good, rule, ruleObject } from './testing.ts';
import { compileWhen } from './when.ts';

const paths = (spec: object) => checkRule(ruleObject('r', spec)).map(({ path }) => path);
const when = (...all: unknown[]) => ({ when: { all } });
const leaf = (fact: string, operator: string, value: unknown, rest = {}) => ({ fact, operator, value, ...rest });

const probed = { ...when(bad('KubeletUnhealthy')), healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 60 } };

it('accepts a rule that sets every field', () => {
  expect(
    checkRule(
      ruleObject('hung', {
        when: {
          all: [
            bad('KernelDeadlock'),
            leaf('machine', 'in', ['Running', 'Degraded'], { path: 'phase' }),
            leaf('node.annotation.team.example.com/no-repair', 'notEqual', 'true', { params: { default: '' } }),
            { any: [leaf('peers.rack.unhealthy', 'lessThan', 3), leaf('node.taints', 'contains', 'drained')] },
            { not: leaf('machine.pool', 'in', ['build']) },
            leaf('hysteresis.condition.KernelDeadlock.rises', 'equal', true, { params: { enter: 3, leave: 1, windowSeconds: 600 } }),
          ],
        },
        ladder: [
          { action: 'MigratePods', args: { graceSeconds: 30 } },
          { action: 'Reboot', attempts: 2, timeoutSeconds: 900, cooldownSeconds: 60 },
          { action: 'Replace' },
          { action: 'Human', args: { note: 'see the runbook' } },
        ],
        selector: { tier: 'web' },
        pools: ['web'],
      }),
    ),
  ).toEqual([]);
});

describe('conditions are refused with the path', () => {
  it.each([
    ['an unknown fact', when(leaf('condition.KernelDeadlock.state', 'equal', 'True')), 'spec.when.all[0].fact'],
    ['an unknown path', when(leaf('machine', 'equal', 'Running', { path: 'fase' })), 'spec.when.all[0].path'],
    ['a path below a value', when(leaf('machine.phase', 'equal', 'Running', { path: 'name' })), 'spec.when.all[0].path'],
    ['an unknown operator', when(leaf('machine.phase', 'equals', 'Running')), 'spec.when.all[0].operator'],
    ['a missing operator', when({ fact: 'machine.phase', value: 'Running' }), 'spec.when.all[0].operator'],
    ['a decorated operator', when(leaf('machine.phase', 'not:equal', 'Running')), 'spec.when.all[0].operator'],
    ['a decorator that is true of an empty list', when(leaf('node.taints', 'everyFact:equal', 'x')), 'spec.when.all[0].operator'],
    ['an operator of another type', when(leaf('machine.phase', 'greaterThan', 'Running')), 'spec.when.all[0].operator'],
    ['an empty any', { when: { any: [] } }, 'spec.when.any'],
    ['an empty all inside', when({ all: [] }, bad('A')), 'spec.when.all[0].all'],
    ['an all that is no list', { when: { all: bad('A') } }, 'spec.when.all'],
    ['two groups in one', { when: { all: [bad('A')], any: [bad('B')] } }, 'spec.when.any'],
    ['an error under not', { when: { not: leaf('machine.phase', 'equals', 'Running') } }, 'spec.when.not.operator'],
    ['a list under not', { when: { not: [bad('A')] } }, 'spec.when.not'],
    ['a bare fact', { when: bad('A') }, 'spec.when'],
    ['no condition at all', { when: {} }, 'spec.when.fact'],
    ['a shared condition', when({ condition: 'hung' }), 'spec.when.all[0].condition'],
    ['a priority, which would leave facts unread', when({ ...bad('A'), priority: 3 }), 'spec.when.all[0].priority'],
    ['a JSONPath filter', when(leaf('machine', 'equal', 'x', { path: '$..[?(@.type)]' })), 'spec.when.all[0].path'],
    ['a JSONPath root', when(leaf('machine', 'equal', 'Running', { path: '$.phase' })), 'spec.when.all[0].path'],
    ['a value the fact never has', when(leaf('condition.A.status', 'equal', 'true')), 'spec.when.all[0].value'],
    ['a value of another type', when(leaf('condition.A.status', 'equal', true)), 'spec.when.all[0].value'],
    ['another fact as the value', when(leaf('component.a.version', 'equal', { fact: 'component.a.wanted' })), 'spec.when.all[0].value'],
    ['a list that is none', when(leaf('machine.phase', 'in', 'Running')), 'spec.when.all[0].value'],
    ['an empty list', when(leaf('machine.phase', 'in', [])), 'spec.when.all[0].value'],
    ['one bad value of a list', when(leaf('machine.phase', 'in', ['Running', 'Runing'])), 'spec.when.all[0].value[1]'],
    ['no value', when({ fact: 'machine.phase', operator: 'equal' }), 'spec.when.all[0].value'],
    ['a window that is not given', when(leaf('condition.A.rises', 'greaterThan', 2)), 'spec.when.all[0].params.windowSeconds'],
    [
      'a window of zero',
      when(leaf('condition.A.rises', 'greaterThan', 2, { params: { windowSeconds: 0 } })),
      'spec.when.all[0].params.windowSeconds',
    ],
    [
      'more rises than are counted',
      when(leaf('condition.A.rises', 'greaterThan', 11, { params: { windowSeconds: 60 } })),
      'spec.when.all[0].value',
    ],
    [
      'a band upside down',
      when(leaf('hysteresis.peers.rack.unhealthy', 'equal', true, { params: { enter: 2, leave: 2 } })),
      'spec.when.all[0].params.leave',
    ],
    ['a parameter it has no use for', when({ ...bad('A'), params: { default: 'False' } }), 'spec.when.all[0].params.default'],
    ['an unknown field of a fact', when({ ...bad('A'), valeu: 1 }), 'spec.when.all[0].valeu'],
    ['conditions that exclude each other', when(bad('A'), good('A')), 'spec.when'],
  ])('%s', (_, spec, path) => {
    const errors = checkRule(ruleObject('r', spec));
    expect(errors.map((each) => each.path)).toContain(path);
    for (const each of errors) expect(each.hint.length, validationErrorText(each)).toBeGreaterThan(3);
  });

  it('nested without end', () => {
    let deep: object = bad('A');
    for (let level = 0; level < 12; level += 1) deep = { all: [deep] };
    expect(checkRule(ruleObject('r', { when: deep }))[0]?.message).toContain('too deeply');
    expect(checkRule(ruleObject('r', when(...Array.from({ length: 65 }, () => bad('A')))))[0]?.message).toContain('65');
  });

  it.each([
    ['notEqual', when(leaf('condition.A.status', 'notEqual', 'False'))],
    ['notIn', when(leaf('node.kernel', 'notIn', ['6.1']))],
    ['doesNotContain', when(leaf('node.taints', 'doesNotContain', 'x'))],
    ['not', when({ not: good('A') })],
    ['not, further out', { when: { not: { any: [leaf('machine.pool', 'equal', 'a'), good('A')] } } }],
    ['a label without a default', when(leaf('node.label.gpu', 'notEqual', 'true'))],
  ])('a negation over a missing fact: %s', (_, spec) => {
    const [found] = checkRule(ruleObject('r', spec));
    expect(found?.message).toContain('while it is missing');
  });

  it('and the hint of a negation names what it must be', () => {
    expect(checkRule(ruleObject('r', when(leaf('condition.A.status', 'notEqual', 'False'))))[0]?.hint).toBe(
      'name what it must be: "in": ["True"], without a negation',
    );
    expect(checkRule(ruleObject('r', when(leaf('node.label.gpu', 'notEqual', 'true'))))[0]?.hint).toContain('"default"');
  });

  it('never compiled into the running set', () => {
    expect(() => compileRule(rule('r', { when: { any: [] } }))).toThrow('spec.when.any');
  });
});

describe('ladders are refused with the path', () => {
  const human = { action: 'Human' };
  it.each([
    ['no human at the end', { ladder: [{ action: 'Reboot' }] }, 'spec.ladder[0]'],
    ['a human in the middle', { ladder: [human, { action: 'Reboot' }, human] }, 'spec.ladder[0]'],
    ['nothing on it', { ladder: [] }, 'spec.ladder'],
    ['an unknown action', { ladder: [{ action: 'Explode' }, human] }, 'spec.ladder[0].action'],
    ['an argument it does not take', { ladder: [{ action: 'Reboot', args: { hard: true } }, human] }, 'spec.ladder[0].args.hard'],
    ['an argument that is missing', { ladder: [{ action: 'RestartComponent' }, human], ...probed }, 'spec.ladder[0].args.component'],
    [
      'an argument that is not possible',
      { ladder: [{ action: 'CleanDisk', args: { belowPercent: 0 } }, human], ...probed },
      'spec.ladder[0].args.belowPercent',
    ],
    ['a timeout of zero', { ladder: [{ action: 'Reboot', timeoutSeconds: 0 }, human] }, 'spec.ladder[0].timeoutSeconds'],
    ['no attempts', { ladder: [{ action: 'Reboot', attempts: 0 }, human] }, 'spec.ladder[0].attempts'],
    ['endless attempts', { ladder: [{ action: 'Reboot', attempts: 1000 }, human] }, 'spec.ladder[0].attempts'],
    ['attempts of a human', { ladder: [{ action: 'Human', attempts: 2 }] }, 'spec.ladder[0].attempts'],
    ['one rung twice', { ladder: [{ action: 'Reboot' }, { action: 'Reboot' }, human] }, 'spec.ladder[1]'],
    ['a hold-down of zero', { healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 0 } }, 'spec.healedWhen.forSeconds'],
    ['a negative wait', { holdsForSeconds: -1 }, 'spec.holdsForSeconds'],
    ['an empty selector', { selector: {} }, 'spec.selector'],
    ['no pools', { pools: [] }, 'spec.pools'],
    ['an unknown field', { ladders: [] }, 'spec.ladders'],
  ])('%s', (_, spec, path) => expect(paths(spec)).toContain(path));

  it('where a rung could never be proved', () => {
    const ladder = [{ action: 'RestartComponent', args: { component: 'node-problem-detector' } }, { action: 'Reboot' }, human];
    expect(checkRule(ruleObject('r', { ladder }))[0]).toMatchObject({
      path: 'spec.ladder[0]',
      message: 'RestartComponent could never be proved: KernelDeadlock stays as it is until its detector restarts or the node boots',
    });
    const onNewBoot = { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 60, onNewBoot: true };
    expect(paths({ ladder, healedWhen: onNewBoot })).toEqual(['spec.ladder[0]']);
  });

  it('and not where it can be: by a measured condition, or by one of the Machine', () => {
    const ladder = [{ action: 'RestartComponent', args: { component: 'kubelet' } }, human];
    expect(paths({ ...probed, ladder })).toEqual([]);
    expect(paths({ ladder, healedWhen: { condition: 'KernelDeadlock', of: 'Machine', is: 'False', forSeconds: 60 } })).toEqual([]);
    const healedWhen = { condition: 'Ours', is: 'False', forSeconds: 60 };
    expect(paths({ ...when(bad('Ours')), ladder, healedWhen })).toEqual([]);
  });

  it('where two rungs differ in nothing but how no argument is written', () => {
    expect(paths({ ladder: [{ action: 'Reboot' }, { action: 'Reboot', args: {} }, human] })).toEqual(['spec.ladder[1]']);
  });

  it('where the proof is the fault, of the Node or of the Machine', () => {
    const proof = { condition: 'Ours', is: 'True', forSeconds: 60 };
    const onMachine = when(leaf('machine.condition.Ours.status', 'equal', 'True'));
    expect(paths({ ...onMachine, healedWhen: { ...proof, of: 'Machine' } })).toEqual(['spec.healedWhen']);
    expect(paths({ ...when(good('Ours')), healedWhen: { ...proof, of: 'Machine' } })).toEqual([]);
    const hint = (is: 'True' | 'False') =>
      checkRule(ruleObject('r', { ...when(leaf('condition.Ours.status', 'equal', is)), healedWhen: { ...proof, is } }))[0]?.hint;
    expect([hint('True'), hint('False')]).toEqual(['prove False, or another condition', 'prove True, or another condition']);
  });

  it('where the proof is the fault', () => {
    const healedWhen = { condition: 'Ours', is: 'True', forSeconds: 60 };
    expect(checkRule(ruleObject('r', { ...when(bad('Ours')), healedWhen }))[0]?.message).toContain('would prove the fault');
    expect(paths({ ...when(bad('Ours')), healedWhen: { condition: 'Ready', is: 'False', forSeconds: 60 } })).toEqual([
      'spec.healedWhen.is',
    ]);
    expect(paths({ healedWhen: { condition: 'a b', is: 'True', forSeconds: 60 } })).toContain('spec.healedWhen.condition');
  });
});

describe('two rules that would undo each other', () => {
  const ladder = [{ action: 'Reboot' }, { action: 'Human' }];
  const on = { ...when(bad('Ours')), healedWhen: { condition: 'Ours', is: 'False', forSeconds: 60 }, ladder };
  const off = { ...when(good('Ours')), healedWhen: { condition: 'Ours', is: 'True', forSeconds: 60 }, ladder };

  it('are both refused, and each names the other', () => {
    const found = checkRules([ruleObject('on', on), ruleObject('off', off)]);
    expect(found.get('on')?.[0]).toMatchObject({ path: 'spec.healedWhen' });
    expect(found.get('on')?.[0]?.message).toContain('NodeRemedier off');
    expect(found.get('off')?.[0]?.message).toContain('NodeRemedier on');
  });

  it('a newcomer does not stop the one that runs', () => {
    expect([...checkRules([ruleObject('on', on), ruleObject('off', off)], new Set(['on'])).keys()]).toEqual(['off']);
  });

  it('are each refused once, and the newcomer is the one that does not run yet, in either order', () => {
    const found = checkRules([ruleObject('on', on), ruleObject('off', off)]);
    expect([found.get('on')?.length, found.get('off')?.length]).toEqual([1, 1]);
    expect([...checkRules([ruleObject('on', on), ruleObject('off', off)], new Set(['off'])).keys()]).toEqual(['on']);
  });

  it('are not two rules when one has an error of its own, and so never runs', () => {
    const found = checkRules([ruleObject('on', { ...on, ladder: [{ action: 'Reboot' }] }), ruleObject('off', off)]);
    expect([...found].map(([name, errors]) => [name, errors.map(({ path }) => path)])).toEqual([['on', ['spec.ladder[0]']]]);
  });

  it('are not those that never ask for what proves the other', () => {
    const proof = { healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 }, ladder };
    expect(
      checkRules([ruleObject('a', { ...when(bad('Ours')), ...proof }), ruleObject('b', { ...when(bad('Theirs')), ...proof })]).size,
    ).toBe(0);
  });

  it('are only those that meet in everything else they ask for', () => {
    const also = (on1: unknown, off1: unknown) =>
      checkRules([ruleObject('on', { ...on, ...when(bad('Ours'), on1) }), ruleObject('off', { ...off, ...when(good('Ours'), off1) })]).size;
    expect(also(bad('X'), bad('X'))).toBe(2);
    expect(also(bad('X'), good('X'))).toBe(0);
    expect(also(leaf('condition.X.status', 'in', ['True', 'Unknown']), bad('X'))).toBe(2);
    expect(also(bad('X'), bad('Y'))).toBe(2);
  });

  it('may be on different machines', () => {
    expect(checkRules([ruleObject('on', { ...on, pools: ['a', 'b'] }), ruleObject('off', { ...off, pools: ['b'] })]).size).toBe(2);
    expect(checkRules([ruleObject('on', { ...on, pools: ['a'] }), ruleObject('off', off)]).size).toBe(2);
    expect(checkRules([ruleObject('on', { ...on, selector: { x: '1' } }), ruleObject('off', off)]).size).toBe(2);
    expect(checkRules([ruleObject('on', { ...on, pools: ['a'] }), ruleObject('off', { ...off, pools: ['b'] })]).size).toBe(0);
    expect(checkRules([ruleObject('on', { ...on, selector: { x: '1' } }), ruleObject('off', { ...off, selector: { x: '2' } })]).size).toBe(
      0,
    );
    expect(checkRules([ruleObject('on', { ...on, selector: { x: '1' } }), ruleObject('off', { ...off, selector: { y: '2' } })]).size).toBe(
      2,
    );
    // Every object has a `constructor`, and no machine has that label.
    const [one, other] = [
      { ...on, selector: { constructor: 'z' } },
      { ...off, selector: { x: '1' } },
    ];
    expect(checkRules([ruleObject('on', one), ruleObject('off', other)]).size).toBe(2);
    expect(checkRules([ruleObject('off', other), ruleObject('on', one)]).size).toBe(2);
  });

  it('are not two rules when one only steps aside for the other', () => {
    const deadlock = { ...when(bad('KernelDeadlock')), ladder };
    const notReady = {
      ...when(leaf('condition.Ready.status', 'in', ['False', 'Unknown']), good('KernelDeadlock')),
      healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
      ladder,
    };
    expect(checkRules([ruleObject('deadlock', deadlock), ruleObject('not-ready', notReady)]).size).toBe(0);
  });

  it('also when one of them is about health', () => {
    const health = (value: string) => when(leaf('condition.Ours.health', 'equal', value));
    expect(
      checkRules([ruleObject('on', { ...on, ...health('Unhealthy') }), ruleObject('off', { ...off, ...health('Healthy') })]).size,
    ).toBe(2);
  });
});

it('refuses a number that is none', () => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY])
    expect(paths(when(leaf('peers.rack.unhealthy', 'lessThan', value)))).toEqual(['spec.when.all[0].value']);
});

it('explains how to write a value that is not valid', () => {
  const hint = (value: unknown) => checkRule(ruleObject('r', when(leaf('machine.phase', 'equal', value))))[0]?.hint;
  expect(hint({ fact: 'machine.pool' })).toBe('write a constant: facts are not compared with each other');
  expect(hint(3)).toBe('write a string');
});

it('names the parameters that exist', () => {
  const hint = (fact: string, operator: string, value: unknown) =>
    checkRule(ruleObject('r', when(leaf(fact, operator, value, { params: { windo: 1 } }))))[0]?.hint;
  expect(hint('machine.name', 'equal', 'a')).toBe('remove it');
  expect(hint('machine.provider', 'equal', 'a')).toBe('it takes default');
});

it('reports whether the fact is unknown or the path below it', () => {
  const message = (of: object) => checkRule(ruleObject('r', when(of)))[0]?.message;
  expect(message(leaf('machine.fase', 'equal', 'x'))).toContain('unknown fact');
  expect(message(leaf('machine', 'equal', 'x', { path: 'fase' }))).toContain('unknown path');
});

it('names for each parameter what it takes', () => {
  const band = (params: object) => checkRule(ruleObject('r', when(leaf('hysteresis.condition.A.rises', 'equal', true, { params }))));
  expect(band({ enter: 'x', leave: 1, windowSeconds: 60 })).toMatchObject([
    { path: 'spec.when.all[0].params.enter', hint: 'write a number' },
  ]);
  expect(band({ enter: 3, windowSeconds: 60 })).toMatchObject([{ path: 'spec.when.all[0].params.leave', message: 'must be set' }]);
  for (const windowSeconds of [0, 604_801, 'x'])
    expect(band({ enter: 3, leave: 1, windowSeconds })).toMatchObject([
      { path: 'spec.when.all[0].params.windowSeconds', hint: 'seconds from 1 to 604800' },
    ]);
  for (const windowSeconds of [1, 604_800]) expect(band({ enter: 3, leave: 1, windowSeconds })).toEqual([]);
  expect(band({ enter: -3, leave: -4, windowSeconds: 60 })).toEqual([]);
});

it('explains what to change where the schema refuses a value', () => {
  const hints = (object: object) => checkRule(object).map(({ path, message, hint }) => [path, message, hint]);
  expect(hints(ruleObject('r', { ladders: [] }))).toEqual([['spec.ladders', 'unknown field', 'remove it']]);
  expect(hints(ruleObject('r', { pools: [] }))).toEqual([['spec.pools', 'is empty', 'name at least one']]);
  expect(hints(ruleObject('r', { healedWhen: { condition: 'KernelDeadlock', is: 'False' } }))).toEqual([
    ['spec.healedWhen.forSeconds', 'must be set', 'set it'],
  ]);
  expect(hints(ruleObject('r', { mode: 'Try' }))[0]?.[2]).toMatch(/^write one of .*Enforce/);
  expect(hints(ruleObject('r', { holdsForSeconds: 1.5 }))[0]?.[2]).toMatch(/^it must be/);
});

it('names the fact that would need two values, and the arguments that an action takes', () => {
  expect(checkRule(ruleObject('r', when(bad('A'), good('A'))))[0]?.message).toContain('condition.A.status would need two values');
  const hint = (action: string) => checkRule(ruleObject('r', { ladder: [{ action, args: { soft: true } }, { action: 'Human' }] }))[0]?.hint;
  expect([hint('Reboot'), hint('MigratePods')]).toEqual(['remove it', 'it takes graceSeconds']);
});

it('names what has no name by an empty one', () => {
  for (const object of [null, {}, { metadata: { name: 3 } }]) expect([...checkRules([object]).keys()]).toEqual(['']);
});

it('refuses two rules of one name, and what is no rule at all', () => {
  expect(checkRules([ruleObject('a'), ruleObject('a')]).get('a')?.[0]?.path).toBe('metadata.name');
  expect(checkRule(null).length).toBeGreaterThan(0);
  expect(checkRule({ kind: 'NodeRemedier' }).length).toBeGreaterThan(0);
});

describe('messages for conditions that are refused', () => {
  const first = (...all: unknown[]) => {
    const [found] = checkRule(ruleObject('r', when(...all)));
    return found === undefined ? [] : [found.path.replace('spec.when.all[0]', '@'), found.message, found.hint];
  };

  it('is what stands there instead of a condition', () => {
    const whole = (value: unknown) => compileWhen(value).errors.map(({ path, message }) => `${path} ${message}`);
    expect(whole(3)).toEqual(['spec.when is not a condition']);
    expect(whole(bad('A'))).toEqual(['spec.when is a single fact']);
    expect(whole({ all: [bad('A')], fact: 'x' })).toEqual(['spec.when.fact stands beside "all"']);
    expect(whole({ any: [bad('A')], fact: 'x' })).toEqual(['spec.when.fact stands beside "any"']);
    expect(first({ condition: 'hung' })[1]).toBe('named conditions are not shared between rules');
  });

  it('is how deep and how many they may be', () => {
    const nested = (levels: number, around: (of: object) => object): object =>
      levels === 0 ? leaf('machine.pool', 'equal', 'a') : around(nested(levels - 1, around));
    for (const around of [(of: object) => ({ all: [of] }), (of: object) => ({ not: of })]) {
      expect(checkRule(ruleObject('r', { when: nested(8, around) }))).toEqual([]);
      expect(checkRule(ruleObject('r', { when: nested(9, around) }))[0]?.message).toBe('is nested too deeply');
    }
    const many = (count: number) => paths(when(...Array.from({ length: count }, () => bad('A'))));
    expect([many(64), many(65)]).toEqual([[], ['spec.when']]);
  });

  it('is which operators its fact takes', () => {
    const forText = 'use one of equal, notEqual, in, notIn';
    expect(first(leaf('machine.name', 'equals', 'a'))).toEqual(['@.operator', 'unknown operator "equals"', forText]);
    expect(first({ fact: 'machine.name', value: 'a' })).toEqual(['@.operator', 'must be set', forText]);
    const unknown = checkRule(ruleObject('r', when(leaf('machine.none', 'equals', 'a')))).find(({ path }) => path.endsWith('operator'));
    expect(unknown?.hint).toContain('contains, doesNotContain, lessThan');
  });

  it('is what a path may be', () => {
    const path = (value: unknown, fact = 'machine') => first({ ...leaf(fact, 'equal', 'Running'), path: value });
    for (const value of ['', 3])
      expect(path(value)).toEqual(['@.path', 'must be a dotted path', `leave it out, or write the rest of the fact's name`]);
    expect(path('$.phase')[1]).toBe('"$.phase" is JSONPath, which is not evaluated here');
    expect(path('name', 'machine.phase')).toEqual(['@.path', 'machine.phase has nothing below it', 'leave the path out']);
    expect(path('fase')[2]).toMatch(/^use one of .*machine.phase/);
  });

  it('is which values and parameters there are', () => {
    expect(first({ fact: 'machine.phase', operator: 'equal' })[1]).toBe('nothing is not a string, which machine.phase is compared with');
    const params = (value: unknown, fact = 'hysteresis.peers.rack.unhealthy') => first({ ...leaf(fact, 'equal', true), params: value });
    expect(params([])).toEqual(['@.params', 'must be an object', 'write {"name": value}']);
    expect(params({ enter: Number.POSITIVE_INFINITY, leave: 1 })[0]).toBe('@.params.enter');
    expect(params({ enter: 'x', leave: 1 })[1]).toBe('"x" is not possible');
    expect(params({ enter: 11, leave: 1 })).toEqual([]);
    const rises = (enter: number, windowSeconds = 60) => params({ enter, leave: 1, windowSeconds }, 'hysteresis.condition.A.rises');
    expect(rises(10)).toEqual([]);
    expect(rises(11)).toEqual(['@.params.enter', 'no more than 10 rises are counted', 'write 10 or less']);
    const twice = { ...leaf('hysteresis.condition.A.rises', 'equal', true), params: { enter: 1, leave: 2, windowSeconds: 0 } };
    expect(paths(when(twice))).toEqual(['spec.when.all[0].params.windowSeconds']);
    const label = (value: unknown) => first({ ...leaf('node.label.gpu', 'notEqual', 'true'), params: { default: value } });
    expect([label('')[0], label(3)]).toEqual([undefined, ['@.params.default', 'is not a string', 'write a string']]);
    expect(first(leaf('condition.A.rises', 'equal', 10, { params: { windowSeconds: 60 } }))).toEqual([]);
  });

  it('is what a negation would be true of, and what to write instead', () => {
    const missing = 'would be true while it is missing';
    expect(first(leaf('condition.A.status', 'notIn', ['False']))).toEqual([
      '@.operator',
      `"notIn" over condition.A.status ${missing} (the Node has no such condition; Unknown when its heartbeat is stale)`,
      'name what it must be: "in": ["True"], without a negation',
    ]);
    const [at, message, hint] = first({ not: good('A') });
    expect([at, hint]).toEqual(['@.not', 'name what it must be: "in": ["True"], without a negation']);
    expect(message).toContain(`a "not" over condition.A.status ${missing}`);
    expect(first(leaf('node.kernel', 'notIn', ['6.1']))[2]).toBe('name what it must be: "in": [ … ], without a negation');
    expect(first(leaf('condition.A.status', 'notIn', ['True', 'False']))[2]).toBe('name what it must be: "in": [ … ], without a negation');
  });
});

describe('conditions that could never be true together', () => {
  const impossible = (...all: unknown[]) =>
    checkRule(ruleObject('r', when(...all))).some(({ message }) => message.startsWith('can never be true'));
  const ready = (fact: string, value: string) => leaf(`condition.KernelReady.${fact}`, 'equal', value);

  it('are those that name two values of one fact, also where they are about health', () => {
    expect(impossible(ready('health', 'Unhealthy'), ready('status', 'True'))).toBe(true);
    expect(impossible(ready('health', 'Unhealthy'), ready('status', 'False'))).toBe(false);
    expect(impossible(ready('health', 'Unknown'), ready('status', 'True'))).toBe(true);
  });

  it('are not rules that only exclude a value of a fact', () => {
    const pool = (operator: string, value: unknown) => leaf('machine.pool', operator, value);
    expect(impossible(pool('equal', 'a'), pool('notEqual', 'b'), pool('notIn', ['c']))).toBe(false);
    expect(impossible(pool('equal', 'a'), { not: pool('equal', 'b') })).toBe(false);
    expect(impossible(pool('in', ['a', 'b']), pool('equal', 'b'))).toBe(false);
    expect(impossible(pool('in', ['a', 'b']), pool('equal', 'c'))).toBe(true);
  });

  it('are those that exclude every way of an "any"', () => {
    expect(impossible({ any: [bad('A'), bad('B')] }, good('A'))).toBe(false);
    const ways = { any: [{ all: [bad('A'), bad('B')] }, { all: [bad('A'), good('C')] }] };
    expect(impossible(ways, good('A'))).toBe(true);
    expect(impossible(ways, bad('A'), good('B'))).toBe(false);
    expect(impossible({ any: [bad('A'), good('A')] }, good('A'))).toBe(false);
  });
});
