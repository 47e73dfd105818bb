// Logical clusters in a server of the package.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { ApiServer, Cluster } from '../index.mjs';
import { NAMESPACE, ask } from '../support/client.mjs';

let server;

before(async () => {
  server = await ApiServer.start({ flags: ['--logical-clusters'] });
});

after(() => server.stop());

test('each has objects of its own', async () => {
  const [first, second] = await Promise.all([server.cluster(), server.cluster()]);
  assert.ok(first instanceof Cluster);
  assert.notEqual(first.name, second.name);
  assert.equal(await ask(first, '/api/v1/namespaces', { body: NAMESPACE }), 201);
  for (const other of [second, server]) assert.equal(await ask(other, '/api/v1/namespaces/mine'), 404);
  assert.equal(await ask(second, '/api/v1/namespaces', { body: NAMESPACE }), 201);
  await Promise.all([first.delete(), second.delete()]);
});

test('tells what clients need', async () => {
  const cluster = await server.cluster('what-clients-need');
  assert.equal(cluster.url, `${server.url}/clusters/what-clients-need`);
  assert.equal(await ask(cluster, '/api/v1/secrets', { token: 'other' }), 401);
  assert.ok(cluster.kubeconfig.includes(`server: ${cluster.url}`));
  assert.match(cluster.kubeconfig, /client-certificate-data/);
  assert.equal(readFileSync(cluster.kubeconfigPath, 'utf8'), cluster.kubeconfig);
  assert.equal(statSync(cluster.kubeconfigPath).mode & 0o777, 0o600);
  assert.equal(readFileSync(cluster.caPath, 'utf8'), cluster.ca);
  await cluster.delete();
  assert.ok(!existsSync(cluster.kubeconfigPath));
});

test('the name is free after the deletion', async () => {
  for (let time = 0; time < 3; time++) {
    const cluster = await server.cluster('again');
    assert.equal(await ask(cluster, '/api/v1/namespaces', { body: NAMESPACE }), 201);
    await cluster[Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]();
    assert.equal(await ask(server, '/clusters/again/api'), 404);
  }
});

test('a second cluster of a name is an error', async () => {
  const cluster = await server.cluster('taken');
  await assert.rejects(server.cluster('taken'), /cannot create the logical cluster taken: .*"taken" already exists/);
  assert.equal(await ask(cluster, '/api/v1/namespaces'), 200);
  await cluster.delete();
});

test('no other cluster of the name is deleted', async () => {
  const first = await server.cluster('reused');
  await first.delete();
  const second = await server.cluster('reused');
  await first.delete();
  assert.equal(await ask(second, '/api/v1/namespaces'), 200);
  assert.ok(existsSync(second.kubeconfigPath));
  await second.delete();
});

test('invalid names are errors', async () => {
  for (const name of ['', 'No-Label', 'a.b', 'a'.repeat(64), '../other']) {
    await assert.rejects(server.cluster(name), /cannot create .*metadata\.name/, name);
  }
});

test('many at once', async () => {
  const clusters = await Promise.all(Array.from({ length: 20 }, () => server.cluster()));
  for (const cluster of clusters) assert.equal(await ask(cluster, '/api/v1/namespaces', { body: NAMESPACE }), 201);
  await Promise.all(clusters.map((cluster) => cluster.delete()));
});

test('the server needs the flag', async () => {
  const plain = await ApiServer.start();
  await assert.rejects(plain.cluster(), /start it with the flag --logical-clusters/);
  await plain.stop();
  await assert.rejects(plain.cluster(), /the server does not run/);
});

test('a cluster ends with its server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'clusters-'));
  try {
    const host = await ApiServer.start({ flags: ['--logical-clusters=true'], environment: { TMPDIR: folder } });
    const cluster = await host.cluster();
    await host.stop();
    assert.deepEqual(readdirSync(folder), []);
    await cluster.delete();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
