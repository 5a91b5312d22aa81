import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { at, isObject, listAt, numberAt, textAt } from '../json.ts';
import type { TableCell } from './served.ts';

interface Tally {
  reason: string;
  restarts: number;
  ready: number;
  lastRestart: string;
}

function restarted(tally: Tally, container: Json): void {
  tally.restarts += numberAt(container, 'restartCount') ?? 0;
  const finished = textAt(container, 'lastState', 'terminated', 'finishedAt');
  if (finished !== undefined && finished > tally.lastRestart) tally.lastRestart = finished;
}

function endOf(terminated: JsonObject): string {
  const reason = textAt(terminated, 'reason') ?? '';
  if (reason !== '') return reason;
  const signal = numberAt(terminated, 'signal') ?? 0;
  return signal === 0 ? `ExitCode:${numberAt(terminated, 'exitCode') ?? 0}` : `Signal:${signal}`;
}

/** Returns the text of the STATUS column while init containers run; undefined when they are done. */
function initializing(pod: JsonObject, restartable: ReadonlySet<string>, tally: Tally, sidecars: Tally): string | undefined {
  const total = listAt(pod, 'spec', 'initContainers').length;
  for (const [index, container] of listAt(pod, 'status', 'initContainerStatuses').entries()) {
    restarted(tally, container);
    const sidecar = restartable.has(textAt(container, 'name') ?? '');
    if (sidecar) restarted(sidecars, container);
    const terminated = at(container, 'state', 'terminated');
    if (isObject(terminated) && (numberAt(terminated, 'exitCode') ?? 0) === 0) continue;
    if (sidecar && at(container, 'started') === true) {
      if (at(container, 'ready') === true) tally.ready++;
      continue;
    }
    if (isObject(terminated)) return `Init:${endOf(terminated)}`;
    const waiting = textAt(container, 'state', 'waiting', 'reason') ?? '';
    if (waiting !== '' && waiting !== 'PodInitializing') return `Init:${waiting}`;
    return `Init:${index}/${total}`;
  }
  return undefined;
}

const conditionIs = (pod: JsonObject, type: string, status: string) =>
  listAt(pod, 'status', 'conditions').some((item) => textAt(item, 'type') === type && textAt(item, 'status') === status);

function running(pod: JsonObject, tally: Tally): void {
  let hasRunning = false;
  for (const container of listAt(pod, 'status', 'containerStatuses').toReversed()) {
    restarted(tally, container);
    const waiting = textAt(container, 'state', 'waiting', 'reason') ?? '';
    const terminated = at(container, 'state', 'terminated');
    if (waiting !== '') tally.reason = waiting;
    else if (isObject(terminated)) tally.reason = endOf(terminated);
    else if (at(container, 'ready') === true && isObject(at(container, 'state', 'running'))) {
      hasRunning = true;
      tally.ready++;
    }
  }
  if (tally.reason === 'Completed' && hasRunning) tally.reason = conditionIs(pod, 'Ready', 'True') ? 'Running' : 'NotReady';
}

/** The cells of `kubectl get pods`, by the same reading of the container states as upstream's printer. */
export function podCells(pod: JsonObject, now: number): TableCell[] {
  const phase = textAt(pod, 'status', 'phase') ?? '';
  const restartable = new Set(
    listAt(pod, 'spec', 'initContainers')
      .filter((item) => textAt(item, 'restartPolicy') === 'Always')
      .map((item) => textAt(item, 'name') ?? ''),
  );
  const total = listAt(pod, 'spec', 'containers').length + restartable.size;
  const tally: Tally = { reason: textAt(pod, 'status', 'reason') || phase, restarts: 0, ready: 0, lastRestart: '' };
  if (listAt(pod, 'status', 'conditions').some((item) => textAt(item, 'reason') === 'SchedulingGated')) tally.reason = 'SchedulingGated';
  const sidecars: Tally = { reason: '', restarts: 0, ready: 0, lastRestart: '' };
  const waiting = initializing(pod, restartable, tally, sidecars);
  if (waiting !== undefined) tally.reason = waiting;
  if (waiting === undefined || conditionIs(pod, 'Initialized', 'True')) {
    tally.restarts = sidecars.restarts;
    tally.lastRestart = sidecars.lastRestart;
    running(pod, tally);
  }
  if (textAt(pod, 'metadata', 'deletionTimestamp') !== undefined) {
    if (textAt(pod, 'status', 'reason') === 'NodeLost') tally.reason = 'Unknown';
    else if (phase !== 'Succeeded' && phase !== 'Failed') tally.reason = 'Terminating';
  }
  const restarts =
    tally.restarts !== 0 && tally.lastRestart !== '' ? `${tally.restarts} (${ageOf(tally.lastRestart, now)} ago)` : String(tally.restarts);
  const gates = listAt(pod, 'spec', 'readinessGates').map((gate) => textAt(gate, 'conditionType') ?? '');
  const open = gates.filter((type) => conditionIs(pod, type, 'True')).length;
  return [
    textAt(pod, 'metadata', 'name') ?? '',
    `${tally.ready}/${total}`,
    tally.reason,
    restarts,
    ageOf(textAt(pod, 'metadata', 'creationTimestamp'), now),
    textAt(listAt(pod, 'status', 'podIPs')[0], 'ip') || '<none>',
    textAt(pod, 'spec', 'nodeName') || '<none>',
    textAt(pod, 'status', 'nominatedNodeName') || '<none>',
    gates.length === 0 ? '<none>' : `${open}/${gates.length}`,
  ];
}
