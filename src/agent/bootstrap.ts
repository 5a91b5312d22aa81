import { messageOf } from '../api/errors.ts';
import type { NodeBootstrap } from '../api/provider.ts';
import { agentError } from './errors.ts';
import { readFile } from './ports/nodefs.ts';

/** Errors: `BootstrapInvalid`. The message never holds the token. */
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
  const bootstrap: NodeBootstrap = {
    server: text(fields, 'server', ''),
    certificateAuthority: text(fields, 'certificateAuthority', ''),
    token: text(fields, 'token', ''),
    machine: {
      namespace: text(machine, 'namespace', 'machine.'),
      name: text(machine, 'name', 'machine.'),
      uid: text(machine, 'uid', 'machine.'),
    },
    providerID: text(fields, 'providerID', ''),
  };
  if (fields['mirror'] === undefined) return bootstrap;
  const mirror = text(fields, 'mirror', '');
  if (!URL.canParse(mirror) || !mirror.endsWith('/'))
    throw agentError('BootstrapInvalid', `${path}: \`mirror\` must be a URL that ends with a slash`);
  return { ...bootstrap, mirror };
}

function recordOf(value: unknown): Record<string, unknown> | undefined {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
}
