/**
 * A unit keeps its API group. It is known by kind and name alone, so that its former object would stay in the cell, in no record, and no deletion would count for it
 * (docs/protocols.md#e1).
 */
import { GROUP } from '../api/kind.ts';
import { groupOf, unitKey } from '../api/unit.ts';
import type { UnitStatus } from '../api/cluster.ts';
import type { Bundles } from './bundles.ts';
import { syncError } from './errors.ts';
import type { Wanted } from './wanted.ts';
import type { RenderedCommit } from './fleet/checkout.ts';

type RenderedUnit = RenderedCommit['clusters'][number]['units'][number];

export interface GroupsInput {
  clusters: RenderedCommit['clusters'];
  /** By cluster: also of other Fleets, and of units that are being removed. */
  recorded: ReadonlyMap<string, readonly UnitStatus[]>;
  /** By cluster and unit: what the accepted commits want. */
  wanted: ReadonlyMap<string, ReadonlyMap<string, Wanted>>;
  bundles: Pick<Bundles, 'get'>;
}

const SHOWN = 20;

interface GroupChange {
  text: string;
  isWanted: boolean;
}

/** Throws where a unit of the commit is of another group than the object of that kind and name that a cluster has, or that an accepted commit wants there. */
export async function refuseGroupChanges({ clusters, recorded, wanted, bundles }: GroupsInput): Promise<void> {
  const changes: GroupChange[] = [];
  for (const { name, units } of clusters) {
    const records = new Map((recorded.get(name) ?? []).map((record) => [record.unit, record]));
    for (const unit of units) {
      const group = topGroup(unit);
      // No object of another group has the name of one of these kinds.
      if (group === undefined || group === GROUP) continue;
      const before = wanted.get(name)?.get(unit.key);
      const former = formerGroup(records.get(unit.key), group) ?? (await wantedGroup(unit, before, bundles));
      if (former === undefined || former === group) continue;
      const place = unit.origins.at(-1);
      const at = place === undefined ? '' : `${place}: `;
      changes.push({ text: `${at}${unit.key} in ${name} from ${named(former)} to ${named(group)}`, isWanted: before !== undefined });
    }
  }
  if (changes.length === 0) return;
  const more = changes.length > SHOWN ? `\n… and ${changes.length - SHOWN} more` : '';
  const list = `${changes
    .slice(0, SHOWN)
    .map(({ text }) => text)
    .join('\n')}${more}`;
  if (changes.some(({ isWanted }) => isWanted))
    throw syncError(
      'GroupChanged',
      `a unit keeps its API group, since its former object would stay where it is; the commit changes it of:\n${list}`,
      {
        next: 'give the new object another name; or remove the former one by a commit of its own, and add the new one once that Rollout is Done',
      },
    );
  throw syncError('GroupInUse', `the object of the former API group is not removed yet of:\n${list}`, {
    next: 'wait for the Rollout that removes it (kubenode rollout show), or give the new object another name',
  });
}

const topGroup = ({ objects }: { objects: RenderedUnit['objects'] }): string | undefined => {
  const top = objects.at(-1);
  return top === undefined ? undefined : groupOf(top.apiVersion);
};

/** Of what the inventory has under the name of the unit, or is about to have. */
function formerGroup(record: UnitStatus | undefined, group: string): string | undefined {
  return (record?.inventory ?? [])
    .filter(({ apiVersion, kind, namespace, name }) => {
      const metadata = { name, ...(namespace === undefined ? {} : { namespace }) };
      return unitKey({ apiVersion, kind, metadata }) === record?.unit;
    })
    .map(({ apiVersion }) => groupOf(apiVersion))
    .find((each) => each !== group);
}

/** Of what was accepted and has not begun there. Content that is not kept any more passes: it is rendered again only where machines depend on it. */
async function wantedGroup(
  { digest }: RenderedUnit,
  before: Wanted | undefined,
  bundles: Pick<Bundles, 'get'>,
): Promise<string | undefined> {
  if (before === undefined || before.digest === digest) return undefined;
  const kept = await bundles.get(before.digest);
  return kept === undefined ? undefined : topGroup(kept);
}

const named = (group: string): string => (group === '' ? 'the core group' : group);
