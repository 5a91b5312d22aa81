/**
 * A program for durability.test.ts: opens a cluster on the folder it is given, writes ConfigMaps as fast as it can, some of
 * them changed and some deleted, and prints each write only after it was acknowledged. It is killed from outside.
 */
import { openCluster } from '../cluster.ts';
import { Api, pick, text } from './rig.ts';
import { systemClock } from './system-clock.ts';
import { configMap, MAPS } from './widgets.ts';

const [dir = ''] = process.argv.slice(2);
const cluster = await openCluster({ name: 'durable', state: { dir }, clock: systemClock });
const api = new Api(cluster.asUser());
for (let n = 0; ; n++) {
  const name = `m${n}`;
  await api.create(MAPS, configMap(name, { n: '0' }));
  const changed = await api.merge(`${MAPS}/${name}`, { data: { n: '1' } });
  if (n % 3 === 0) await api.remove(`${MAPS}/${name}`);
  process.stdout.write(
    `${n % 3 === 0 ? 'gone' : 'there'} ${name} ${text(pick(changed.body, 'metadata.resourceVersion'))} ${cluster.resourceVersion}\n`,
  );
}
