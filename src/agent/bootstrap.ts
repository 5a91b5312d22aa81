import { parseKeys } from '../api/component-key.ts';
import { messageOf } from '../api/errors.ts';
import type { NodeBootstrap } from '../api/provider.ts';
import { agentError } from './errors.ts';
import { readFile } from './ports/node-fs.ts';

/*
 * Templates put these into commands and files, and no signature covers them: nothing that a shell, a path or a line would take for more than a word.
 */
const LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const NAMESPACE = new RegExp(`^${LABEL}$`);
const NAME = new RegExp(`^(?=.{1,253}$)${LABEL}(\\.${LABEL})*$`);
const UID = /^[A-Za-z0-9-]{1,64}$/;
const PROVIDER_ID = /^[a-z0-9][a-z0-9+.-]*:\/\/[A-Za-z0-9._/:-]{1,250}$/;

/** Errors: `BootstrapInvalid`. The message never contains the token. */
export async function readBootstrap(path: string): Promise<NodeBootstrap> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    const why = error instanceof SyntaxError ? 'it is no JSON' : messageOf(error);
    throw agentError('BootstrapInvalid', `${path} cannot be read: ${why}`, { cause: error });
  }
  return parseBootstrap(value, path);
}

/** Errors: `BootstrapInvalid`. */
export function parseBootstrap(value: unknown, path: string): NodeBootstrap {
  const fields = recordOf(value) ?? {};
  const machine = recordOf(fields['machine']) ?? {};
  const text = (from: Record<string, unknown>, name: string, at: string): string => {
    const found = from[name];
    if (typeof found === 'string' && found !== '') return found;
    throw agentError('BootstrapInvalid', `${path}: \`${at}${name}\` must be text`);
  };
  const strict = (from: Record<string, unknown>, name: string, at: string, form: RegExp): string => {
    const found = text(from, name, at);
    if (form.test(found)) return found;
    throw agentError('BootstrapInvalid', `${path}: \`${at}${name}\` must match ${form.source}`);
  };
  const bootstrap: NodeBootstrap = {
    server: text(fields, 'server', ''),
    certificateAuthority: text(fields, 'certificateAuthority', ''),
    token: text(fields, 'token', ''),
    machine: {
      namespace: strict(machine, 'namespace', 'machine.', NAMESPACE),
      name: strict(machine, 'name', 'machine.', NAME),
      uid: strict(machine, 'uid', 'machine.', UID),
    },
    providerID: strict(fields, 'providerID', '', PROVIDER_ID),
  };
  if (fields['componentKeys'] !== undefined) {
    // One that cannot be read must not pass for none.
    bootstrap.componentKeys = text(fields, 'componentKeys', '');
    parseKeys(bootstrap.componentKeys, `${path}: \`componentKeys\``);
  }
  if (fields['mirror'] === undefined) return bootstrap;
  const mirror = text(fields, 'mirror', '');
  if (!URL.canParse(mirror) || !mirror.endsWith('/'))
    throw agentError('BootstrapInvalid', `${path}: \`mirror\` must be a URL that ends with a slash`);
  return { ...bootstrap, mirror };
}

function recordOf(value: unknown): Record<string, unknown> | undefined {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
}
