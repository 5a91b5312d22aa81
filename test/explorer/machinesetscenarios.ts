import type { Mutation, Scenario } from './machinesetworld.ts';

export const MACHINE_SETS: Scenario[] = [
  { name: 'one fewer is asked for, and the leader changes', machines: 3, scales: [2], budget: { takeover: 1 } },
  { name: 'one fewer, and it is reverted', machines: 3, scales: [2, 3], budget: { takeover: 1 } },
  { name: 'one fewer, reverted, with stores that are old', machines: 2, scales: [1, 2], budget: { stale: 1 } },
  {
    name: 'one fewer, reverted, with stores that are old, and the leader changes',
    machines: 2,
    scales: [1, 2],
    budget: { stale: 1, takeover: 1 },
    large: true,
  },
  { name: 'one fewer, reverted, and an answer is lost', machines: 2, scales: [1, 2], budget: { lostReply: 1 } },
  { name: 'one more, with stores that are old', machines: 1, scales: [2], budget: { stale: 1 } },
  { name: 'one more, and the leader changes', machines: 1, scales: [2], budget: { takeover: 1 } },
  { name: 'one fewer under a Freeze', machines: 2, scales: [1], budget: { freeze: 1 } },
  { name: 'one fewer, and somebody deletes one', machines: 2, scales: [1], budget: { humanDelete: 1 } },
  { name: 'the number is left out', machines: 2, scales: [undefined, 1], budget: {} },
  {
    name: 'one fewer, reverted, an answer is lost and the leader changes',
    machines: 2,
    scales: [1, 2],
    budget: { lostReply: 1, takeover: 1 },
    large: true,
  },
  { name: 'one more, and everything goes wrong', machines: 1, scales: [2], budget: { takeover: 1, crash: 1, stale: 1 }, large: true },
  {
    name: 'one fewer under a Freeze, somebody deletes one, and the leader changes',
    machines: 2,
    scales: [1],
    budget: { takeover: 1, freeze: 1, humanDelete: 1 },
    large: true,
  },
  {
    name: 'the number is left out, somebody deletes one, and the leader changes',
    machines: 2,
    scales: [undefined, 1],
    budget: { takeover: 1, humanDelete: 1 },
    large: true,
  },
];

export const MACHINE_SET_MUTANTS: { rule: string; mutation: Mutation; scenario: Omit<Scenario, 'mutation'>; caughtBy: RegExp }[] = [
  {
    rule: 'C8a: marks are not conditioned on the version that was read',
    mutation: { marksUnconditioned: true },
    scenario: { name: '', machines: 2, scales: [1, 2], budget: { lostReply: 1 } },
    caughtBy: /overtaken/,
  },
  {
    rule: 'C8a: marks of another term are acted on',
    mutation: { epochIgnored: true },
    scenario: { name: '', machines: 2, scales: [1, 2], budget: { lostReply: 1, takeover: 1 } },
    caughtBy: /taken back/,
  },
  {
    rule: 'C8a: a deletion is not conditioned on the version that was read',
    mutation: { deletionsUnconditioned: true },
    scenario: { name: '', machines: 2, scales: [1, 2], budget: {} },
    caughtBy: /taken back/,
  },
  {
    rule: 'C8a: victims come from the store',
    mutation: { victimsFromStore: true },
    scenario: { name: '', machines: 3, scales: [2, 3], budget: { stale: 1 } },
    caughtBy: /left/,
  },
  {
    rule: 'C8a: machines are made without a live read of the number',
    mutation: { createsUnchecked: true },
    scenario: { name: '', machines: 1, scales: [2, 1], budget: { stale: 1 } },
    caughtBy: /at most/,
  },
  {
    rule: 'C8a: a set runs again before its stores show what it wrote',
    mutation: { runsOnOldStores: true },
    scenario: { name: '', machines: 1, scales: [2], budget: { stale: 1 } },
    caughtBy: /at most/,
  },
  {
    rule: 'C8: a deletion begins under a Freeze',
    mutation: { freezeIgnored: true },
    scenario: { name: '', machines: 2, scales: [1], budget: { freeze: 1 } },
    caughtBy: /invariant 5/,
  },
];
