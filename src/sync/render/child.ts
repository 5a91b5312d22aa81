/**
 * The sandboxed child that runs fleet code. Started by `render` as one bundled file; it reads the files of a commit from
 * standard input and writes the objects, or why there are none, to descriptor 3.
 *
 * Fleet code runs in a realm of its own (`child/realm.ts`), which has the language and nothing of Node, and of which this one takes texts only: no value that
 * fleet code made is inspected here. Its modules are compiled and linked before it runs. What it cannot do although it found a way out of its realm is for
 * the process around it (`wall.ts`).
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeSync } from 'node:fs';
import { constants, createContext, Script } from 'node:vm';
import { toFinding } from './child/failure.ts';
import { link } from './child/graph.ts';
import { SandboxError } from './child/sandbox-error.ts';
import type * as Realm from './child/realm.ts';
import { RESULT_FD, type ChildInput, type ChildOutput } from './wire.ts';

/** The bundle of `child/realm.ts`, an expression; put in front of this bundle by `tools/bundle.ts`. */
declare const KUBENODE_REALM: string;

const exit = process.exit.bind(process);
const { entry, files } = JSON.parse(readFileSync(0, 'utf8')) as ChildInput;

function write(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done);
}

function finish(text: unknown): never {
  write(RESULT_FD, typeof text === 'string' ? text : '');
  return exit(0);
}

/** For what is thrown before fleet code runs. */
const refuse = (error: unknown): never => finish(JSON.stringify({ ok: false, findings: [toFinding(error, entry)] } satisfies ChildOutput));
process.on('uncaughtException', refuse);

const context = createContext(constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: false } });
const realm = new Script(KUBENODE_REALM, { filename: 'shipped:realm' }).runInContext(context) as typeof Realm;
const shelf = await realm.shelf(files.some(([, text]) => text.includes('cdk8s-plus-27')));
const inRealm = realm.prepare(
  {
    write: (fd: unknown, text: unknown) => {
      if ((fd === 1 || fd === 2) && typeof text === 'string') write(fd, text);
    },
    hash: (algorithm: unknown, hex: unknown) =>
      typeof algorithm === 'string' && typeof hex === 'string' ? createHash(algorithm).update(hex, 'hex').digest('hex') : '',
  },
  entry,
);

/** What fleet code threw, and what fails while that is reported, belongs to fleet code: it is judged in its realm and never touched here. */
function fail(error: unknown): never {
  let text: unknown;
  try {
    text = inRealm.fail(error);
  } catch {
    text = undefined;
  }
  return finish(text);
}

let graph;
try {
  const exported = new Map(shelf.map(([name, values]) => [name, new Map(values)]));
  graph = link(entry, new Map(files), exported, context);
  for (const module of graph.shipped) await module.evaluate();
} catch (error) {
  refuse(error instanceof Error ? error : new SandboxError('RenderCrashed', 'the fleet could not be linked'));
  throw error;
}

process.removeAllListeners('uncaughtException');
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);
let text: unknown;
try {
  await graph.entry.evaluate();
  // A rejection without a handler is only reported after this turn.
  await new Promise((resolve) => setImmediate(resolve));
  text = inRealm.finish();
} catch (error) {
  fail(error);
}
finish(text);
