// The package with the program that the environment names.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { request } from 'node:https';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { test } from 'node:test';

import { ApiServer } from '../index.mjs';

const NAMESPACE = JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'mine' } });

/** The status of an answer. */
function ask(server, path, { token = server.token, body } = {}) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const options = { method: body ? 'POST' : 'GET', ca: server.ca, headers, agent: false };
    const sent = request(server.url + path, options, (answer) => {
      answer.resume();
      answer.once('end', () => resolve(answer.statusCode));
    });
    sent.once('error', reject);
    sent.end(body);
  });
}

test('tells what clients need', async () => {
  const server = await ApiServer.start({ flags: ['--v=2'] });
  assert.equal(await ask(server, '/api/v1/secrets'), 200);
  assert.equal(await ask(server, '/api/v1/secrets', { token: 'other' }), 401);
  assert.match(server.kubeconfig, /client-certificate-data/);
  const folder = dirname(dirname(server.kubeconfigPath));
  await server.stop();
  assert.ok(!existsSync(folder));
  assert.ok(!existsSync(`/proc/${server.pid}`));
  await server.stop();
});

test('many at once', async () => {
  const servers = await Promise.all(Array.from({ length: 10 }, () => ApiServer.start()));
  try {
    for (const server of servers) assert.equal(await ask(server, '/api/v1/namespaces', { body: NAMESPACE }), 201);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
});

test('tells why it does not start', async () => {
  await assert.rejects(ApiServer.start({ flags: ['--no-such-flag'] }), /did not start: .*no-such-flag/s);
  await assert.rejects(ApiServer.start({ program: '/nowhere' }), /cannot run \/nowhere/);
  await assert.rejects(ApiServer.start({ program: '/bin/true' }), /did not start/);
});

const POD = JSON.stringify({
  apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { containers: [{ name: 'c', image: 'i' }] },
});
const PODS = '/api/v1/namespaces/default/pods';

test('takes pods where no service accounts are', async () => {
  for (const [flags, status] of [[[], 201], [['--enable-admission-plugins=ServiceAccount'], 403]]) {
    const server = await ApiServer.start({ flags });
    assert.equal(await ask(server, PODS, { body: POD }), status);
    await server.stop();
  }
});

test('ends with a process that is killed', async () => {
  const script = `require('..').ApiServer.start().then((server) => console.log(server.pid, require('node:path').dirname(server.caPath)));
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['-e', script], { cwd: import.meta.dirname ?? new URL('.', import.meta.url).pathname });
  const [pid, folder] = await new Promise((resolve) => child.stdout.once('data', (text) => resolve(String(text).trim().split(' '))));
  assert.ok(existsSync(`/proc/${pid}`));
  child.kill('SIGKILL');
  while (existsSync(`/proc/${pid}`)) await new Promise((resolve) => setTimeout(resolve, 20));
  rmSync(dirname(dirname(folder)), { recursive: true });
});

test('is there for require() too', () => {
  const required = createRequire(import.meta.url)('..');
  assert.equal(required.ApiServer, ApiServer);
});
