// Each test has a Kubernetes API of its own. All are in the server of this file.

import assert from 'node:assert/strict';
import { request } from 'node:https';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { ApiServer } from 'binnacle-testing';

let server, cluster;

before(async () => {
  server = await ApiServer.start({ flags: ['--logical-clusters'] });
});

after(() => server.stop());

beforeEach(async () => {
  cluster = await server.cluster();
});

afterEach(() => cluster.delete());

/** Sends a request to the cluster as its administrator, and returns the status of the response. */
function send(method, path, object) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${cluster.token}`, 'content-type': 'application/json' };
    const sent = request(cluster.url + path, { method, ca: cluster.ca, headers, agent: false }, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode));
    });
    sent.once('error', reject);
    sent.end(object && JSON.stringify(object));
  });
}

for (const time of ['first', 'second']) {
  test(`has objects of its own: ${time} test`, async () => {
    assert.equal(await send('POST', '/api/v1/namespaces', { metadata: { name: 'fleet' } }), 201);
  });
}

test('sees nothing of other tests', async () => {
  assert.equal(await send('GET', '/api/v1/namespaces/fleet'), 404);
});
