import type { JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf, humanDuration } from '../age.ts';
import { forbidden, invalid, required, type FieldProblem } from '../field-error.ts';
import { copy, isObject, listAt, numberAt, objectAt, put, textAt } from '../json.ts';
import { atomicList, bytes, fields, listMap, mapOf, text, time, whole } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { condition, wholeObject } from './object-meta.ts';

/** Conditions that only the approval subresource may add. */
const APPROVAL = ['Approved', 'Denied'];

function decided(object: JsonObject): Set<string> {
  return new Set(listAt(object, 'status', 'conditions').map((item) => textAt(item, 'type') ?? ''));
}

function statusOf(object: JsonObject): string {
  const types = decided(object);
  const issued = (textAt(object, 'status', 'certificate') ?? '') !== '';
  return `${types.has('Denied') ? 'Denied' : types.has('Approved') ? 'Approved' : 'Pending'}${types.has('Failed') ? ',Failed' : ''}${issued ? ',Issued' : ''}`;
}

function validate(object: JsonObject, old: JsonObject | undefined, subresource: string): FieldProblem[] {
  const out: FieldProblem[] = [];
  if (old === undefined) {
    const request = Buffer.from(textAt(object, 'spec', 'request') ?? '', 'base64').toString('latin1');
    if (!/-----BEGIN (NEW )?CERTIFICATE REQUEST-----/.test(request)) {
      out.push(invalid('spec.request', textAt(object, 'spec', 'request') ?? '', 'PEM block type must be CERTIFICATE REQUEST'));
    }
    const signer = textAt(object, 'spec', 'signerName') ?? '';
    if (signer === '') out.push(required('spec.signerName'));
    else if (!/^[^/]+\.[^/]+\/.+$/.test(signer))
      out.push(invalid('spec.signerName', signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'"));
    if (listAt(object, 'spec', 'usages').length === 0) out.push(required('spec.usages'));
    const seconds = numberAt(object, 'spec', 'expirationSeconds');
    if (seconds !== undefined && seconds < 600)
      out.push(invalid('spec.expirationSeconds', seconds, 'may not specify a duration less than 600 seconds (10 minutes)'));
    return out;
  }
  const types = decided(object);
  const before = decided(old);
  if (types.has('Approved') && types.has('Denied')) {
    out.push(invalid('status.conditions', 'Denied', 'Approved and Denied conditions are mutually exclusive'));
  }
  for (const type of APPROVAL) {
    if (before.has(type) && !types.has(type))
      out.push(forbidden('status.conditions', `updates may not remove a condition of type ${JSON.stringify(type)}`));
    if (!before.has(type) && types.has(type) && subresource !== 'approval') {
      out.push(forbidden('status.conditions', `updates may not add a condition of type ${JSON.stringify(type)}`));
    }
  }
  const certificate = textAt(old, 'status', 'certificate') ?? '';
  if (certificate !== '' && certificate !== textAt(object, 'status', 'certificate')) {
    out.push(forbidden('status.certificate', 'updates may not set certificate content once it is set'));
  }
  return out;
}

/** An approval writes conditions and nothing else; a status write keeps Approved and Denied as they were. */
function prepareUpdate(object: JsonObject, old: JsonObject, subresource: string, now: string): void {
  object['spec'] = old['spec'] ?? {};
  if (subresource === 'approval') {
    const status = copy(objectAt(old, 'status'));
    put(status, 'conditions', objectAt(object, 'status')['conditions']);
    object['status'] = status;
  }
  const before = listAt(old, 'status', 'conditions');
  for (const item of listAt(object, 'status', 'conditions')) {
    if (!isObject(item)) continue;
    const same = before.find(
      (other) => textAt(other, 'type') === textAt(item, 'type') && textAt(other, 'status') === textAt(item, 'status'),
    );
    item['lastUpdateTime'] ??= now;
    item['lastTransitionTime'] ??= textAt(same, 'lastTransitionTime') ?? now;
  }
}

export const signingRequest: Builtin = {
  group: 'certificates.k8s.io',
  version: 'v1',
  kind: 'CertificateSigningRequest',
  plural: 'certificatesigningrequests',
  namespaced: false,
  shortNames: ['csr'],
  schema: wholeObject(
    'io.k8s.api.certificates.v1.CertificateSigningRequest',
    'A request for a certificate, its approval and the certificate.',
    {
      spec: fields(
        {
          expirationSeconds: whole('Validity asked for; at least 600.', 'int32'),
          extra: mapOf(atomicList(text()), 'Set by the server.'),
          groups: atomicList(text(), 'Groups of the requester. Set by the server.'),
          request: bytes('PKCS#10 request in PEM, base64-encoded.'),
          signerName: text('Who is to sign.'),
          uid: text('UID of the requester. Set by the server.'),
          usages: atomicList(text(), 'Key usages asked for.'),
          username: text('Who asks. Set by the server.'),
        },
        'The request; it cannot be changed.',
        ['request', 'signerName'],
      ),
      status: fields(
        {
          certificate: bytes('The certificate chain in PEM, base64-encoded.'),
          conditions: listMap(condition({ lastUpdateTime: time() }), ['type'], 'Approved, Denied, Failed.'),
        },
        'Approval and certificate.',
      ),
    },
    ['spec'],
  ),
  empty: { spec: { request: null, signerName: '' }, status: {} },
  subresources: ['status', 'approval'],
  columns: [
    NAME,
    AGE,
    column('SignerName', 'Who is to sign.'),
    column('Requestor', 'Who asks.'),
    column('RequestedDuration', 'Validity asked for.'),
    column('Condition', 'Approval state.'),
  ],
  cells(object, now) {
    const seconds = numberAt(object, 'spec', 'expirationSeconds');
    return [
      textAt(object, 'metadata', 'name') ?? '',
      ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
      textAt(object, 'spec', 'signerName') || '<none>',
      textAt(object, 'spec', 'username') ?? '',
      seconds === undefined ? '<none>' : humanDuration(seconds * 1000),
      statusOf(object),
    ];
  },
  strategy: {
    statusFields: ['status'],
    prepareCreate(object, user) {
      const spec = objectAt(object, 'spec');
      put(spec, 'username', user.name);
      put(spec, 'groups', [...user.groups]);
      put(spec, 'uid', user.uid);
      object['spec'] = spec;
      object['status'] = {};
    },
    prepareUpdate,
    validate,
    selectableNames: ['spec.signerName'],
    selectable: (object) => ({ 'spec.signerName': textAt(object, 'spec', 'signerName') ?? '' }),
  },
};
