import { describe, expect, it } from 'vitest';
import { requestInfo, segmentsOf } from './request-info.ts';

const read = (method: 'GET' | 'POST' | 'DELETE', path: string, query = {}) => {
  const info = requestInfo(method, segmentsOf(path), query);
  return info === undefined
    ? undefined
    : `${info.verb} ${info.group}/${info.version} ${info.plural} ns=${info.namespace} name=${info.name} sub=${info.subresource}`;
};

describe('a request path', () => {
  it.each([
    ['GET', '/api/v1/nodes', 'list /v1 nodes ns= name= sub='],
    ['GET', '/api/v1/nodes/n1', 'get /v1 nodes ns= name=n1 sub='],
    ['GET', '/api/v1/namespaces/web', 'get /v1 namespaces ns= name=web sub='],
    ['GET', '/api/v1/namespaces/web/status', 'get /v1 namespaces ns= name=web sub=status'],
    ['GET', '/api/v1/namespaces/web/pods', 'list /v1 pods ns=web name= sub='],
    ['POST', '/api/v1/namespaces/web/pods/p/eviction', 'create /v1 pods ns=web name=p sub=eviction'],
    ['DELETE', '/apis/kubenode.io/v1alpha1/namespaces/web/machines', 'deletecollection kubenode.io/v1alpha1 machines ns=web name= sub='],
    ['GET', '/apis/kubenode.io/v1alpha1/watch/machines', 'watch kubenode.io/v1alpha1 machines ns= name= sub='],
    ['GET', '/apis/g.io/v1/things/a%2Fb', 'get g.io/v1 things ns= name=a/b sub='],
  ] as const)('%s %s reads %s', (method, path, expected) => {
    expect(read(method, path)).toBe(expected);
  });

  it('is a watch only of collections', () => {
    expect(read('GET', '/api/v1/nodes', { watch: '1' })).toMatch(/^watch/);
    expect(read('GET', '/api/v1/nodes/n1', { watch: '1' })).toMatch(/^get/);
  });

  it.each(['/', '/api', '/api/v1', '/apis/g.io', '/apis/g.io/v1', '/healthz', '/api/v1/nodes/a/b/c'])('%s names no resource', (path) => {
    expect(read('GET', path)).toBeUndefined();
  });
});
