import { CELLS } from '../src/cli/tour/system.ts';
import { until } from '../src/cli/tour/wait.ts';
import type { Benchmark, Sample } from './harness.ts';
import type { Asker, LoggedRequest } from './requests.ts';
import { now, openSystem, pause, BUMPED, BUMPS, NODES } from './system.ts';

const NOOPS = 3;
const ROLLOUTS = 2;
/** All work that a commit causes has begun within this time. */
const AFTERMATH_MS = 4000;

/** Requests of one rollout over three clusters and seven nodes that could not be left out; see `about`. */
const FEWEST: Record<Exclude<Asker, 'others'>, number> = { hub: 12, 'cell controllers': 44, agent: 28 };

const benchmark: Benchmark = {
  processes: 2,
  about: `
Requests as they arrive at the API servers, distinguished by user agent, in the whole system on real processes (as in commit-to-machine).
Renewals of Leases go on regardless and are left out; so are the stand-ins' own requests and those of what measures. Watches were opened
before.

\`hub\` and \`cell-…\` are requests after a commit that changes no unit: to the hub the fewest possible is 1, the status that names the
commit; to a cell it is 0.

\`changed-node-…\` are requests of a rollout that restarts \`${BUMPED}\` on ${NODES} nodes in 3 clusters, divided by ${NODES}. The fewest possible, when
every read comes from a watch, every write is conditioned instead of preceded by a read, and Events are done without:

- hub, ${FEWEST.hub}: the Rollout, the Fleet's status, a MachineComponent and a set in each cluster, the record of evidence of each cluster, the
  Rollout's end.
- cell controllers, ${FEWEST['cell controllers']}: for each node the entry, the cordon, the order, the outcome, the uncordon; for each cluster one reservation and one
  release of all its nodes together, and the set's evidence.
- agent, ${FEWEST.agent}: for each node the MachineComponent, the announcement, the reading again before it begins (a rule), the report of the end.`,
  goals: Object.fromEntries(CELLS.map((cell) => [`noop-commit/cell-${cell}`, { of: 'value', most: 0 } as const])),
  async run(report) {
    const system = await openSystem();
    const caused = async (fromMs: number): Promise<LoggedRequest[]> => {
      await pause(AFTERMATH_MS);
      return (await system.requestsBetween(fromMs, now())).filter(({ by, path }) => by !== 'others' && !path.includes('/leases'));
    };
    const record = (name: string, value: number, reference: number, unit: Sample['unit']): void =>
      report({ name: `noop-commit/${name}`, tier: 'W', unit, value, reference });
    try {
      await pause(AFTERMATH_MS);
      for (let count = 0; count < NOOPS; count++) {
        const { commit, atMs } = await system.remark();
        await system.accepted(commit);
        const requests = await caused(atMs);
        const to = (cluster: string): number => requests.filter((request) => request.cluster === cluster).length;
        record('hub', to('hub'), 1, 'requests');
        for (const cell of CELLS) record(`cell-${cell}`, to(cell), 0, 'requests');
      }
      for (const version of BUMPS.slice(0, ROLLOUTS)) {
        const { commit, atMs } = await system.bump(version);
        await until(`the bump to ${version} is done`, 120_000, async () => (await system.rolloutOf(commit))?.status?.phase === 'Done');
        const requests = await caused(atMs);
        for (const [by, fewest] of Object.entries(FEWEST)) {
          const count = requests.filter((request) => request.by === by).length;
          record(`changed-node-${by.replaceAll(' ', '-')}`, count / NODES, fewest / NODES, 'requests per node');
        }
      }
    } finally {
      await system.close();
    }
  },
};
export default benchmark;
