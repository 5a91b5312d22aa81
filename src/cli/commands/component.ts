import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { keyIDOf, keyLine, parseKeys, verifiedBy } from '../../api/component-key.ts';
import { isCoded, messageOf, type CodedError } from '../../api/errors.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { fleetComponents } from '../component/components.ts';
import { readPrivateKey } from '../component/private-key.ts';
import { reviewOf } from '../component/review.ts';
import { differing, readSignatures, signAll, type Signed } from '../component/signature-file.ts';
import { EXIT } from '../exit.ts';
import { fleetFlags, ofCommand, reportIsolation, type FleetFlags } from '../fleet-flags.ts';
import { table, type Output } from '../output.ts';
import type { RunCommand } from '../program.ts';
import { DEFAULT_INCLUDE } from '../../sync/fleet/entry.ts';
import { namedFolder, readFleet } from '../fleet-folder.ts';
import { includesPath, replaceTreeFile } from '../tree-files.ts';
import { cliError } from '../errors.ts';

interface SignFlags extends FleetFlags {
  key: string;
  signatures: string;
  dryRun?: boolean;
  yes?: boolean;
}

const SIGNATURES = 'fleet/signatures.json';

/** `kubenode component keygen|sign|verify`. Works on files alone: no server is asked. */
export function componentCommand(program: Command, run: RunCommand): void {
  const component = program.command('component').description('sign the components of a fleet, where the fleet is written');

  component
    .command('keygen')
    .description('make a key: write the private half into FILE, and the public half, with which nodes are installed, into FILE.pub')
    .requiredOption('--out <file>', 'file of the private key; must not be there yet. Keep it out of Git, hub and cells')
    .option('--comment <text>', 'comment of the public key', 'kubenode components')
    .action((flags: { out: string; comment: string }) => run((output) => Promise.resolve(keygen(flags, output))));

  fleetFlags(component.command('sign [folder]'))
    .description('sign every component that the fleet in a folder renders, and write the signatures into its file of signatures')
    .requiredOption('--key <file>', "private Ed25519 key: PKCS#8 in PEM, or OpenSSH's own form; without a passphrase")
    .option('--signatures <path>', 'file of signatures, in the folder', SIGNATURES)
    .option('--dry-run', 'write nothing')
    .option('--yes', 'sign what is new or changed without asking')
    .addHelpText(
      'after',
      `
The fleet reads the file: fleet.signatures(signatures). docs/signing.md goes through it step by step.`,
    )
    .action((folder: string | undefined, flags: SignFlags) => run(async (output) => await sign(namedFolder(folder), flags, output)));

  fleetFlags(component.command('verify [folder]'))
    .description('check whether nodes with these keys would run every component of the fleet in a folder; exit code 1 when not')
    .requiredOption('--keys <file>', 'public keys, one a line, as nodes are installed with')
    .action((folder: string | undefined, flags: FleetFlags & { keys: string }) =>
      run(async (output) => verify(await rendered(await filesOf(namedFolder(folder), flags), flags, 'Refuse'), flags, output)),
    );
}

function keygen({ out, comment }: { out: string; comment: string }, output: Output): number {
  const open = `${out}.pub`;
  const { privateKey } = generateKeyPairSync('ed25519');
  for (const [path, text, mode] of [
    [out, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), 0o600],
    [open, `${keyLine(privateKey, comment)}\n`, 0o644],
  ] as const) {
    try {
      writeFileSync(path, text, { mode, flag: 'wx' });
    } catch (error) {
      throw cliError('KeyExists', `${path} cannot be made: ${messageOf(error)}`, {
        cause: error,
        next: 'name another file: --out FILE',
      });
    }
  }
  output.print(keyIDOf(privateKey));
  output.report('done', `${out} signs components; give ${open} to nodes: kubenode install --cell --component-keys ${open}`);
  return EXIT.ok;
}

async function sign(root: string, flags: SignFlags, output: Output): Promise<number> {
  const key = readPrivateKey(textOf(flags.key), flags.key);
  const path = posix.normalize(flags.signatures);
  if (!includesPath(flags.include ?? DEFAULT_INCLUDE, path))
    throw cliError('Usage', `${path} is in no folder that rendering sees`, {
      next: 'name another: --signatures PATH, --include FOLDER',
    });
  const files = await filesOf(root, flags);
  const old = files.get(path);
  const before = readSignatures(old ?? '', path);
  const { components, isolation } = await rendered(files, flags, 'Allow');
  const { lock, signed } = signAll(components, before, key);
  const text = `${JSON.stringify(lock, null, 2)}\n`;
  // As the hub will render it, signatures and all: what it would not have is not signed.
  const again = await rendered(new Map(files).set(path, text), flags, 'Refuse');
  const different = differing(components, again.components);
  reportIsolation(isolation, output);
  if (different.length > 0)
    throw cliError('SignedOtherwise', `nothing was signed; with the signatures the fleet renders otherwise: ${different.join(', ')}`, {
      next: `what a fleet renders must not depend on ${path}: it goes to fleet.signatures(…) and nowhere else`,
    });
  if (flags.dryRun !== true && flags.output !== 'json') review(components, signed, output);
  if (flags.dryRun !== true && text !== old) {
    if (flags.yes !== true && signed.some(({ before }) => !before)) await confirmed(keyIDOf(key));
    replaceTreeFile(root, path, text);
  }
  if (flags.output === 'json') output.print(JSON.stringify({ keyID: keyIDOf(key), isolation, components: signed }));
  else if (signed.length > 0)
    output.print(
      table(
        ['NAME', 'VERSION', 'STATE', 'SIGNED-BY'],
        signed.map(({ component, version, before, by }) => [component, version, before ? 'unchanged' : 'signed', by.join(',')]),
      ),
    );
  const fresh = signed.filter((each) => !each.before).length;
  const dry = flags.dryRun === true ? ' (dry run)' : '';
  output.report('done', `${fresh} of ${signed.length} components signed by ${keyIDOf(key)}; ${path}${dry}`);
  return EXIT.ok;
}

function review(components: readonly MachineComponent[], signed: readonly Signed[], output: Output): void {
  for (const [index, { change }] of signed.entries()) {
    const component = components[index];
    if (component !== undefined && change !== 'Known') output.report('doing', reviewOf(component, change));
  }
}

/** Errors: `NotConfirmed`. */
async function confirmed(keyID: string): Promise<void> {
  const refuse = (why: string): CodedError =>
    cliError('NotConfirmed', `nothing was signed: ${why}`, { next: 'read what is above, then: kubenode component sign --yes' });
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw refuse('there is no terminal to ask on');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    if ((await terminal.question(`Sign this with ${keyID}? Nodes will run it as root. Type yes: `)).trim() !== 'yes')
      throw refuse('it was not confirmed');
  } finally {
    terminal.close();
  }
}

function verify(
  { components, isolation }: RenderedComponents,
  { keys, output: format }: { keys: string; output?: 'json' },
  output: Output,
): number {
  reportIsolation(isolation, output);
  const accepted = parseKeys(textOf(keys), keys);
  const judged = components.map(({ spec }) => {
    const about = { name: spec.componentName, version: spec.version, values: spec.values?.map(({ name }) => name) ?? [] };
    try {
      return { ...about, state: 'Signed', message: verifiedBy(spec, accepted).id };
    } catch (error) {
      if (!isCoded(error)) throw error;
      return { ...about, state: error.code, message: error.message };
    }
  });
  const wrong = judged.filter(({ state }) => state !== 'Signed').length;
  if (format === 'json') output.print(JSON.stringify({ ok: wrong === 0, isolation, components: judged }));
  else if (judged.length > 0)
    output.print(
      table(
        ['NAME', 'VERSION', 'STATE', 'VALUES', 'MESSAGE'],
        judged.map(({ name, version, state, values, message }) => [
          name,
          version,
          state,
          values.length === 0 ? '-' : values.join(','),
          message,
        ]),
      ),
    );
  if (wrong === 0) output.report('done', `${judged.length} components, all signed`);
  else output.report('failed', `${wrong} of ${judged.length} components would not be run by nodes with these keys`);
  return wrong === 0 ? EXIT.ok : EXIT.failed;
}

/** As the next commit would have them. Errors: those of `readFleet`, `Usage`. */
async function filesOf(root: string, flags: FleetFlags): Promise<Map<string, string>> {
  return await readFleet({ root, entry: flags.entry, include: flags.include ?? DEFAULT_INCLUDE }, AbortSignal.timeout(120_000));
}

type RenderedComponents = Awaited<ReturnType<typeof fleetComponents>>;

async function rendered(
  files: ReadonlyMap<string, string>,
  { entry, isolation }: FleetFlags,
  unsigned: 'Refuse' | 'Allow',
): Promise<RenderedComponents> {
  const { bundleFor } = await import('../bundles.ts');
  return await fleetComponents(files, {
    childPath: await bundleFor('render'),
    entry,
    unsigned,
    signal: AbortSignal.timeout(120_000),
    ...(isolation === undefined ? {} : { isolationAtLeast: isolation }),
  }).catch((error: unknown) => {
    throw ofCommand(error);
  });
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw cliError('Usage', `${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
