/**
 * The sandboxed child that runs fleet code. Started by `render` as one bundled file; it reads the files of a commit from
 * standard input and writes the objects, or why there are none, to descriptor 3. Everything it must not be able to do is
 * kept from it by the process around it (`wall.ts`); what is done here makes renderings repeatable and mistakes readable.
 */
import { readFileSync, writeSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import * as cdk8s from 'cdk8s';
import * as constructs from 'constructs';
import * as kubenode from '../../constructs/index.ts';
import { nameMissing } from '../../constructs/errors.ts';
import { collect } from './child/collect.ts';
import { toFinding } from './child/failure.ts';
import { guard } from './child/guards.ts';
import { SCHEME, serve, type Shelf } from './child/hooks.ts';
import { rememberPlaces } from './child/places.ts';
import { RESULT_FD, type ChildInput, type ChildOutput } from './wire.ts';

const exit = process.exit.bind(process);
const nextTurn = setImmediate;

function write(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done);
}

function finish(output: ChildOutput): never {
  write(RESULT_FD, JSON.stringify(output));
  return exit(0);
}

const { entry, files } = JSON.parse(readFileSync(0, 'utf8')) as ChildInput;
const fail = (error: unknown): never => finish({ ok: false, findings: [toFinding(error, entry)] });
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

const shelf: Shelf = new Map<string, Record<string, unknown>>([
  ['kubenode/constructs', kubenode],
  ['cdk8s', cdk8s],
  ['constructs', constructs],
]);
// Heavy, so it is loaded only for a fleet that mentions it.
if (files.some(([, text]) => text.includes('cdk8s-plus-27'))) shelf.set('cdk8s-plus-27', await import('cdk8s-plus-27'));
serve(new Map(files), shelf);

// Names after a hash of the construct's place change when it moves, and the object is replaced.
cdk8s.Chart.prototype.generateObjectName = (object) => {
  throw nameMissing(object.kind);
};
const made = rememberPlaces();
Error.stackTraceLimit = 50;
// The stripper loads WebAssembly at its first use, which the guards take away.
stripTypeScriptTypes('let warm: 1');
guard(write);

try {
  await import(`${SCHEME}${entry}`);
  const clusters = kubenode.fleet.build();
  // A rejection that nobody handles is only told after this turn.
  await new Promise((resolve) => nextTurn(resolve));
  finish(collect(clusters, made, entry));
} catch (error) {
  fail(error);
}
