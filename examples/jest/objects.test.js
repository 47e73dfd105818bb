// One server for the tests of this file.

const { ApiServer } = require('binnacle-testing');
const { CoreV1Api, KubeConfig } = require('@kubernetes/client-node');

let server, core;

beforeAll(async () => {
  server = await ApiServer.start();
  const config = new KubeConfig();
  config.loadFromString(server.kubeconfig);
  core = config.makeApiClient(CoreV1Api);
});

afterAll(() => server.stop());

test('creates pods', async () => {
  const body = { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } };
  await core.createNamespacedPod({ namespace: 'default', body });
  const pod = await core.readNamespacedPod({ namespace: 'default', name: 'web' });
  expect(pod.spec.containers[0].image).toBe('nginx');
  // No scheduler and no nodes run.
  expect(pod.status.phase).toBe('Pending');
});

test('rejects invalid objects', async () => {
  const body = { metadata: { name: 'No Name' } };
  await expect(core.createNamespacedConfigMap({ namespace: 'default', body })).rejects.toMatchObject({ code: 422 });
});
