/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { parse } from 'yaml';
import type { Json } from '../../src/api/wire.ts';
import { text } from '@kubenode/embedded/testing';
import type { Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

/** What is answered in YAML, as it is read. */
async function inYaml(scene: Scene, path: string): Promise<void> {
  const { status, headers, body } = await scene.unrecorded.get(path, {}, { accept: 'application/yaml' });
  const value = parse(text(body['text'])) as Json;
  scene.see(`GET ${path.replaceAll(scene.ns, '<ns>')} in YAML`, { status, type: headers['content-type'] ?? '', value });
}

conformance('forms', { prepare: defineWidgets }, (it) => {
  it('a field that is given twice is refused, warned of, or let pass, as is asked', async (scene) => {
    const twice = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","name":"e"},"data":{"a":"1","a":"2","a":"3"},"bogus":1}';
    for (const fieldValidation of ['Strict', 'Warn', 'Ignore', ''])
      await scene.api.send('POST', scene.in('configmaps'), twice, 'application/json', { query: { fieldValidation, dryRun: 'All' } });
    const custom = JSON.stringify(widget('w')).replace('"color":"red"', '"color":"blue","color":"red","parts":[{"name":"a","name":"b"}]');
    for (const fieldValidation of ['Strict', 'Warn', 'Ignore'])
      await scene.api.send('POST', scene.in(WIDGET), custom, 'application/json', { query: { fieldValidation, dryRun: 'All' } });
    await scene.unrecorded.create(scene.in('configmaps'), configMap('c', { a: '1' }));
    const put = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","a":"2"}}';
    expect(
      (await scene.api.send('PUT', scene.in('configmaps', 'c'), put, 'application/json', { query: { fieldValidation: 'Strict' } })).status,
    ).toBe(400);
  });

  it('so is one in a patch', async (scene) => {
    await scene.unrecorded.create(scene.in('configmaps'), configMap('c', { a: '1' }));
    await scene.unrecorded.create(scene.in(WIDGET), widget('w'));
    for (const type of ['application/merge-patch+json', 'application/strategic-merge-patch+json'])
      for (const fieldValidation of ['Warn', 'Ignore'])
        await scene.api.send('PATCH', scene.in('configmaps', 'c'), '{"data":{"a":"1","a":"2"}}', type, {
          query: { fieldValidation, dryRun: 'All' },
        });
    const strict = { query: { fieldValidation: 'Strict', dryRun: 'All' } };
    const { status } = await scene.unrecorded.send(
      'PATCH',
      scene.in('configmaps', 'c'),
      '{"data":{"a":"1","a":"2"}}',
      'application/merge-patch+json',
      strict,
    );
    scene.see('a merge patch, strictly', status);
    const custom = await scene.unrecorded.send(
      'PATCH',
      scene.in(WIDGET, 'w'),
      '{"spec":{"replicas":1,"replicas":2}}',
      'application/merge-patch+json',
      strict,
    );
    scene.see('of a custom object', custom.status);
  });

  it('objects, lists and refusals are answered in YAML to who asks for it', async (scene) => {
    await scene.unrecorded.create(
      scene.in('configmaps'),
      configMap('c', { text: 'a: b\n- c\n', number: '1', empty: '', long: 'x '.repeat(100) }),
    );
    await inYaml(scene, scene.in('configmaps', 'c'));
    await inYaml(scene, `/api/v1/namespaces/${scene.ns}`);
    await inYaml(scene, scene.in('configmaps', 'none'));
    const { body } = await scene.unrecorded.get(scene.in(WIDGET), {}, { accept: 'application/yaml' });
    scene.see('an empty list', (parse(text(body['text'])) as { items: Json }).items);
  });

  it('a watch is not spoken in YAML', async (scene) => {
    const { status } = await scene.unrecorded.get(
      scene.in('configmaps'),
      { watch: 'true', timeoutSeconds: '1' },
      { accept: 'application/yaml' },
    );
    scene.see('a watch', status);
    expect(status).toBe(406);
  });

  it('an unknown language is not accepted', async (scene) => {
    expect((await scene.unrecorded.get(scene.in('configmaps'), {}, { accept: 'text/html' })).status).toBe(406);
    scene.see('text/html', 406);
  });
});
