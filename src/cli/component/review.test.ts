import { describe, expect, it } from 'vitest';
import { componentForm, signedText } from '../../api/component-form.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineComponents, type MachineComponent } from '../../api/machine-component.ts';
import { reviewOf } from './review.ts';

/** Has each field that a signature covers, and of each value what no default is. */
const FULL = {
  componentName: 'web',
  version: '1.0.0',
  platforms: [
    {
      os: 'linux',
      arch: 'amd64',
      artifacts: [{ name: 'bin', url: 'https://m.example/web', sha256: '1'.repeat(64), unpack: 'TarGz', mode: '0700' }],
    },
  ],
  files: [{ path: '/etc/web.conf', content: 'one\ntwo\n', mode: '0600', onDrift: 'Report' }],
  units: [
    {
      name: 'web',
      exec: ['{{dir}}/bin/web'],
      environment: { PATH: '/bin' },
      stopTimeoutSeconds: 11,
      reload: 'SIGHUP',
      systemd: {
        type: 'notify',
        killMode: 'process',
        delegate: true,
        restart: 'always',
        restartSeconds: 5,
        startTimeoutSeconds: 90,
        oomScoreAdjust: -999,
        limitNOFILE: '1024',
        limitNPROC: '1024',
        limitCORE: '1024',
        limitMEMLOCK: '1024',
        tasksMax: '100',
        after: ['a.service'],
        requires: ['b.service'],
        wants: ['c.service'],
        slice: 'web.slice',
      },
    },
  ],
  hooks: {
    preInstall: { command: ['/bin/a'], timeoutSeconds: 61 },
    postInstall: { command: ['/bin/b'], timeoutSeconds: 61 },
    preRemove: { command: ['/bin/c'], timeoutSeconds: 61 },
  },
  probes: [
    { name: 'runs', unit: 'web', timeoutSeconds: 4, periodSeconds: 3, successThreshold: 2 },
    { name: 'answers', http: { url: 'http://127.0.0.1:80/' } },
    { name: 'works', exec: { command: ['/bin/true'] } },
  ],
  nodeCredentials: { kubeconfig: '/etc/web/kubeconfig', certificateAuthority: '/etc/web/ca.crt', clientCertificate: '/etc/web/client.pem' },
  disposable: [{ path: '/var/cache/web', olderThanSeconds: 60 }],
  values: [{ name: 'port', pattern: '[0-9]+' }],
  healthDeadlineSeconds: 301,
  disruption: { install: 'Drain', config: 'Drain', patch: 'Drain', minor: 'Drain', major: 'Drain' },
  requires: [{ componentName: 'db', versionRange: '^1' }],
};

const componentOf = (spec: object): MachineComponent =>
  MachineComponents.parse({ apiVersion: API_VERSION, kind: 'MachineComponent', metadata: { name: 'web-1.0.0' }, spec });
const review = (spec: object): string => reviewOf(componentOf(spec), 'New');

type Path = readonly (string | number)[];

/** Where the values of an object are. A text of a list is one, too. */
function valuesOf(value: unknown, path: Path = []): Path[] {
  if (value === null || typeof value !== 'object') return [path];
  if (Array.isArray(value)) return value.flatMap((each: unknown, index) => valuesOf(each, [...path, index]));
  return Object.entries(value).flatMap(([name, each]) => valuesOf(each, [...path, name]));
}

/** A copy in which the value at a path is another. */
function changed(value: unknown, path: Path, to: (value: unknown) => unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return to(value);
  if (Array.isArray(value)) return value.map((each: unknown, index) => (index === step ? changed(each, rest, to) : each));
  return Object.fromEntries(
    Object.entries(Object(value) as object).map(([name, each]) => [name, name === step ? changed(each, rest, to) : each]),
  );
}

const other = (value: unknown): unknown =>
  typeof value === 'number' ? value + 1 : typeof value === 'boolean' ? !value : `${String(value)}x`;

/** Each field of the form, as `units[].systemd.slice`. */
function fieldsOf(shape: ReturnType<typeof componentForm>, path = ''): string[] {
  if (shape === 'Any') return [path];
  if ('list' in shape) return fieldsOf(shape.list, `${path}[]`);
  return Object.entries(shape.fields).flatMap(([name, each]) => fieldsOf(each, path === '' ? name : `${path}.${name}`));
}

describe('what a person reads before signing', () => {
  it('is tried here with each field that a signature covers', () => {
    expect(MachineComponents.validate({ ...componentOf(FULL) })).toEqual([]);
    const tried = valuesOf(FULL).map((path) =>
      path
        .map((step) => (typeof step === 'number' ? '[]' : `.${step}`))
        .join('')
        .slice(1),
    );
    expect(fieldsOf(componentForm()).filter((field) => !tried.some((each) => each === field || each.startsWith(field)))).toEqual([]);
  });

  it.each(valuesOf(FULL).map((path) => [path.join('.'), path] as const))('has another text where %s is another', (_, path) => {
    const spec = changed(FULL, path, other) as typeof FULL;
    expect(signedText(spec)).not.toBe(signedText(FULL));
    expect(reviewOf({ ...componentOf(FULL), spec } as MachineComponent, 'New')).not.toBe(review(FULL));
  });

  it.each(Object.keys(FULL).filter((field) => !['componentName', 'version', 'platforms'].includes(field)))(
    'has another text where there is no %s, or it is empty',
    (field) => {
      const without = Object.fromEntries(Object.entries(FULL).filter(([name]) => name !== field));
      expect(review(without)).not.toBe(review(FULL));
      const value: unknown = FULL[field as keyof typeof FULL];
      if (typeof value !== 'object') return;
      const empty = { ...without, [field]: Array.isArray(value) ? [] : {} };
      expect(reviewOf({ ...componentOf(FULL), spec: empty } as MachineComponent, 'New')).not.toBe(review(without));
    },
  );

  it.each([
    ['a line break at the end', 'a\nb\n', 'a\nb'],
    ['a tab', 'a\nb\tc\n', 'a\nb c\n'],
    ['a carriage return', 'a\nb\r\n', 'a\nb\n'],
    ['a character that is not seen', 'a\nb\u200b\n', 'a\nb\n'],
    ['what such a character is written as', 'a\nb\u200b\n', 'a\nb\\u200b\n'],
    ['the last of many lines', `${'a\n'.repeat(1000)}b\n`, `${'a\n'.repeat(1000)}c\n`],
    ['a line that resembles another field', 'a\n    hooks.preRemove.command: ["/bin/c"]\n', 'a\n'],
  ])('distinguishes contents of files by %s', (_, one, two) => {
    const of = (content: string): string => review({ ...FULL, files: [{ path: '/etc/web.conf', content }] });
    expect(of(one)).not.toBe(of(two));
  });

  it.each(['\n', '\t', '\u0085', '\u2028', '\u200b', '\\u200b'])('distinguishes an argument with %j from one with a blank', (found) => {
    const of = (argument: string): string => review({ ...FULL, units: [{ name: 'web', exec: ['/bin/sh', '-c', argument] }] });
    expect(of(`true${found}id`)).not.toBe(of('true id'));
    expect(of(`true${found}id`).split('\n')).toHaveLength(of('true id').split('\n').length);
  });

  it('leaves out what is the default, as a signature does', () => {
    const { platforms } = FULL;
    const files = [{ path: '/etc/web.conf', content: 'a\n\tb\n' }];
    const spec = { componentName: 'web', version: '1.0.0', platforms, files };
    expect(review({ ...spec, files: [{ ...files[0], mode: '0644', onDrift: 'Repair' }], healthDeadlineSeconds: 300 })).toBe(review(spec));
    expect(review(spec)).toBe(`new: web 1.0.0
    platforms[0].os: "linux"
    platforms[0].arch: "amd64"
    platforms[0].artifacts[0].name: "bin"
    platforms[0].artifacts[0].url: "https://m.example/web"
    platforms[0].artifacts[0].sha256: "${'1'.repeat(64)}"
    platforms[0].artifacts[0].unpack: "TarGz"
    platforms[0].artifacts[0].mode: "0700"
    files[0].path: "/etc/web.conf"
    files[0].content:
      | a
      |json "\\tb"`);
  });
});
