import { gitError, printable } from './errors.ts';
import { keyTypes, parseSshKey, type SshKey } from './ssh-key.ts';

/** One line of an ALLOWED SIGNERS file: ssh-keygen(1). */
export interface AllowedSigner {
  /** Line in the text, from 1. */
  line: number;
  /** As written; it names the signer in results, and is not matched against the commit's author. */
  principals: string;
  key: SshKey;
  /** Patterns of namespaces that the key may sign for; absent: all. */
  namespaces?: string[];
  /** ms since the epoch, inclusive. */
  validAfter?: number;
  validBefore?: number;
}

/**
 * Parses allowed signers.
 *
 * Parity with ssh-keygen, save what would make the answer depend on the machine or on parties that are not named: times without Z (it reads
 * them in local time) and `cert-authority` are refused. Throws AllowedSigners naming every line that cannot be used; a file without any key
 * is an error too, since nothing could ever be signed by it.
 */
export function parseAllowedSigners(text: string): AllowedSigner[] {
  const signers: AllowedSigner[] = [];
  const problems: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const content = line.trim();
    if (content === '' || content.startsWith('#')) continue;
    try {
      signers.push(parseLine(content, index + 1));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push(`line ${index + 1}: ${error.message}`);
    }
  }
  if (problems.length === 0 && signers.length === 0) problems.push('there is no key in it');
  if (problems.length > 0) {
    throw gitError('AllowedSigners', `allowed signers cannot be used: ${problems.join('; ')}`, {
      next: 'write one signer a line: NAME [namespaces="git",valid-before="20270101Z"] ssh-ed25519 AAAA…',
    });
  }
  return signers;
}

function parseLine(line: string, number: number): AllowedSigner {
  const [principals, rest] = word(line);
  if (principals === '' || rest === '') throw new RangeError('has a name and no key');
  if (isKeyType(principals)) throw new RangeError('has no name before the key');
  // The field after the principals is a list of options or the type of the key.
  const [first, afterFirst] = word(rest);
  const hasOptions = !isKeyType(first);
  const options = hasOptions ? parseOptions(first) : {};
  const [type, afterType] = hasOptions ? word(afterFirst) : [first, afterFirst];
  const [base64] = word(afterType);
  if (type === '' || base64 === '') throw new RangeError('has no key after the name and its options');
  if (!keyTypes.includes(type))
    throw new RangeError(`has ${quoted(type)} where the type of a key belongs; allowed are ${keyTypes.join(', ')}`);

  const blob = Buffer.from(base64, 'base64');
  if (blob.toString('base64') !== base64) throw new RangeError('has a key that is not plain base64');
  let key;
  try {
    key = parseSshKey(blob);
  } catch (cause) {
    throw new RangeError(`the key ${cause instanceof RangeError ? cause.message : 'is not a valid key'}`, { cause });
  }
  if (key.type !== type) throw new RangeError(`names ${type}, but the key is ${key.type}`);
  return { line: number, principals: principals.replaceAll('"', ''), key, ...options };
}

/** Splits at the first blank that is not inside double quotes. */
function word(text: string): [string, string] {
  const found = /^((?:"[^"]*"|[^\s"])+)(?:\s+|$)/.exec(text);
  if (found === null) {
    if (text === '') return ['', ''];
    throw new RangeError('has a quote that is not closed');
  }
  return [found[1] ?? '', text.slice(found[0].length)];
}

function isKeyType(text: string): boolean {
  return /^(sk-)?(ssh|ecdsa)-[a-z0-9-]+(@openssh\.com)?$/.test(text);
}

function parseOptions(text: string): Pick<AllowedSigner, 'namespaces' | 'validAfter' | 'validBefore'> {
  const options: Pick<AllowedSigner, 'namespaces' | 'validAfter' | 'validBefore'> = {};
  const seen = new Set<string>();
  for (const option of text.match(/(?:"[^"]*"|[^,"])+/g) ?? []) {
    const [, rawName = '', value] = /^([A-Za-z-]+)(?:="([^"]*)")?$/.exec(option) ?? [];
    // ssh-keygen takes option names in any case.
    const name = rawName.toLowerCase();
    if (name === 'cert-authority') {
      throw new RangeError('is a certificate authority (cert-authority), which is not supported; name each key');
    }
    if (value === undefined || !['namespaces', 'valid-after', 'valid-before'].includes(name)) {
      throw new RangeError(
        `has the option ${quoted(option)}; allowed are namespaces="git", valid-after="YYYYMMDDZ", valid-before="YYYYMMDDHHMMSSZ", parted by commas`,
      );
    }
    if (seen.has(name)) throw new RangeError(`has ${name} twice`);
    seen.add(name);
    if (name === 'namespaces') options.namespaces = value.split(',');
    else options[name === 'valid-after' ? 'validAfter' : 'validBefore'] = parseTime(name, value);
  }
  const { validAfter = -Infinity, validBefore = Infinity } = options;
  if (validAfter > validBefore) throw new RangeError('ends (valid-before) before it begins (valid-after)');
  return options;
}

/** `YYYYMMDD[HHMM[SS]]Z` */
function parseTime(option: string, text: string): number {
  const [, year = '', month = '', day = '', hour = '00', minute = '00', second = '00', zone] =
    /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)$/i.exec(text) ?? [];
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const date = new Date(iso);
  if (zone === undefined || Number.isNaN(date.getTime()) || date.toISOString() !== iso) {
    throw new RangeError(`${option} has ${quoted(text)}, which is no time; allowed is YYYYMMDDZ or YYYYMMDDHHMM[SS]Z`);
  }
  if (zone === '') {
    throw new RangeError(
      `${option} has ${quoted(text)} without a Z, which would be read in the local time of each machine; write ${text}Z for UTC`,
    );
  }
  return date.getTime();
}

/** match_pattern_list of OpenSSH: `*` and `?`; a pattern with `!` that matches refuses, also where others match. */
export function allowsNamespace(signer: AllowedSigner, namespace: string): boolean {
  if (signer.namespaces === undefined) return true;
  const matches = (pattern: string) =>
    new RegExp(
      `^${pattern
        .replace(/[\\^$.|+()[\]{}]/g, '\\$&')
        .replaceAll('*', '.*')
        .replaceAll('?', '.')}$`,
      'i',
    ).test(namespace);
  if (signer.namespaces.some((pattern) => pattern.startsWith('!') && matches(pattern.slice(1)))) return false;
  return signer.namespaces.some((pattern) => !pattern.startsWith('!') && matches(pattern));
}

function quoted(text: string): string {
  return JSON.stringify(printable(text, 60));
}
