import { execFileSync, spawnSync } from 'node:child_process';
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import fc from 'fast-check';
import type { TSchema } from 'typebox';
import { describe, expect, it } from 'vitest';
import { componentForm, signedText } from './component-form.ts';
import { keyIDOf, keyLine, parseKeys, signComponent, verifiedBy } from './component-key.ts';
import { isCoded } from './errors.ts';
import { MachineComponents } from './machine-component.ts';
import { machineComponentSpec } from './machine-component/schema.ts';
import { API_VERSION } from './kind.ts';

const keyPair = (): KeyObject => generateKeyPairSync('ed25519').privateKey;
const hasSshKeygen = spawnSync('ssh-keygen', ['-?']).error === undefined;
const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return isCoded(error) ? error.code : String(error);
  }
  return 'ok';
};

const PLAIN = {
  componentName: 'web',
  version: '1.2.3',
  platforms: [{ os: 'linux', arch: 'any', artifacts: [{ name: 'web', url: 'https://a.example/web', sha256: 'ab'.repeat(32) }] }],
  files: [{ path: '/etc/web', content: '{{values.port}}' }],
  units: [{ name: 'web', exec: ['{{dir}}/web', '--port={{values.port}}'], environment: { HOME: '/' } }],
  hooks: { preInstall: { command: ['true'] } },
  probes: [{ name: 'up', http: { url: 'http://127.0.0.1/' } }],
  disposable: [{ path: '/var/log/web', olderThanSeconds: 60 }],
  values: [{ name: 'port', pattern: '[0-9]{1,5}' }],
  disruption: { install: 'Restart' },
  requires: [{ componentName: 'cni' }],
};

describe('G6: the form that is signed', () => {
  it('has the fields and the defaults of the schema, so that signer and agent make the same text of one component', () => {
    type Tree = { fields?: Record<string, Tree>; list?: Tree; defaults?: Record<string, unknown> };
    const ofSchema = (schema: TSchema): Tree | 'Any' => {
      const { type, properties, items } = schema as { type?: string; properties?: Record<string, TSchema>; items?: TSchema };
      if (type === 'array' && items !== undefined) {
        const inner = ofSchema(items);
        return inner === 'Any' ? 'Any' : { list: inner };
      }
      if (properties === undefined) return 'Any';
      const defaults = Object.entries(properties).flatMap(([name, each]) => ('default' in each ? [[name, each['default']]] : []));
      return {
        fields: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, ofSchema(each) as Tree])),
        ...(defaults.length === 0 ? {} : { defaults: Object.fromEntries(defaults) as Record<string, unknown> }),
      };
    };
    const { signatures, ...fields } = (ofSchema(machineComponentSpec) as { fields: Record<string, Tree> }).fields;
    expect(signatures).toBeDefined();
    expect(componentForm()).toEqual({ ...(ofSchema(machineComponentSpec) as Tree), fields });
  });

  it('is the same before and after an API server has filled in defaults', () => {
    const filled = {
      ...PLAIN,
      platforms: PLAIN.platforms.map((each) => ({ ...each, artifacts: each.artifacts.map((one) => ({ ...one, unpack: 'None' })) })),
      files: PLAIN.files.map((each) => ({ onDrift: 'Repair', ...each, mode: '0644' })),
      units: PLAIN.units.map((each) => ({ ...each, stopTimeoutSeconds: 10, reload: 'None' })),
      hooks: { preInstall: { command: ['true'], timeoutSeconds: 60 } },
      probes: PLAIN.probes.map((each) => ({ ...each, timeoutSeconds: 3, periodSeconds: 2, successThreshold: 1 })),
      healthDeadlineSeconds: 300,
    };
    expect(signedText(filled)).toBe(signedText(PLAIN));
    const object = { apiVersion: API_VERSION, kind: 'MachineComponent', metadata: { name: 'web-1.2.3' }, spec: filled };
    expect(signedText(MachineComponents.parse(object).spec)).toBe(signedText(PLAIN));
  });

  it.each([
    ['a field that only a later version knows', { ...PLAIN, later: true }, 'spec.later'],
    ['one far inside', { ...PLAIN, hooks: { preInstall: { command: ['true'], shell: true } } }, 'spec.hooks.preInstall.shell'],
    ['a name of every object', JSON.parse('{"__proto__": {"version": "1"}}') as object, 'spec.__proto__'],
    ['a list that is none', { ...PLAIN, files: {} }, 'spec.files'],
    ['no object', 'x', 'spec'],
  ])('refuses %s', (_what, spec, path) => {
    expect(() => signedText(spec)).toThrow(path);
    expect(codeOf(() => signedText(spec))).toBe('FormUnknown');
  });
});

describe('G6: a signature of a component', () => {
  const one = keyPair();
  const two = keyPair();
  const keys = (...all: (typeof one)[]) => parseKeys(all.map((each) => keyLine(each, 'release')).join('\n'), 'keys');
  const signed = { ...PLAIN, signatures: [signComponent(PLAIN, one)] };

  it('is accepted by its key, and by no other', () => {
    expect(verifiedBy(signed, keys(one)).id).toBe(keyIDOf(one));
    expect(verifiedBy(signed, keys(two, one)).id).toBe(keyIDOf(one));
    expect(codeOf(() => verifiedBy(signed, keys(two)))).toBe('SignatureWrong');
    expect(codeOf(() => verifiedBy(PLAIN, keys(one)))).toBe('Unsigned');
    expect(codeOf(() => verifiedBy({ ...PLAIN, signatures: [] }, keys(one)))).toBe('Unsigned');
    expect(codeOf(() => verifiedBy({ ...PLAIN, signatures: 'x' }, keys(one)))).toBe('Unsigned');
  });

  it('of an old key and of a new one carries over a rotation', () => {
    const both = { ...PLAIN, signatures: [signComponent(PLAIN, one), signComponent(PLAIN, two)] };
    for (const accepted of [keys(one), keys(one, two), keys(two)]) expect(codeOf(() => verifiedBy(both, accepted))).toBe('ok');
  });

  it('under the name of another key, or over text without its context, is none', () => {
    const value = signComponent(PLAIN, two).value;
    expect(codeOf(() => verifiedBy({ ...PLAIN, signatures: [{ keyID: keyIDOf(one), value }] }, keys(one, two)))).toBe('SignatureWrong');
    const bare = sign(null, Buffer.from(signedText(PLAIN).replace(/^.*\n/, '')), one).toString('base64');
    expect(codeOf(() => verifiedBy({ ...PLAIN, signatures: [{ keyID: keyIDOf(one), value: bare }] }, keys(one)))).toBe('SignatureWrong');
  });

  it('is of this content: with any one bit of it changed it is refused', () => {
    const accepted = keys(one);
    const text = JSON.stringify(signed);
    const bytes = Buffer.from(text);
    let changed = 0;
    fc.assert(
      fc.property(fc.nat(bytes.length * 8 - 1), (bit) => {
        const flipped = Buffer.from(bytes);
        flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        let spec: unknown;
        try {
          spec = JSON.parse(flipped.toString());
        } catch {
          return;
        }
        changed++;
        expect(['SignatureWrong', 'Unsigned', 'FormUnknown']).toContain(codeOf(() => verifiedBy(spec, accepted)));
      }),
      { numRuns: 3000, seed: 11 },
    );
    expect(changed).toBeGreaterThan(1000);
  });

  it('is right for any component, in any order of its fields', () => {
    const shuffled = (value: unknown): unknown =>
      Array.isArray(value)
        ? value.map(shuffled)
        : value !== null && typeof value === 'object'
          ? Object.fromEntries(
              Object.entries(value)
                .toReversed()
                .map(([name, each]) => [name, shuffled(each)]),
            )
          : value;
    fc.assert(
      fc.property(
        fc.string(),
        fc.array(fc.string(), { minLength: 1 }),
        fc.dictionary(fc.string(), fc.string()),
        (content, exec, environment) => {
          const spec = { ...PLAIN, files: [{ path: '/a', content }], units: [{ name: 'a', exec, environment }] };
          const signatures = [signComponent(spec, one)];
          expect(codeOf(() => verifiedBy(shuffled({ ...spec, signatures }), keys(one)))).toBe('ok');
          expect(codeOf(() => verifiedBy(JSON.parse(JSON.stringify({ ...spec, signatures })), keys(one)))).toBe('ok');
        },
      ),
      { numRuns: 100, seed: 5 },
    );
  });
});

describe('G6: keys', () => {
  it.each(['', '# none\n', 'ssh-rsa AAAA', 'ssh-ed25519 AAAA', 'ssh-ed25519', `${keyLine(keyPair(), 'a')}\nrubbish`])(
    'refuses %j',
    (text) => {
      expect(codeOf(() => parseKeys(text, 'the file'))).toBe('KeysInvalid');
    },
  );

  it.skipIf(!hasSshKeygen)('have the fingerprint that ssh-keygen prints (skipped without ssh-keygen)', () => {
    const line = keyLine(keyPair(), 'a comment');
    const printed = execFileSync('ssh-keygen', ['-l', '-f', '-'], { input: line, encoding: 'utf8' });
    expect(printed).toContain(parseKeys(line, 'here')[0]?.id);
    expect(printed).toContain('a comment (ED25519)');
  });
});
