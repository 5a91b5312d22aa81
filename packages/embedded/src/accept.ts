import { notAcceptable } from './refusal.ts';

/** The form an answer is to take. */
type Shape = 'json' | 'table' | 'partial';

export interface Accepted {
  readonly shape: Shape;
  /** v1 or v1beta1, of Table and PartialObjectMetadata. */
  readonly version: string;
}

/** Whether a client would rather have YAML than JSON. Watches are JSON only. */
export function wantsYaml(header: string | undefined): boolean {
  const first = mediaRanges(header).find((range) => isJson(range) || range.type === YAML);
  return first?.type === YAML;
}

const YAML = 'application/yaml';

interface MediaRange {
  readonly type: string;
  readonly params: Readonly<Record<string, string>>;
}

/** Media ranges, best first: by quality, then as written. */
export function mediaRanges(header: string | undefined): MediaRange[] {
  if (header === undefined || header.trim() === '') return [{ type: 'application/json', params: {} }];
  return header
    .split(',')
    .map((clause) => {
      const [type = '', ...rest] = clause.split(';').map((part) => part.trim());
      const params: Record<string, string> = {};
      for (const part of rest) {
        const equals = part.indexOf('=');
        if (equals > 0) params[part.slice(0, equals)] = part.slice(equals + 1).replaceAll('"', '');
      }
      const quality = Number(params['q'] ?? '1');
      return { type: type.toLowerCase(), params, quality: Number.isNaN(quality) ? 0 : quality };
    })
    .filter((range) => range.quality > 0)
    .sort((a, b) => b.quality - a.quality);
}

export function isJson(range: MediaRange): boolean {
  return range.type === 'application/json' || range.type === '*/*' || range.type === 'application/*';
}

const CONVERSIONS: Record<string, Shape> = { Table: 'table', PartialObjectMetadata: 'partial', PartialObjectMetadataList: 'partial' };

/** Only JSON and YAML are served: a client that also takes protobuf or CBOR gets JSON, one that takes nothing else 406. */
export function negotiate(header: string | undefined): Accepted {
  for (const range of mediaRanges(header)) {
    if (!isJson(range) && range.type !== YAML) continue;
    const { as, g, v } = range.params;
    if (as === undefined) return { shape: 'json', version: 'v1' };
    const shape = CONVERSIONS[as];
    if (shape !== undefined && g === 'meta.k8s.io' && (v === 'v1' || v === 'v1beta1')) return { shape, version: v };
  }
  throw notAcceptable(['application/json', YAML]);
}
