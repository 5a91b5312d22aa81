/** Reports of vitest's JSON reporter, checked where they are read. */
import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';

export interface Report {
  readonly testResults: readonly {
    /** Absolute path of the test file. */
    readonly name: string;
    /** `failed` without a failed test: the file itself could not run, and `message` gives the reason. */
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[] | null;
    }[];
  }[];
}

const text = { type: 'string', minLength: 1 };
const any = { type: 'string' };
const isReport = new Ajv({ allowUnionTypes: true }).compile<Report>({
  type: 'object',
  required: ['testResults'],
  properties: {
    testResults: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'status', 'message', 'assertionResults'],
        properties: {
          name: text,
          status: text,
          message: any,
          assertionResults: {
            type: 'array',
            items: {
              type: 'object',
              required: ['fullName', 'status'],
              properties: { fullName: any, status: text, failureMessages: { type: ['array', 'null'], items: any } },
            },
          },
        },
      },
    },
  },
});

/** Throws where the file cannot be read or is not such a report. */
export function readReport(path: string): Report {
  const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
  if (!isReport(value)) throw new Error(`${path} is not a report of vitest`);
  return value;
}
