/**
 * What `cdk8s synth` runs (`app` in cdk8s.yaml): the fleet as YAML, a file for each cluster. It runs the fleet in this process, with all that
 * this process may do; the hub never does this, it renders in a sandbox and applies no YAML.
 *
 *   node --conditions=@kubenode/source src/constructs/synth.ts fleet/main.ts
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ApiObject, Yaml } from 'cdk8s';
import { fleet } from './fleet.ts';

const [entry = 'fleet/main.ts'] = process.argv.slice(2);
// Set by cdk8s.
const folder = process.env['CDK8S_OUTDIR'] ?? 'dist';

await import(pathToFileURL(resolve(entry)).href);
mkdirSync(folder, { recursive: true });
const clusters = fleet.build();
const [unsigned] = fleet.unsigned();
if (unsigned !== undefined) throw unsigned;
for (const cluster of clusters) {
  const objects = cluster.node.root.node.findAll().filter((construct) => ApiObject.isApiObject(construct));
  writeFileSync(
    join(folder, `${cluster.name}.k8s.yaml`),
    Yaml.stringify(cluster.toObject(), ...objects.map((object) => object.toJson() as unknown)),
  );
}
