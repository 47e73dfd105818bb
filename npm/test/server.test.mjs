// The package with the program that the environment names.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

import { ApiServer } from '../index.mjs';
import { NAMESPACE, ask } from '../support/client.mjs';

test('tells what clients need', async () => {
  const server = await ApiServer.start({ flags: ['--v=2'] });
  assert.equal(await ask(server, '/api/v1/secrets'), 200);
  assert.equal(await ask(server, '/api/v1/secrets', { token: 'other' }), 401);
  assert.match(server.kubeconfig, /client-certificate-data/);
  const folder = dirname(server.kubeconfigPath);
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

test('takes pods with and without controllers', async () => {
  for (const [flags, status] of [
    [[], 201],
    [['--enable-admission-plugins=PodNodeSelector'], 201],
    [['--run-controllers='], 201],
    [['--run-controllers=', '--disable-admission-plugins=Priority'], 201],
    [['--run-controllers', 'namespace', '--enable-admission-plugins=ServiceAccount'], 403],
    [['--run-controllers=', '--admission-control=NamespaceLifecycle,ServiceAccount'], 403],
  ]) {
    const server = await ApiServer.start({ flags });
    assert.equal(await ask(server, PODS, { body: POD }), status, String(flags));
    await server.stop();
  }
});

const SCRIPT = `require('..').ApiServer.start().then((server) => console.log(server.pid));
  setInterval(() => {}, 1000);`;

for (const signal of ['SIGKILL', 'SIGTERM']) {
  test(`ends with its process after ${signal}`, async () => {
    // Everything that both processes write is in this folder.
    const folder = mkdtempSync(join(tmpdir(), "it's a folder "));
    try {
      const cwd = new URL('.', import.meta.url).pathname;
      const child = spawn(process.execPath, ['-e', SCRIPT], { cwd, env: { ...process.env, TMPDIR: folder } });
      const pid = await new Promise((resolve) => child.stdout.once('data', (text) => resolve(String(text).trim())));
      assert.ok(existsSync(`/proc/${pid}`));
      assert.equal(readdirSync(folder).length, 1);
      child.kill(signal);
      while (existsSync(`/proc/${pid}`)) await new Promise((resolve) => setTimeout(resolve, 20));
      assert.deepEqual(readdirSync(folder), []);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

test('is there for require() too', () => {
  const required = createRequire(import.meta.url)('..');
  assert.equal(required.ApiServer, ApiServer);
});
