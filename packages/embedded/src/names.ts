/** What may be a name, a label key, a label value; the words are apimachinery's. An empty list means valid. */

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const KEY_NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const LABEL_VALUE = `(${KEY_NAME})?`;
const CONFIG_KEY = '[-._a-zA-Z0-9]+';

const labelPattern = new RegExp(`^${LABEL}$`);
const subdomainPattern = new RegExp(`^${SUBDOMAIN}$`);
const keyNamePattern = new RegExp(`^${KEY_NAME}$`);
const labelValuePattern = new RegExp(`^${LABEL_VALUE}$`);
const configKeyPattern = new RegExp(`^${CONFIG_KEY}$`);

const maxLength = (limit: number) => `must be no more than ${limit} bytes`;

function regexError(message: string, pattern: string, ...examples: string[]): string {
  return `${message} (e.g. ${examples.map((example) => `'${example}'`).join(',  or ')}, regex used for validation is '${pattern}')`;
}

export function checkLabelName(value: string): string[] {
  const out: string[] = [];
  if (value.length > 63) out.push(maxLength(63));
  if (!labelPattern.test(value) && subdomainPattern.test(value)) out.push('must not contain dots');
  else if (!labelPattern.test(value)) {
    out.push(
      regexError(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
        LABEL,
        'my-name',
        '123-abc',
      ),
    );
  }
  return out;
}

const DNS_1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const kindPattern = new RegExp(`^${DNS_1035}$`);

/** The kind of an object, in any case of letters. */
export function checkKind(value: string): string[] {
  const out: string[] = [];
  if (value.length > 63) out.push(maxLength(63));
  if (!kindPattern.test(value.toLowerCase())) {
    out.push(
      regexError(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        DNS_1035,
        'my-name',
        'abc-123',
      ),
    );
  }
  return out;
}

export function checkSubdomain(value: string): string[] {
  const out: string[] = [];
  if (value.length > 253) out.push(maxLength(253));
  if (!subdomainPattern.test(value)) {
    out.push(
      regexError(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        SUBDOMAIN,
        'example.com',
      ),
    );
  }
  return out;
}

export function checkQualifiedName(value: string): string[] {
  const message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
  const examples = ['MyName', 'my.name', '123-abc'];
  const parts = value.split('/');
  if (parts.length > 2) {
    return [
      `a valid label key ${regexError(message, KEY_NAME, ...examples)} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const out: string[] = [];
  const name = parts.at(-1) ?? '';
  if (parts.length === 2) {
    const prefix = parts[0] ?? '';
    if (prefix === '') out.push('prefix part must be non-empty');
    else out.push(...checkSubdomain(prefix).map((line) => `prefix part ${line}`));
  }
  if (name === '') out.push('name part must be non-empty');
  else if (name.length > 63) out.push(`name part ${maxLength(63)}`);
  if (!keyNamePattern.test(name)) out.push(`name part ${regexError(message, KEY_NAME, ...examples)}`);
  return out;
}

export function checkLabelValue(value: string): string[] {
  const out: string[] = [];
  if (value.length > 63) out.push(maxLength(63));
  if (!labelValuePattern.test(value)) {
    out.push(
      regexError(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        LABEL_VALUE,
        'MyValue',
        'my_value',
        '12345',
      ),
    );
  }
  return out;
}

export function checkConfigKey(value: string): string[] {
  const out: string[] = [];
  if (value.length > 253) out.push(maxLength(253));
  if (!configKeyPattern.test(value)) {
    out.push(
      regexError(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        CONFIG_KEY,
        'key.name',
        'KEY_NAME',
        'key-name',
      ),
    );
  }
  if (value === '.' || value === '..' || value.startsWith('..')) out.push(`must not be '${value}'`);
  return out;
}

/** What every name must satisfy to be part of a path. */
export function checkPathSegment(value: string): string[] {
  if (value === '.' || value === '..') return [`may not be '${value}'`];
  const out: string[] = [];
  for (const illegal of ['/', '%']) if (value.includes(illegal)) out.push(`may not contain '${illegal}'`);
  return out;
}
