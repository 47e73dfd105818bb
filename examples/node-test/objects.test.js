// One server for the tests of this file, with nothing but Node's own modules.

import assert from 'node:assert/strict';
import { request } from 'node:https';
import { after, before, test } from 'node:test';
import { ApiServer } from 'binnacle-testing';

let server;

before(async () => {
  server = await ApiServer.start();
});

after(() => server.stop());

/** Sends a request as an administrator, and returns the status and the object of the response. */
function send(method, path, object) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' };
    const sent = request(server.url + path, { method, ca: server.ca, headers, agent: false }, async (response) => {
      let text = '';
      for await (const part of response.setEncoding('utf8')) text += part;
      resolve({ status: response.statusCode, object: JSON.parse(text) });
    });
    sent.once('error', reject);
    sent.end(object && JSON.stringify(object));
  });
}

test('creates pods', async () => {
  const pod = { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } };
  assert.equal((await send('POST', '/api/v1/namespaces/default/pods', pod)).status, 201);
  const { object } = await send('GET', '/api/v1/namespaces/default/pods/web');
  // No scheduler and no nodes run.
  assert.equal(object.status.phase, 'Pending');
});

test('rejects invalid objects', async () => {
  const { status, object } = await send('POST', '/api/v1/namespaces/default/configmaps', { metadata: { name: 'No Name' } });
  assert.equal(status, 422);
  assert.equal(object.reason, 'Invalid');
});
