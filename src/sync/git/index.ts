/** Where sync reads commits: local repositories in place, remote ones over HTTP; their files, their ancestry, their signatures. */
import { localSource } from './local.ts';
import { httpSource } from './remote.ts';
import type { GitPorts, GitSource, GitSpec } from './source.ts';

export { initRepository, type NewRepository } from './init.ts';
export { parseAllowedSigners, type AllowedSigner } from './signers.ts';
export type {
  CommitInfo,
  Fetched,
  GitFetch,
  GitFs,
  GitPorts,
  GitSource,
  GitSpec,
  Head,
  HttpLimits,
  HttpSpec,
  LocalSpec,
  RangeVerdict,
  ReadLimits,
  Relation,
  Verified,
} from './source.ts';

/**
 * Opens a source. Nothing is read, written or asked before its first call, so a repository may be missing now and come later.
 * Throws GitSpec when `spec` itself is not allowed.
 */
export function openSource(spec: GitSpec, ports: GitPorts): GitSource {
  return spec.kind === 'local' ? localSource(spec, ports) : httpSource(spec, ports);
}
