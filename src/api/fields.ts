/** Schema pieces that several kinds share. */
import { Type, type TSchema } from 'typebox';
import { PATTERNS } from './kind/patterns.ts';
import { celRules, type CelRule } from './kind.ts';

export const stringMap = (description?: string) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    ...(description === undefined ? {} : { description }),
  });

/** Equality over labels; every entry must match. An empty selector matches nothing on purpose. */
export const labelSelector = () => stringMap('labels that must all be equal');

/** A count (`3`) or a percentage (`"10%"`). Whole numbers are written as integers. */
export const countOrPercent = (description: string) =>
  Type.Unsafe<number | string>({
    'x-kubernetes-int-or-string': true,
    anyOf: [{ type: 'integer' }, { type: 'string' }],
    minimum: 0,
    pattern: PATTERNS.percent.pattern,
    description,
  });

export const name = (description?: string) =>
  Type.String({
    minLength: 1,
    maxLength: 253,
    pattern: PATTERNS.name.pattern,
    ...(description === undefined ? {} : { description }),
  });

export const time = (description?: string) =>
  Type.String({ format: 'date-time', maxLength: 64, ...(description === undefined ? {} : { description }) });

export const seconds = (
  description: string,
  options: { default?: number; minimum?: number; 'x-kubernetes-validations'?: CelRule[] } = {},
) => Type.Integer({ minimum: 0, description, ...options });

export const sha256 = () => Type.String({ pattern: PATTERNS.sha256.pattern, description: 'lower-case hex' });

/** Default lengths, as Kubernetes bounds its own conditions. */
export const condition = ({ longestMessage = 32_768 }: { longestMessage?: number } = {}) =>
  Type.Object({
    type: Type.String({ maxLength: 316 }),
    status: Type.Enum(['True', 'False', 'Unknown']),
    reason: Type.String({ maxLength: 1024 }),
    message: Type.String({ maxLength: longestMessage }),
    lastTransitionTime: time(),
    // Controllers send the list of others' conditions back as they read it: what JSON does not keep they could not write.
    observedGeneration: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  });

export const conditions = ({ maxItems, ...each }: { maxItems?: number; longestMessage?: number } = {}) =>
  Type.Optional(
    Type.Array(condition(each), {
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      ...(maxItems === undefined ? {} : { maxItems }),
    }),
  );

/** A list whose items are found by their keys; each item is one atomic value, which makes writes of many items cheap. */
export const listMap = <const Item extends TSchema>(
  item: Item,
  keys: string[],
  options: { minItems?: number; maxItems?: number; description?: string } = {},
) =>
  Type.Array(
    { ...item, 'x-kubernetes-map-type': 'atomic' },
    { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys, ...options },
  );

export const atomic = <const T extends TSchema>(
  item: T,
  options: { maxItems?: number; minItems?: number; description?: string; 'x-kubernetes-validations'?: CelRule[] } = {},
) => Type.Array(item, { 'x-kubernetes-list-type': 'atomic', ...options });

/** Anything JSON, kept as it is. Small values only. */
export const values = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true, description });

/** Kubernetes' own form of the key of a label or taint; an object with any other is refused, now and later. Its prefix has at most 253 characters besides. */
const KEY = '^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$';
const VALUE = '^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$';
const keyRule = (key: string): string => `${key}.matches('${KEY}') && ${key}.indexOf('/') <= 253`;
const KEY_WORDS = 'a name of up to 63 letters, digits and -_. with at most a DNS subdomain in lower case and / before it';
const VALUE_WORDS = 'up to 63 letters, digits and -_. that begin and end with a letter or digit';

/** Labels of an object of Kubernetes that is made or labelled by these. */
export const labels = (description: string) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string', maxLength: 256 },
    maxProperties: 128,
    description,
    ...celRules(
      { rule: `self.all(k, ${keyRule('k')})`, message: `each key of a label must be ${KEY_WORDS}` },
      { rule: `self.all(k, self[k].matches('${VALUE}'))`, message: `each value of a label must be empty or ${VALUE_WORDS}` },
    ),
  });

/** Prefixes of taints by which Kubernetes itself reports the state of a node: it evicts pods for them, or takes them by force. */
export const KEPT_TAINTS = ['node.kubernetes.io/', 'node.cloudprovider.kubernetes.io/'];

export const taint = () =>
  Type.Object(
    {
      key: Type.String({ minLength: 1, maxLength: 317 }),
      value: Type.Optional(Type.String({ maxLength: 256 })),
      effect: Type.Enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']),
    },
    celRules(
      {
        rule: KEPT_TAINTS.map((prefix) => `!self.key.startsWith('${prefix}')`).join(' && '),
        message: `must not be under ${KEPT_TAINTS.join(' or ')}: by these taints Kubernetes reports the state of a node`,
        fieldPath: '.key',
      },
      { rule: keyRule('self.key'), message: `the key of a taint must be ${KEY_WORDS}`, fieldPath: '.key' },
      {
        rule: `!has(self.value) || self.value.matches('${VALUE}')`,
        message: `the value of a taint must be empty or ${VALUE_WORDS}`,
        fieldPath: '.value',
      },
    ),
  );
