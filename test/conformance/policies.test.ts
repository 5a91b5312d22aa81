/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import type { JsonObject } from '../../src/api/wire.ts';
import type { Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const GROUP = '/apis/admissionregistration.k8s.io/v1';
const OPERATIONS = ['CREATE', 'UPDATE', 'DELETE'];

interface More {
  readonly resources?: readonly string[];
  readonly group?: string;
  readonly operations?: readonly string[];
  readonly spec?: JsonObject;
}

const policy = (
  scene: Scene,
  name: string,
  validations: JsonObject[],
  { resources = ['configmaps'], group = '', operations = OPERATIONS, spec = {} }: More = {},
): JsonObject => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicy',
  metadata: { name: `${scene.ns}-${name}` },
  spec: {
    matchConstraints: {
      resourceRules: [{ apiGroups: [group], apiVersions: ['*'], operations: [...operations], resources: [...resources] }],
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': scene.ns } },
    },
    validations,
    ...spec,
  },
});
const binding = (scene: Scene, name: string, actions: string[] = ['Deny']): JsonObject => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicyBinding',
  metadata: { name: `${scene.ns}-${name}` },
  spec: { policyName: `${scene.ns}-${name}`, validationActions: actions },
});

/** Makes a policy and waits until it is in force: on a real server it is read from a cache, so a probe that it refuses is asked for. */
async function enforce(scene: Scene, name: string, validations: JsonObject[], more: More & { actions?: string[] } = {}): Promise<void> {
  const probing = `${name}-probe`;
  const { status, body } = await scene.unrecorded.create(`${GROUP}/validatingadmissionpolicies`, policy(scene, name, validations, more));
  if (status !== 201) throw new Error(JSON.stringify(body));
  await scene.unrecorded.create(`${GROUP}/validatingadmissionpolicybindings`, binding(scene, name, more.actions));
  const probe = policy(scene, probing, [{ expression: "object.metadata.name != 'probe'", message: 'probe' }], { operations: ['CREATE'] });
  await scene.unrecorded.create(`${GROUP}/validatingadmissionpolicies`, probe);
  await scene.unrecorded.create(`${GROUP}/validatingadmissionpolicybindings`, binding(scene, probing));
  await scene.until('the policy is in force', async () => {
    const answer = await scene.unrecorded.create(scene.in('configmaps'), configMap('probe'), { dryRun: 'All' });
    // Of the two the one that was made later, or the other.
    return answer.status !== 201 && JSON.stringify(answer.body).includes(`ValidatingAdmissionPolicy '${scene.ns}-`);
  });
}

async function end(scene: Scene, ...names: string[]): Promise<void> {
  for (const name of names.flatMap((each) => [each, `${each}-probe`])) {
    await scene.unrecorded.remove(`${GROUP}/validatingadmissionpolicybindings/${scene.ns}-${name}`);
    await scene.unrecorded.remove(`${GROUP}/validatingadmissionpolicies/${scene.ns}-${name}`);
  }
}

conformance('policies', { prepare: defineWidgets }, (it) => {
  it('a policy admits what its validations allow, and refuses the rest in their words', async (scene) => {
    await enforce(
      scene,
      'p',
      [
        { expression: 'variables.n < 3', messageExpression: "'too many: ' + string(variables.n)", reason: 'Forbidden' },
        { expression: "object == null || object.data.a == 'x'", message: 'a is not x' },
        { expression: "object == null || !has(object.data.b) || object.data.b == 'y'" },
      ],
      { spec: { variables: [{ name: 'n', expression: 'object == null || !has(object.data) ? 0 : object.data.size()' }] } },
    );
    const make = (data: JsonObject) => scene.api.create(scene.in('configmaps'), configMap('c', data), { dryRun: 'All' });
    expect((await make({ a: 'x' })).status).toBe(201);
    expect((await make({ a: 'y' })).status).toBe(422);
    expect((await make({ a: 'x', b: 'z' })).status).toBe(422);
    expect((await make({ a: 'x', b: 'y', c: '', d: '' })).status).toBe(403);
    expect((await make({ b: 'y' })).status).toBe(422);
    await scene.unrecorded.create(scene.in('configmaps'), configMap('c', { a: 'x' }));
    expect((await scene.api.merge(scene.in('configmaps', 'c'), { data: { a: 'z' } })).status).toBe(422);
    await scene.api.apply(scene.in('configmaps', 'c'), { apiVersion: 'v1', kind: 'ConfigMap', data: { b: 'z' } }, 'm');
    expect((await scene.unrecorded.remove(scene.in('configmaps', 'c'))).status).toBe(200);
    await end(scene, 'p');
  });

  it('it knows the request: who, what, how, and what was there before', async (scene) => {
    await enforce(
      scene,
      'p',
      [
        {
          expression: 'request.userInfo.username != request.userInfo.username',
          messageExpression:
            "request.operation + ' ' + request.resource.group + '/' + request.resource.version + '/' + request.resource.resource + '/' + request.?subResource.orValue('-') + ' ' + request.namespace + '/' + request.name + ' ' + request.kind.kind + ' by ' + request.userInfo.username + ' of ' + string('system:authenticated' in request.userInfo.groups) + ' old ' + (oldObject == null ? 'none' : oldObject.metadata.name) + ' new ' + (object == null ? 'none' : object.metadata.name) + ' dry ' + string(request.?dryRun.orValue(false))",
        },
      ],
      { resources: ['widgets', 'widgets/status'], group: 'example.io' },
    );
    const me = { headers: { 'impersonate-user': `${scene.ns}-me`, 'impersonate-group': 'system:masters' } };
    await scene.api.send('POST', scene.in(WIDGET), widget('w'), 'application/json', me);
    await end(scene, 'p');
    await scene.until(
      'the first policy is gone',
      async () => (await scene.unrecorded.create(scene.in(WIDGET), widget('w'))).status === 201,
    );
    await enforce(
      scene,
      'q',
      [
        {
          expression: 'false',
          messageExpression:
            "request.operation + ' ' + request.resource.resource + '/' + request.?subResource.orValue('-') + ' old ' + (oldObject == null ? 'none' : oldObject.metadata.name) + ' new ' + (object == null ? 'none' : object.metadata.name)",
        },
      ],
      { resources: ['widgets', 'widgets/status'], group: 'example.io' },
    );
    await scene.api.merge(scene.in(WIDGET, 'w'), { spec: { color: 'blue' } });
    await scene.api.merge(scene.in(WIDGET, 'w', 'status'), { status: { replicas: 1 } });
    await scene.api.remove(scene.in(WIDGET, 'w'));
    await scene.api.remove(scene.in(WIDGET));
    await end(scene, 'q');
  });

  it('it knows by which name a request writes, where the request has one', async (scene) => {
    await enforce(
      scene,
      'p',
      [
        {
          expression: "request.?options.?fieldManager.orValue('') != 'bad'",
          messageExpression: "'not as ' + request.options.fieldManager",
        },
      ],
      { operations: ['CREATE', 'UPDATE'] },
    );
    const map = scene.in('configmaps', 'c');
    const write = { ...configMap('c'), data: { a: 'x' } };
    const dryRun = { dryRun: 'All' };
    const make = async (query: Record<string, string>) =>
      (await scene.api.create(scene.in('configmaps'), configMap('c'), { ...dryRun, ...query })).status;
    expect([await make({ fieldManager: 'bad' }), await make({ fieldManager: 'good' }), await make({})]).toEqual([422, 201, 201]);
    for (const [manager, status] of [
      ['bad', 422],
      ['good', 201],
    ] as const)
      expect((await scene.api.apply(map, write, manager, dryRun)).status).toBe(status);
    await end(scene, 'p');
  });

  it('conditions choose what is judged', async (scene) => {
    await enforce(scene, 'p', [{ expression: 'false', message: 'no' }], {
      spec: {
        matchConditions: [
          { name: 'a', expression: "request.userInfo.username != 'nobody'" },
          { name: 'b', expression: "object.metadata.name.startsWith('bad')" },
        ],
      },
      operations: ['CREATE'],
    });
    expect((await scene.api.create(scene.in('configmaps'), configMap('good'), { dryRun: 'All' })).status).toBe(201);
    expect((await scene.api.create(scene.in('configmaps'), configMap('bad'), { dryRun: 'All' })).status).toBe(422);
    await end(scene, 'p');
  });

  it('what cannot be evaluated is refused, or let in where failures are ignored', async (scene) => {
    await enforce(scene, 'p', [{ expression: "object.data.none == 'x'" }], { operations: ['CREATE'] });
    expect((await scene.api.create(scene.in('configmaps'), configMap('c', { a: '1' }), { dryRun: 'All' })).status).toBe(422);
    await end(scene, 'p');
    await enforce(scene, 'q', [{ expression: "object.data.none == 'x'" }], { operations: ['CREATE'], spec: { failurePolicy: 'Ignore' } });
    await scene.until('the first policy is gone', async () => {
      const { status } = await scene.unrecorded.create(scene.in('configmaps'), configMap('c', { a: '1' }), { dryRun: 'All' });
      return status === 201;
    });
    expect((await scene.api.create(scene.in('configmaps'), configMap('c', { a: '1' }), { dryRun: 'All' })).status).toBe(201);
    await end(scene, 'q');
  });

  it('a binding may only warn', async (scene) => {
    await enforce(scene, 'p', [{ expression: "object.metadata.name != 'w'", message: 'not so good' }], {
      operations: ['CREATE'],
      actions: ['Warn'],
    });
    expect((await scene.api.create(scene.in('configmaps'), configMap('w'), { dryRun: 'All' })).status).toBe(201);
    await end(scene, 'p');
  });

  it('subresources with handlers of their own are judged, too', async (scene) => {
    await scene.unrecorded.create(scene.in('serviceaccounts'), { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'bot' } });
    await enforce(
      scene,
      'p',
      [
        {
          expression: "request.name != 'bot'",
          messageExpression: "request.resource.resource + '/' + request.?subResource.orValue('-')",
          reason: 'Forbidden',
        },
      ],
      {
        resources: ['serviceaccounts/token', 'pods/eviction'],
        operations: ['CREATE'],
      },
    );
    const asked = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
    expect((await scene.api.create(scene.in('serviceaccounts', 'bot', 'token'), asked)).status).toBe(403);
    await end(scene, 'p');
  });

  it('a policy is checked, and completed', async (scene) => {
    const make = (object: JsonObject) => scene.unrecorded.create(`${GROUP}/validatingadmissionpolicies`, object, { dryRun: 'All' });
    const good = await make(policy(scene, 'g', [{ expression: 'true' }]));
    scene.see('its spec', good.body['spec'] ?? null);
    for (const bad of [
      policy(scene, 'b', []),
      policy(scene, 'b', [{ expression: '' }]),
      policy(scene, 'b', [{ expression: 'object.' }]),
      policy(scene, 'b', [{ expression: "'text'" }]),
      policy(scene, 'b', [{ expression: 'nobody == 1' }]),
      policy(scene, 'b', [{ expression: 'true', reason: 'Because' }]),
      policy(scene, 'b', [{ expression: 'true', messageExpression: '1' }]),
      policy(scene, 'b', [{ expression: 'true' }], { operations: ['READ'] }),
      policy(scene, 'b', [{ expression: 'true' }], { spec: { failurePolicy: 'Maybe' } }),
    ]) {
      const { status, body } = await make(bad);
      scene.see('refused', [
        status,
        (body['details'] as { causes?: { field: string }[] } | undefined)?.causes?.map(({ field }) => field) ?? null,
      ]);
    }
    const bind = await scene.unrecorded.create(`${GROUP}/validatingadmissionpolicybindings`, binding(scene, 'x', []), { dryRun: 'All' });
    scene.see('a binding without actions', bind.status);
  });
});
