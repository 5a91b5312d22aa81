import { expect, test } from 'vitest';
import { MachineComponents } from '../../api/machine-component.ts';
import { judgeObject } from '../../cli/object-rules.ts';
import { parseComponentSpec } from './spec.ts';

const linux = { os: 'linux', arch: 'amd64' };
const sha256 = 'a'.repeat(64);
const artifact = { name: 'bin', url: 'x', sha256 };
const whole = {
  componentName: 'app',
  version: '1.0.0+build_1',
  platforms: [{ os: 'any', arch: 'any', artifacts: [artifact, { ...artifact, name: 'tree', unpack: 'TarGz', mode: '0644' }] }],
  files: [{ path: '/etc/app.conf', content: '', mode: '0600', onDrift: 'Report' }],
  units: [{ name: 'app', exec: ['{{dir}}/bin'], environment: { A: '' }, stopTimeoutSeconds: 1, reload: 'SIGHUP' }],
  hooks: { preInstall: { command: ['a'] }, postInstall: { command: ['b'], timeoutSeconds: 5 }, preRemove: { command: ['c'] } },
  probes: [
    { name: 'u', unit: 'app' },
    { name: 'h', http: { url: 'http://127.0.0.1/' }, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 3 },
    { name: 'e', exec: { command: ['true'] } },
  ],
  healthDeadlineSeconds: 10,
  disruption: { install: 'None', config: 'Reload', patch: 'Restart', minor: 'Drain', major: 'Reboot' },
  requires: [{ componentName: 'containerd', versionRange: '>=1' }, { componentName: 'cni' }],
};

test('what the API takes is read, with the defaults of its schema', () => {
  const metadata = { name: 'app-1.0.0-build-1' };
  expect(MachineComponents.validate({ apiVersion: 'kubenode.io/v1alpha1', kind: 'MachineComponent', metadata, spec: whole })).toEqual([]);
  expect(parseComponentSpec(whole, linux)).toMatchObject({
    artifacts: [
      { unpack: 'None', mode: 0o755 },
      { unpack: 'TarGz', mode: 0o644 },
    ],
    files: [{ mode: 0o600, onDrift: 'Report' }],
    hooks: { preInstall: { timeoutSeconds: 60 }, postInstall: { timeoutSeconds: 5 } },
    probes: [
      { unit: 'app', timeoutSeconds: 3, periodSeconds: 2, successThreshold: 1 },
      { url: 'http://127.0.0.1/', successThreshold: 3 },
      { exec: ['true'] },
    ],
  });
  const least = { componentName: 'app', version: '1', platforms: [{ os: 'linux', arch: 'amd64', artifacts: [] }] };
  expect(parseComponentSpec(least, linux)).toMatchObject({
    files: [],
    units: [],
    hooks: {},
    probes: [],
    healthDeadlineSeconds: 300,
    requires: [],
  });
});

test('the platform that is named best is taken', () => {
  const platform = (os: string, arch: string) => ({ os, arch, artifacts: [{ ...artifact, url: `${os}/${arch}` }] });
  const urls = (platforms: object[]): string[] => parseComponentSpec({ ...whole, platforms }, linux).artifacts.map((each) => each.url);
  expect(urls([platform('any', 'any'), platform('any', 'amd64'), platform('linux', 'any'), platform('linux', 'amd64')])).toEqual([
    'linux/amd64',
  ]);
  expect(urls([platform('any', 'any'), platform('any', 'amd64'), platform('linux', 'any')])).toEqual(['linux/any']);
  expect(urls([platform('darwin', 'arm64'), platform('any', 'any')])).toEqual(['any/any']);
  expect(() => urls([platform('darwin', 'any'), platform('linux', 'arm64')])).toThrow('it has: darwin/any, linux/arm64');
});

test.each([
  [{ files: [{ path: 'etc/x', content: '' }] }, 'SpecInvalid', 'spec.files[0].path'],
  [{ files: [{ path: '/etc/../x', content: '' }] }, 'PathRefused', 'spec.files[0].path'],
  [{ files: [{ path: '/etc//x', content: '' }] }, 'PathRefused', 'spec.files[0].path'],
  [{ files: [{ path: '/etc/x/', content: '' }] }, 'PathRefused', 'spec.files[0].path'],
  [{ files: [{ path: '/var/lib/kubenode/journal', content: '' }] }, 'PathRefused', '/var/lib/kubenode'],
  [{ files: [{ path: '/etc/kubenode/hold', content: '' }] }, 'PathRefused', '/etc/kubenode'],
  [{ files: [{ path: '/run/kubenode', content: '' }] }, 'PathRefused', '/run/kubenode'],
  [{ files: [{ path: '/etc/x', content: '', mode: '644' }] }, 'SpecInvalid', 'spec.files[0].mode'],
  [
    {
      files: [
        { path: '/x', content: '' },
        { path: '/x', content: '' },
      ],
    },
    'SpecInvalid',
    'names "/x" twice',
  ],
  [{ units: [{ name: '../x', exec: ['a'] }] }, 'SpecInvalid', 'spec.units[0].name'],
  [{ units: [{ name: 'x', exec: [] }] }, 'SpecInvalid', 'spec.units[0].exec'],
  [{ units: [{ name: 'x', exec: ['a'], reload: 'SIGKILL' }] }, 'SpecInvalid', 'spec.units[0].reload'],
  [{ units: [{ name: 'x', exec: ['a'], stopTimeoutSeconds: 0 }] }, 'SpecInvalid', 'at least 1'],
  [{ probes: [{ name: 'p' }] }, 'SpecInvalid', 'exactly one of unit, http and exec'],
  [{ probes: [{ name: 'p', unit: 'other' }] }, 'SpecInvalid', 'names no unit of this component: "other"'],
  [{ hooks: { preInstall: { command: 'rm -rf /' } } }, 'SpecInvalid', 'spec.hooks.preInstall.command'],
  [{ disruption: { minor: 'Explode' } }, 'SpecInvalid', 'spec.disruption.minor'],
  [{ platforms: [{ os: 'any', arch: 'any', artifacts: [{ ...artifact, sha256: 'abc' }] }] }, 'SpecInvalid', 'sha256'],
  [{ platforms: [{ os: 'any', arch: 'any', artifacts: [{ name: 'x', url: 'y' }] }] }, 'SpecInvalid', 'sha256'],
  [{ platforms: [{ os: 'any', arch: 'any', artifacts: [{ ...artifact, name: '.kubenode' }] }] }, 'SpecInvalid', 'name'],
  [{ platforms: [{ os: 'any', arch: 'any', artifacts: [artifact, artifact] }] }, 'SpecInvalid', 'names "bin" twice'],
  [{ healthDeadlineSeconds: '5' }, 'SpecInvalid', 'spec.healthDeadlineSeconds'],
])('%j is refused', (change, code, message) => {
  expect(() => parseComponentSpec({ ...whole, ...change }, linux)).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(message) }),
  );
});

const disposable = (path: string, olderThanSeconds: unknown = 60) => ({ ...whole, disposable: [{ path, olderThanSeconds }] });
const validated = (spec: object) => {
  const object = { apiVersion: 'kubenode.io/v1alpha1', kind: 'MachineComponent', metadata: { name: 'app-1.0.0-build-1' }, spec };
  const errors = MachineComponents.validate(object);
  return errors.length > 0 ? errors : judgeObject(object);
};

test.each(['/var/cache/app', '/tmp', '/data/.hidden/..a/...', '/a b/\n'])('%j may be disposable', (path) => {
  expect(validated(disposable(path))).toEqual([]);
  expect(parseComponentSpec(disposable(path), linux).disposable).toEqual([{ path, olderThanSeconds: 60 }]);
});

const NOT_PLAIN = [
  '/',
  '',
  'var/cache',
  '/..',
  '/.',
  '/var/../etc',
  '/var/cache/..',
  '/var/./cache',
  '/var//cache',
  '/var/cache/',
  '/a\0b',
];
const THE_AGENTS = ['/var', '/var/lib', '/var/lib/kubenode', '/var/lib/kubenode/store', '/etc', '/etc/kubenode', '/run'];

test.each([...NOT_PLAIN, ...THE_AGENTS])('%j may not be disposable, for the API and for the agent', (path) => {
  expect(validated(disposable(path))[0]?.path).toBe('spec.disposable[0].path');
  expect(() => parseComponentSpec(disposable(path), linux)).toThrow('spec.disposable[0].path');
});

test('what is disposable has an age, and names a folder once', () => {
  for (const age of [null, 0, -1, 1.5, '60']) {
    expect(validated(disposable('/var/cache', age))).not.toEqual([]);
    expect(() => parseComponentSpec(disposable('/var/cache', age), linux)).toThrow('spec.disposable[0].olderThanSeconds');
  }
  const twice = { ...whole, disposable: [1, 2].map((olderThanSeconds) => ({ path: '/var/cache', olderThanSeconds })) };
  expect(() => parseComponentSpec(twice, linux)).toThrow('spec.disposable names "/var/cache" twice');
});

test('without anything disposable the spec is as it was before there could be: digests of what is installed stay', () => {
  expect(Object.hasOwn(parseComponentSpec(whole, linux), 'disposable')).toBe(false);
});

test('the systemd settings of a unit are read as the API takes them; what the API refuses the agent refuses too', () => {
  const systemd = {
    type: 'notify',
    killMode: 'process',
    delegate: true,
    restart: 'always',
    restartSeconds: 0,
    startTimeoutSeconds: 3600,
    oomScoreAdjust: -999,
    limitNOFILE: 'infinity',
    limitNPROC: '1',
    limitCORE: '0',
    limitMEMLOCK: '65536',
    tasksMax: '15%',
    after: ['network-online.target', 'getty@tty1.service'],
    requires: [],
    wants: ['dbus.socket'],
    slice: 'kube-system.slice',
  };
  const withUnit = (settings: unknown) => ({ ...whole, units: [{ name: 'app', exec: ['a'], systemd: settings }] });
  expect(validated(withUnit(systemd))).toEqual([]);
  expect(parseComponentSpec(withUnit(systemd), linux).units[0]?.systemd).toEqual(systemd);
  for (const [name, value] of [
    ['type', 'oneshot'],
    ['killMode', 'none'],
    ['restartSeconds', 3601],
    ['oomScoreAdjust', 1001],
    ['limitNPROC', '-1'],
    ['tasksMax', '0%'],
    ['after', ['x']],
    ['requires', ['kubenode-agent.service']],
    ['slice', '../x.slice'],
  ] as const) {
    expect([name, validated(withUnit({ ...systemd, [name]: value }))]).not.toEqual([name, []]);
    expect(() => parseComponentSpec(withUnit({ ...systemd, [name]: value }), linux)).toThrow(`spec.units[0].systemd.${name}`);
  }
});

test('a unit without systemd settings is as it was before there were any: digests and hashes of what is installed stay', () => {
  expect(Object.hasOwn(parseComponentSpec(whole, linux).units[0] ?? {}, 'systemd')).toBe(false);
});

test.each<[unknown, string]>([
  [{ type: 'oneshot' }, 'type must be one of simple, exec, notify'],
  [{ killMode: 'none' }, 'killMode'],
  [{ restart: 'on-success' }, 'restart'],
  [{ restartSeconds: -1 }, 'restartSeconds must be a whole number from 0 to 3600'],
  [{ startTimeoutSeconds: 0 }, 'startTimeoutSeconds'],
  [{ oomScoreAdjust: -1001 }, 'oomScoreAdjust'],
  [{ oomScoreAdjust: '1' }, 'oomScoreAdjust'],
  [{ delegate: 'yes' }, 'delegate must be true or false'],
  [{ limitNOFILE: '1\nExecStartPre=/bin/evil' }, 'limitNOFILE'],
  [{ limitCORE: '1G' }, 'limitCORE'],
  [{ tasksMax: '101%' }, 'tasksMax'],
  [{ slice: 'kube.service' }, 'slice'],
  [{ after: ['a.service b.service'] }, 'after[0]'],
  [{ after: 'a.service' }, 'after must be a list'],
  [{ wants: ['%n.service'] }, 'wants[0]'],
  [{ requires: ['kubenode-agent.service'] }, 'requires must not name kubenode-agent.service'],
  [{ after: Array.from({ length: 17 }, (_, index) => `a${index}.service`) }, 'at most 16'],
  [{ execStartPre: '/bin/evil' }, 'execStartPre is no directive that a component may set'],
  ['Type=oneshot', 'must be an object'],
])('a unit cannot pass %j to systemd', (systemd, message) => {
  expect(() => parseComponentSpec({ ...whole, units: [{ name: 'app', exec: ['a'], systemd }] }, linux)).toThrow(
    expect.objectContaining({ code: 'SpecInvalid', message: expect.stringContaining(message) }),
  );
});

test('what it requires is read with its range, or for any version', () => {
  expect(parseComponentSpec(whole, linux).requires).toEqual([
    { componentName: 'containerd', versionRange: '>=1' },
    { componentName: 'cni' },
  ]);
});

test.each<[string, object, string]>([
  [
    'a probe of a unit of another component',
    { probes: [{ name: 'u', unit: 'web' }] },
    'spec.probes[0].unit names no unit of this component: "web"',
  ],
  ['a list for an object', { disruption: [] }, 'spec.disruption must be an object'],
  ['null for an object', { disruption: null }, 'spec.disruption must be an object'],
  ['an object for a list', { requires: {} }, 'spec.requires must be a list'],
  [
    'a program without a name',
    { probes: [{ name: 'e', exec: { command: ['', 'x'] } }] },
    'spec.probes[0].exec.command must be an argument vector',
  ],
  ['no program', { probes: [{ name: 'e', exec: { command: [] } }] }, 'spec.probes[0].exec.command must be an argument vector'],
  ['a number that is none', { healthDeadlineSeconds: 1.5 }, 'spec.healthDeadlineSeconds must be a whole number'],
  ['an unknown class', { disruption: { minor: 'Dance' } }, 'spec.disruption.minor must be one of None, Reload'],
])('%s is refused', (_what, rest, message) => {
  expect(() => parseComponentSpec({ ...whole, ...rest }, linux)).toThrow(
    expect.objectContaining({ code: 'SpecInvalid', message: expect.stringContaining(message) }),
  );
});

test('two units are enough for a probe of one of them, and an argument may be empty', () => {
  const units = ['app', 'helper'].map((name) => ({ name, exec: ['x', ''] }));
  const spec = parseComponentSpec({ ...whole, units, probes: [{ name: 'u', unit: 'helper' }] }, linux);
  expect(spec.probes).toMatchObject([{ unit: 'helper' }]);
  expect(spec.units).toMatchObject([{ exec: ['x', ''] }, { exec: ['x', ''] }]);
});
