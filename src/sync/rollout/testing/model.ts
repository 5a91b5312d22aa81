/**
 * A fleet with one unit that changes, for the property test of rollouts. Of two hubs one leads; one that was deposed carries on with what it
 * had decided, a request at a time, at any moment. It throws where a promise is broken.
 */
import { observeAndDecide, perform, report } from './hubs.ts';
import { standsIn } from './promises.ts';
import * as fleets from './state.ts';
import { REAL, wantedOn, type FleetState, type Head, type Hub } from './state.ts';

export function rolloutModel(unit: string, maxClusters: number, terms = true) {
  let state = fleets.emptyFleet(unit, maxClusters, terms);
  const count = { forward: 0, restored: 0, fenced: 0 };

  function keep(broken: string | undefined): void {
    if (broken !== undefined) throw new Error(broken);
  }

  /** The hub's next request. */
  function carryOn(hub: Hub): Hub {
    const task = hub.tasks[0];
    if (task === undefined) return hub;
    const outcome = perform(state, hub, task.cluster, REAL);
    const left = outcome.hub.tasks.find(({ cluster }) => cluster === task.cluster)?.todo.length ?? 0;
    if (left < task.todo.length - 1 && !state.away.includes(task.cluster)) count.fenced += 1;
    state = outcome.state;
    keep(outcome.broken);
    return outcome.hub;
  }

  function steer(change: (state: FleetState) => FleetState): void {
    state = change(state);
  }

  const model = {
    count,
    join: (cluster: string, stage: string) => steer((before) => fleets.joined(before, cluster, stage)),
    forget: (cluster: string) => steer((before) => fleets.forgotten(before, cluster)),
    erase: (cluster: string) => steer((before) => fleets.erased(before, cluster)),
    drop: (cluster: string) => steer((before) => fleets.dropped(before, cluster)),
    away: (cluster: string, is: boolean) =>
      steer((before) => ({ ...before, away: [...before.away.filter((name) => name !== cluster), ...(is ? [cluster] : [])] })),
    commit: (digest: string, special: Head['special'] = {}) => steer((before) => fleets.committed(before, { digest, special })),
    /** One pass of the leader; after so many requests it dies. Returns how many steps it saw, and whether all rollouts are over. */
    turn(dies = Infinity): { steps: number; over: boolean } {
      const late = state.deposed.flatMap(({ tasks }) => tasks.flatMap(({ todo }) => todo)).length;
      state = fleets.fencedIn({ ...state, now: state.now + 1000 }, REAL);
      count.fenced += late - state.deposed.flatMap(({ tasks }) => tasks.flatMap(({ todo }) => todo)).length;
      const { hub, steps, over, broken } = observeAndDecide(state, REAL);
      keep(broken);
      for (const step of steps) {
        if (step.do !== 'Apply' || standsIn(state.recorded[step.cluster], step.digest)) continue;
        count[step.lane === 'Restore' ? 'restored' : 'forward'] += 1;
      }
      let doing = hub;
      for (let left = dies; doing.tasks.length > 0; left -= 1) {
        if (left === 0) return { steps: steps.length, over };
        doing = carryOn(doing);
      }
      state = report(state, doing);
      return { steps: steps.length, over };
    },
    /** The leader decides, and sleeps: another leads from now on. */
    depose: () => steer((before) => fleets.deposedIn(before, observeAndDecide(before, REAL).hub)),
    /** The deposed hub wakes for so many requests. */
    late(requests: number): void {
      for (let left = requests; left > 0; left -= 1) {
        const [first, ...others] = state.deposed;
        if (first === undefined) return;
        const after = carryOn(first);
        if (after.tasks.length === 0) state = report(state, after);
        state = { ...state, deposed: after.tasks.length === 0 ? others : [after, ...others] };
      }
    },
    pass: (ms: number) => steer((before) => ({ ...before, now: before.now + ms })),
    prove: (cluster: string) => steer((before) => fleets.proved(before, cluster)),
    halt: (cluster: string) => steer((before) => fleets.halted(before, cluster)),
    pause: (ago: number, paused: boolean) =>
      steer((before) => fleets.steered(before, before.rollouts.at(-1 - ago)?.metadata.name, { paused })),
    retry: () => steer(fleets.retried),
    /** Everybody answers, pauses end, cells prove what they carry: each rollout must end, and then nothing is left to do. */
    settle(): void {
      state = { ...state, away: [] };
      model.late(1000);
      for (const { metadata } of state.rollouts) state = fleets.steered(state, metadata.name, { paused: false });
      for (let turn = 0; turn < 300; turn += 1) {
        if (fleets.waitsForHuman(state)) state = fleets.retried(state);
        for (const cluster of Object.keys(state.cells))
          state = fleets.proved(fleets.withCell(state, cluster, { halted: undefined }), cluster);
        const { steps, over } = model.turn();
        model.pass(20_000);
        if (steps === 0 && over) return;
      }
      throw new Error(`nothing moves any more: ${JSON.stringify({ rollout: state.rollouts.at(-1), records: state.recorded })}`);
    },
    /** Clusters of the fleet that do not hold what is wanted there. */
    wrong: () =>
      state.declared.filter((cluster) => {
        const wanted = wantedOn(state, cluster);
        return wanted !== undefined && (state.cells[cluster]?.unitDigest !== wanted || state.recorded[cluster]?.digest !== wanted);
      }),
  };
  return model;
}
