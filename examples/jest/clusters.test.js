// Each test has a Kubernetes API of its own. All are in the server of this file.

const { ApiServer } = require('binnacle-testing');
const { CoreV1Api, KubeConfig } = require('@kubernetes/client-node');

let server, cluster, core;

beforeAll(async () => {
  server = await ApiServer.start({ flags: ['--logical-clusters'] });
});

afterAll(() => server.stop());

beforeEach(async () => {
  cluster = await server.cluster();
  const config = new KubeConfig();
  config.loadFromString(cluster.kubeconfig);
  core = config.makeApiClient(CoreV1Api);
});

afterEach(() => cluster.delete());

test.each(['red', 'green'])('has objects of its own: %s', async (color) => {
  await core.createNamespace({ body: { metadata: { name: 'fleet' } } });
  await core.createNamespacedConfigMap({ namespace: 'fleet', body: { metadata: { name: 'settings' }, data: { color } } });
  const { data } = await core.readNamespacedConfigMap({ namespace: 'fleet', name: 'settings' });
  expect(data).toEqual({ color });
});

test('sees nothing of other tests', async () => {
  await expect(core.readNamespace({ name: 'fleet' })).rejects.toMatchObject({ code: 404 });
});
