/**
 * The kubeconfig that `kubenode start` leaves in the working folder. No flag names it, and the folder may be a checkout of a stranger's pull request:
 * a kubeconfig can name programs that are run, files that are read and servers that get their content. So this one may contain only what
 * `kubenode start` writes.
 */
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { isCoded, type CodedError } from '../api/errors.ts';
import { cliError, cliErrorCodes } from './errors.ts';
import { readTreeFile, treeEntry } from './tree-files.ts';

export const LOCAL = '.kubenode/kubeconfig';

export interface FoundKubeconfig {
  file: string;
  text: string;
}

/** Fields of the file, and of each item of its lists: what is not named here is refused. `kubectl config use-context` adds `preferences`. */
const TOP = ['apiVersion', 'kind', 'preferences', 'current-context', 'clusters', 'contexts', 'users'];
const LISTS = {
  clusters: { member: 'cluster', fields: ['server', 'certificate-authority-data', 'tls-server-name'] },
  contexts: { member: 'context', fields: ['cluster', 'user', 'namespace'] },
  users: { member: 'user', fields: ['token', 'client-certificate-data', 'client-key-data'] },
} as const;

type Fields = Record<string, unknown>;

/** Text of the kubeconfig in `folder`; undefined: there is none. Errors: `FoundKubeconfigRefused`. */
export function foundKubeconfig(folder: string): FoundKubeconfig | undefined {
  const file = join(folder, LOCAL);
  const refused = (why: string): CodedError =>
    cliError('FoundKubeconfigRefused', `${file} is in the working folder and no flag or variable named it; it is not used: ${why}`, {
      next: `use another, --kubeconfig FILE; or read this one, and if you trust it name it: KUBECONFIG=${LOCAL}`,
    });
  let text: string;
  try {
    const [above, own] = [treeEntry(folder, '.kubenode'), treeEntry(folder, LOCAL)];
    if (above === undefined || own === undefined) return undefined;
    for (const { uid, mode } of [above, own]) {
      if (process.getuid !== undefined && uid !== process.getuid()) throw refused('it belongs to another user');
      if ((mode & 0o002) !== 0) throw refused('others may write it');
    }
    text = readTreeFile(folder, LOCAL);
  } catch (error) {
    if (isCoded(error, cliErrorCodes, 'TreeSymlink')) throw refused('a symbolic link leads to it');
    if (isCoded(error, cliErrorCodes, 'TreeMode', 'TreeTooLarge')) throw refused('it is no plain file of an ordinary size');
    throw error;
  }
  const found = strange(text);
  if (found === undefined) return { file, text };
  if ('line' in found) throw refused(`${file}:${found.line} is no YAML (${found.code})`);
  throw refused(`it may contain only what \`kubenode start\` writes, and ${found.what} is something else`);
}

/** What in it `kubenode start` does not write. Never a value, which may be a secret. */
function strange(text: string): { what: string } | { line: number | string; code: string } | undefined {
  const document = parseDocument(text, { prettyErrors: true });
  const [error] = document.errors;
  if (error !== undefined) return { line: error.linePos?.[0].line ?? '?', code: error.code };
  const config: unknown = document.toJS();
  if (!isFields(config)) return { what: 'a file without clusters, contexts and users' };
  // Names in it are printed; none has a reason to contain a line break or what a terminal obeys.
  if (/\\[bfnrtu]/.test(JSON.stringify(config))) return { what: 'a text with control characters' };
  const [other] = Object.keys(config).filter((field) => !TOP.includes(field));
  if (other !== undefined) return { what: `\`${other}\`` };
  for (const [list, { member, fields }] of Object.entries(LISTS)) {
    const items = config[list] ?? [];
    if (!Array.isArray(items)) return { what: `\`${list}\` that is no list` };
    for (const item of items as unknown[]) {
      const content = isFields(item) ? item[member] : undefined;
      const isWhole = isFields(item) && isFields(content) && typeof item['name'] === 'string' && Object.keys(item).length === 2;
      if (!isWhole) return { what: `an item of \`${list}\` that is not just a name and \`${member}\`` };
      const of = `of ${member} ${JSON.stringify(item['name'])}`;
      const [extra] = Object.keys(content).filter((field) => !(fields as readonly string[]).includes(field));
      const [unread] = Object.keys(content).filter((field) => typeof content[field] !== 'string');
      if (extra !== undefined || unread !== undefined) return { what: `\`${extra ?? unread}\` ${of}` };
      if (member === 'cluster' && !isLoopback(content['server']))
        return { what: `\`server\` ${of} that is no https address of this machine` };
    }
  }
  return undefined;
}

function isLoopback(server: unknown): boolean {
  if (typeof server !== 'string' || !URL.canParse(server)) return false;
  const { protocol, hostname, username, password } = new URL(server);
  // As a URL is parsed, every way to write an IPv4 address becomes four decimal numbers.
  return protocol === 'https:' && username === '' && password === '' && /^(127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

function isFields(value: unknown): value is Fields {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
