// Each file has a namespace of its own in the server of all files.

import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { beforeAll, expect, inject, test } from 'vitest';

let core, namespace;

beforeAll(async () => {
  const config = new KubeConfig();
  config.loadFromString(inject('kubeconfig'));
  core = config.makeApiClient(CoreV1Api);
  const created = await core.createNamespace({ body: { metadata: { generateName: 'test-' } } });
  namespace = created.metadata.name;
});

test('creates pods', async () => {
  const body = { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } };
  await core.createNamespacedPod({ namespace, body });
  const pod = await core.readNamespacedPod({ namespace, name: 'web' });
  // No scheduler and no nodes run.
  expect(pod.status.phase).toBe('Pending');
});

test('rejects invalid objects', async () => {
  const body = { metadata: { name: 'No Name' } };
  await expect(core.createNamespacedConfigMap({ namespace, body })).rejects.toMatchObject({ code: 422 });
});
