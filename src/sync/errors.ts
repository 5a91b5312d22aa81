import { content, errorsOf, surroundings, type ErrorTable } from '../api/errors.ts';

/** What can be wrong with a commit or with carrying it out; each is also the reason of a condition and an Event. */
export const syncErrorCodes = {
  EmptyRender: content('it renders no cluster, or nothing at all for one that has units'),
  NoStage: content('a cluster that no stage selects'),
  PruneBudget: content('it would delete more than the Fleet allows'),
  HistoryRewritten: content('the head does not descend from what was accepted last'),
  HistoryTooLong: content('more commits since then than can be checked'),
  ClusterMoved: content('it moves a known cluster to another stage, cell or name, which a person has to accept'),
  CommitTooLarge: content('it changes more units on more clusters than one Rollout can have'),
  GroupChanged: content('it gives a unit another API group than that of the object which is there'),
  GroupInUse: surroundings('an object of the former API group that is not removed yet'),
  Unsigned: content('a new commit without an acceptable signature'),
  InvalidFleet: surroundings('the Fleet itself, or a Secret that it names'),
  DigestMismatch: content('a commit that no longer renders what it did'),
  ClusterUnreachable: surroundings('a source or cluster that cannot be reached yet'),
  ContentInvalid: surroundings('a cell reports what no cell can report'),
  ImmutableChanged: content('a version that is in the cluster with other content'),
  UnknownKind: surroundings('a kind that the cluster does not have yet'),
  NotOurs: surroundings('an object that belongs to another fleet'),
  Overtaken: surroundings('another hub, or a newer decision, has gone on from what this step was decided from'),
  Deposed: surroundings('another term of the hub has begun: this one writes nothing more'),
  InvalidDigest: surroundings('a stored unit that does not have its digest'),
  TypeCheckFailed: surroundings('the types of a commit could not be checked'),
} as const satisfies ErrorTable;

export const syncError = errorsOf(syncErrorCodes);
