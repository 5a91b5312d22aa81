import * as fs from 'node:fs';
import { join } from 'node:path';
import { Secrets } from '../../api/builtin.ts';
import { canonical } from '../../api/digest.ts';
import type { Fleet } from '../../api/fleet.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock, Log } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import type { StoredUnit } from '../bundles.ts';
import { syncError } from '../errors.ts';
import { openSource, parseAllowedSigners, type CommitInfo, type GitSource, type GitSpec } from '../git/index.ts';
import type { Isolation } from '../render/wall.ts';
import type { CheckRules, JudgeObject } from '../render/validate.ts';
import type { Checkout, Checkouts, RenderedCommit } from './checkout.ts';
import { DEFAULT_INCLUDE } from './entry.ts';
import { renderTree } from './render-tree.ts';

export interface CheckoutsOptions {
  client: Client;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
  /** Folder for fetched commits; a cache. */
  cacheDir: string;
  /** The bundled render child. */
  childPath: string;
  /** The weakest wall around rendering that this hub accepts; a Fleet may ask for a stronger one. */
  isolation: Isolation;
  /** The check of repair rules. */
  checkRules: CheckRules;
  /** The CEL rules of KubeNode's kinds. */
  judgeObject: JudgeObject;
}

export interface OpenCheckouts extends Checkouts {
  /** One unit of a commit, rendered again. */
  unit(fleet: string, commit: string, unit: string, cluster: string, signal: AbortSignal): Promise<StoredUnit>;
  closeAll(): Promise<void>;
}

/** Sources of fleets by name, each opened once for its spec. */
export function openCheckouts(options: CheckoutsOptions): OpenCheckouts {
  const open = new Map<string, { id: string; checkout: Checkout; stop: () => void }>();
  const listeners = new Set<(fleet: string) => void>();

  async function sourceOf(fleet: Fleet): Promise<GitSource> {
    const { name } = fleet.metadata;
    const { path, url, branch, credentialsSecret } = fleet.spec.source;
    const ports = { fs, fetch, clock: options.clock };
    if (path !== undefined) return openSource({ kind: 'local', path, ...(branch === undefined ? {} : { branch }) }, ports);
    const spec: GitSpec = { kind: 'http', url: url ?? '', branch: branch ?? '', cacheDir: join(options.cacheDir, name) };
    if (credentialsSecret === undefined) return openSource(spec, ports);
    const key = { namespace: SYSTEM_NAMESPACE, name: credentialsSecret };
    const secret = await options.client.find(Secrets, key, { signal: options.signal });
    const [username, password] = ['username', 'password'].map((field) => secret?.data?.[field]);
    if (username === undefined || password === undefined) {
      throw syncError(
        'InvalidFleet',
        `\`spec.source.credentialsSecret\`: Secret ${key.namespace}/${key.name} ${secret === undefined ? 'is absent' : 'must have the keys username and password'}`,
      );
    }
    const decode = (text: string): string => Buffer.from(text, 'base64').toString('utf8');
    return openSource({ ...spec, auth: { username: decode(username), password: decode(password) } }, ports);
  }

  const checkouts: OpenCheckouts = {
    async open(fleet) {
      const { name } = fleet.metadata;
      const id = canonical({ ...fleet.spec, acceptRewrittenHead: undefined, acceptMoves: undefined, paused: undefined });
      const known = open.get(name);
      if (known?.id === id) return known.checkout;
      await checkouts.close(name);
      const source = await sourceOf(fleet);
      const stop = fleet.spec.source.path === undefined ? () => undefined : source.watch(() => listeners.forEach((call) => call(name)));
      const checkout = checkoutOf(source, fleet, options);
      open.set(name, { id, checkout, stop });
      return checkout;
    },
    async close(name) {
      open.get(name)?.stop();
      open.delete(name);
    },
    async closeAll() {
      for (const name of open.keys()) await checkouts.close(name);
    },
    onChange(call) {
      listeners.add(call);
      return () => listeners.delete(call);
    },
    async unit(fleet, commit, unit, cluster, signal) {
      const checkout = open.get(fleet)?.checkout;
      if (checkout === undefined) throw syncError('ClusterUnreachable', `fleet "${fleet}" is not open yet`);
      const rendered = await checkout.render(commit, signal);
      const found = rendered.clusters.find((each) => each.name === cluster)?.units.find((each) => each.key === unit);
      if (found === undefined)
        throw syncError('DigestMismatch', `commit ${commit.slice(0, 10)} no longer renders ${unit} for "${cluster}"`, {
          next: 'make a new commit: what was rendered before cannot be made again',
        });
      return { key: found.key, objects: found.objects, origins: found.origins };
    },
  };
  return checkouts;
}

function checkoutOf(source: GitSource, fleet: Fleet, { clock, ...renderer }: CheckoutsOptions): Checkout {
  const { spec } = fleet;
  const firstSeen = new Map<string, number>();
  const signers = spec.signatures === undefined ? undefined : parseAllowedSigners(spec.signatures.allowedSigners);
  let last: { commit: string; rendered: Promise<RenderedCommit> } | undefined;

  async function renderNow(commit: string, signal: AbortSignal): Promise<RenderedCommit> {
    const files = await source.read(commit, { paths: spec.include ?? [...DEFAULT_INCLUDE] }, signal);
    return await renderTree(files, spec, renderer, signal);
  }

  return {
    head: (signal) => source.head(signal),
    fetch: (lastAccepted, signal) => source.fetch(lastAccepted, signal),
    async verify(fetched, signal) {
      if (signers === undefined) return;
      for (const oid of [fetched.head, ...fetched.commits.map((commit) => commit.oid)])
        if (!firstSeen.has(oid)) firstSeen.set(oid, clock.now());
      const { refused, verified } = await source.verifyRange(fetched, signers, clock.now(), (oid) => firstSeen.get(oid), signal);
      const [first] = refused;
      if (first === undefined) return;
      throw syncError(
        'Unsigned',
        `${refused.length} of ${refused.length + verified.length} commits ${refused.length === 1 ? 'is' : 'are'} not acceptable; the newest: ${first.error.message}`,
        {
          cause: first.error,
          next: `git config gpg.format ssh, git config user.signingKey FILE of a key in spec.signatures.allowedSigners, then on that branch run: ${signing(
            fetched,
            refused.map(({ oid }) => oid),
          )}`,
        },
      );
    },
    async render(commit, signal) {
      if (last?.commit !== commit) {
        const rendered = renderNow(commit, signal);
        last = { commit, rendered };
        rendered.catch(() => {
          if (last?.commit === commit) last = undefined;
        });
      }
      return await last.rendered;
    },
  };
}

const AMEND = 'git commit --amend --allow-empty --no-edit -S';

/** A command of git after which every commit is signed that must be; `refused` are the newest first. */
function signing(
  { head, commits, accepted }: { head: string; commits: CommitInfo[]; accepted?: string },
  refused: readonly string[],
): string {
  // To amend the accepted commit itself would rewrite it.
  if (commits.length === 0) return "git commit --allow-empty -S -m 'Sign from here on'";
  if (refused.length === 1 && refused[0] === head) return AMEND;
  const base = accepted ?? `${refused.at(-1) ?? head}^`;
  return `git rebase --rebase-merges --empty=keep --exec '${AMEND}' ${base}`;
}
