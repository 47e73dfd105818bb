// One server for the tests of this file.

import assert from 'node:assert/strict';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { ApiServer } from 'binnacle-testing';

describe('objects', () => {
  let server, core;

  before(async () => {
    server = await ApiServer.start();
    const config = new KubeConfig();
    config.loadFromString(server.kubeconfig);
    core = config.makeApiClient(CoreV1Api);
  });

  after(() => server.stop());

  it('are created', async () => {
    const body = { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } };
    await core.createNamespacedPod({ namespace: 'default', body });
    const pod = await core.readNamespacedPod({ namespace: 'default', name: 'web' });
    // No scheduler and no nodes run.
    assert.equal(pod.status.phase, 'Pending');
  });

  it('are validated', async () => {
    const body = { metadata: { name: 'No Name' } };
    await assert.rejects(core.createNamespacedConfigMap({ namespace: 'default', body }), { code: 422 });
  });
});
