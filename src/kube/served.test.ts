import { describe, expect, test } from 'vitest';
import { CELL_KINDS } from '../api/kinds.ts';
import { Freezes } from '../api/freeze.ts';
import { Machines } from '../api/machine.ts';
import { createClient } from './http-client.ts';
import { troubleWithKinds } from './served.ts';
import { jsonResponse, statusResponse } from './testing/api-server.ts';

/** As kube-apiserver 1.34.4 gave it for `Machine` of kubenode.io/v1alpha1. */
const MACHINE_HASH = 'cBTNh8XtDZE=';

function serving(resources: object[] | undefined, versions: string[] = ['v1alpha1']) {
  return createClient((request) => {
    if (request.path === '/apis/kubenode.io/v1alpha1' && resources !== undefined) return Promise.resolve(jsonResponse(200, { resources }));
    if (request.path === '/apis/kubenode.io' && versions.length > 0)
      return Promise.resolve(
        jsonResponse(200, { versions: versions.map((version) => ({ version, groupVersion: `kubenode.io/${version}` })) }),
      );
    return Promise.resolve({ ...jsonResponse(404, {}), body: none() });
  });
}

async function* none(): AsyncGenerator<Uint8Array, void> {
  yield await Promise.resolve(Buffer.from('404 page not found\n'));
}

describe('the kinds of a server', () => {
  test('are good where they are kept in our version, or where the server does not report it', async () => {
    expect(await troubleWithKinds(serving([{ name: 'machines', storageVersionHash: MACHINE_HASH }]), [Machines])).toBeUndefined();
    expect(await troubleWithKinds(serving(CELL_KINDS.map(({ plural }) => ({ name: plural }))), CELL_KINDS)).toBeUndefined();
  });

  test('are absent', async () => {
    expect(await troubleWithKinds(serving(undefined, []), [Machines])).toEqual({
      reason: 'KindsAbsent',
      message: 'this API server has no kinds of kubenode.io',
    });
    expect(await troubleWithKinds(serving([{ name: 'machines' }]), [Machines, Freezes])).toEqual({
      reason: 'KindsAbsent',
      message: 'this API server does not serve freezes of kubenode.io/v1alpha1',
    });
  });

  test('are newer: kept in another version, or no longer served in ours', async () => {
    const kept = serving([{ name: 'machines', storageVersionHash: 'AAAAAAAAAAA=' }], ['v1beta1', 'v1alpha1']);
    expect(await troubleWithKinds(kept, [Machines])).toMatchObject({
      reason: 'KindsNewer',
      message: expect.stringContaining('machines of kubenode.io are kept in v1beta1; this KubeNode knows v1alpha1') as string,
    });
    expect(await troubleWithKinds(serving(undefined, ['v1']), [Machines])).toMatchObject({
      reason: 'KindsNewer',
      message: expect.stringContaining('has kubenode.io in v1 and no longer in v1alpha1') as string,
    });
  });

  test('are unknown where the server cannot be asked', async () => {
    const client = createClient(() => Promise.resolve(statusResponse(503, 'ServiceUnavailable')));
    await expect(troubleWithKinds(client, [Machines])).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
  });
});
