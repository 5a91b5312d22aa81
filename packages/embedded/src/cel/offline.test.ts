import { expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { REQUEST_LIMIT } from './cost.ts';
import { rulesOf } from './offline.ts';

const definition: JsonObject = {
  spec: {
    versions: [
      {
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: { text: { type: 'string', maxLength: 100_000 } },
                'x-kubernetes-validations': [{ rule: "!self.text.contains('no')", message: 'must not contain no' }],
              },
            },
          },
        },
      },
    ],
  },
};

it('what many objects cost together counts for none of them', () => {
  const judge = rulesOf(definition);
  const text = 'x'.repeat(100_000);
  // Each goes through 10,000 units of text.
  const objects = Math.ceil((2 * REQUEST_LIMIT) / 10_000);
  for (let index = 0; index < objects; index++) expect(judge({ spec: { text } })).toEqual([]);
  expect(judge({ spec: { text: 'no' } })).toEqual([{ path: 'spec', message: 'must not contain no' }]);
});
