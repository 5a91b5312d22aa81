import type { Budget, Scenario } from './world.ts';

export interface Named {
  name: string;
  scenario: Scenario;
  /** Too many states for every change: runs where KUBENODE_EXPLORE is `large`. */
  large?: boolean;
}

/** Two leaders, one of which may be deposed at any moment, and two machines; one may be disrupted at a time. */
const world = (budget: Partial<Budget>, rest: Partial<Scenario> = {}): Scenario => ({
  machines: 2,
  leaders: 2,
  flights: 1,
  ...rest,
  budget: { takeover: 1, ...budget },
});

export const UPGRADES: Named[] = [
  { name: 'an upgrade, with a crash, a lost reply and a store that stops', scenario: world({ crash: 1, lostReply: 1, freeze: 1 }) },
  { name: 'an upgrade that needs a drain, while time passes', scenario: world({ expiry: 1 }, { needs: 'Drain' }) },
  {
    name: 'an upgrade of three machines, two at a time, by one leader that does two things at once',
    scenario: world({ takeover: 0 }, { machines: 3, limit: 2, leaders: 1, flights: 2 }),
  },
  {
    name: 'an upgrade, with two crashes, a lost reply and a store that stops',
    scenario: world({ crash: 2, lostReply: 1, freeze: 1 }),
    large: true,
  },
  {
    name: 'a drain that is reverted while time passes',
    scenario: world({ expiry: 1, revert: 1 }, { needs: 'Drain' }),
    large: true,
  },
  {
    name: 'an upgrade of three machines, two at a time, that is reverted',
    scenario: world({ takeover: 0, revert: 1 }, { machines: 3, limit: 2, leaders: 1, flights: 2 }),
    large: true,
  },
];

export const FAILURES: Named[] = [
  { name: 'a failed probe after which the node is restored, with a crash', scenario: world({ crash: 1 }, { fails: 'restored' }) },
  { name: 'a failed probe after which nothing runs, with a crash', scenario: world({ crash: 1 }, { fails: 'not-restored' }) },
  {
    name: 'a failed probe where no version was ever verified, with a crash',
    scenario: world({ crash: 1 }, { fails: 'restored', verified: false }),
  },
  {
    name: 'a failed probe after which nothing runs, with a store that stops',
    scenario: world({ freeze: 1 }, { fails: 'not-restored', acting: true }),
  },
  {
    name: 'a failed probe after which the node is restored, with a crash, a lost reply and a store that stops',
    scenario: world({ crash: 1, lostReply: 1, freeze: 1 }, { fails: 'restored' }),
    large: true,
  },
];

export const REVERTS: Named[] = [
  { name: 'a revert at any moment', scenario: world({ revert: 1 }) },
  {
    name: 'a revert at any moment, with stores that stop',
    scenario: world({ revert: 1, freeze: 1 }, { frozenTogether: true, changed: 1 }),
  },
  { name: 'a halt at any moment', scenario: world({ halt: 1 }) },
  { name: 'a human who cordons and uncordons', scenario: world({ cordonByHuman: 1 }) },
  {
    name: 'a revert and stores that stop, under one leader that does three things at once',
    scenario: world({ takeover: 0, revert: 1, freeze: 1 }, { leaders: 1, flights: 3 }),
  },
  { name: 'a revert at any moment, with a crash and a store that stops', scenario: world({ revert: 1, crash: 1, freeze: 1 }), large: true },
  { name: 'a revert and a human who cordons and uncordons', scenario: world({ cordonByHuman: 1, revert: 1 }), large: true },
];

export const FORGETTING: Named[] = [
  { name: 'an upgrade whose ledger is deleted at any moment', scenario: world({ forget: 1 }, { changed: 2 }) },
  {
    name: 'a revert, and a ledger that is deleted at any moment',
    scenario: world({ forget: 1, revert: 1 }, { changed: 1 }),
  },
  {
    name: 'a drain, and a ledger that is deleted at any moment',
    scenario: world({ forget: 1 }, { needs: 'Drain', changed: 1 }),
  },
  {
    name: 'a failed probe after which nothing runs, and a ledger that is deleted at any moment',
    scenario: world({ forget: 1 }, { fails: 'not-restored' }),
    large: true,
  },
  {
    name: 'a deletion at any moment, and a ledger that is deleted at any moment, with a store that stops',
    scenario: world({ forget: 1, deletion: 1, freeze: 1 }, { changed: 1 }),
    large: true,
  },
  {
    name: 'a ledger that is deleted twice, with a lost reply',
    scenario: world({ forget: 2, lostReply: 1, takeover: 2 }, { changed: 1 }),
    large: true,
  },
];

export const REGISTRATIONS: Named[] = [
  { name: 'a Node that is deleted at any moment and registers again', scenario: world({ reregister: 1 }, { changed: 2 }) },
  {
    name: 'a drain, and a Node that is deleted at any moment and registers again, with a crash',
    scenario: world({ reregister: 1, crash: 1 }, { needs: 'Drain', changed: 1 }),
  },
  {
    name: 'a failed probe after which nothing runs, and a Node that is deleted at any moment and registers again',
    scenario: world({ reregister: 1 }, { fails: 'not-restored', changed: 1 }),
  },
  {
    name: 'a revert, and a Node that is deleted at any moment and registers again, with a store that stops',
    scenario: world({ reregister: 1, revert: 1, freeze: 1 }, { changed: 1, frozenTogether: true }),
    large: true,
  },
];

export const DELETIONS: Named[] = [
  {
    name: 'a deletion at any moment, with a crash, and the same name made again',
    scenario: world({ deletion: 1, crash: 1, recreate: 1 }, { changed: 1 }),
  },
  { name: 'a deletion at any moment, with a store that stops', scenario: world({ deletion: 1, freeze: 1 }, { changed: 1 }) },
  {
    name: 'a node that dies permanently, and an operator who releases it',
    scenario: world({ agentDeath: 1, expiry: 1 }, { changed: 1 }),
  },
  {
    name: 'a node that dies permanently, and a deletion',
    scenario: world({ agentDeath: 1, expiry: 1, deletion: 1 }, { changed: 1 }),
    large: true,
  },
  {
    name: 'a deletion at any moment while both machines change, with a crash and a store that stops',
    scenario: world({ deletion: 1, crash: 1, freeze: 1 }),
    large: true,
  },
];
