// Logical clusters: isolated Kubernetes APIs in the process of one server.

'use strict';

const { mkdirSync, rmSync, writeFileSync } = require('node:fs');
const { Agent, request } = require('node:https');
const { join } = require('node:path');
const { createInterface } = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');

// The flag of servers that host clusters.
const FLAG = '--logical-clusters';
const RESOURCE = '/apis/binnacle.dev/v1alpha1/logicalclusters';
// The beginning of generated names.
const PREFIX = 'test-';
// The time limit of a request, on a busy machine.
const PATIENCE_MS = 60_000;
// The time limit for the resource, which a server installs after it is ready.
const INSTALL_MS = 30_000;
const INSTALL_POLL_MS = 5;
// The time after which an unused connection is closed, before the server closes it.
const IDLE_MS = 5_000;

/** The clusters of a server. */
class Clusters {
  #server;
  #folder;
  /** True if the server will certainly have the resource. */
  #isHost;
  #agent;

  constructor(server, folder, flags) {
    this.#server = server;
    this.#folder = folder;
    this.#isHost = flags.some((flag) => flag.replaceAll('_', '-').split('=')[0] === FLAG);
    this.#agent = new Agent({ keepAlive: true, timeout: IDLE_MS, ca: server.ca });
  }

  /** Creates a cluster, a fork if `source` is the name of another one. */
  async create(name, source) {
    const what = `cannot create ${name === undefined ? 'a logical cluster' : `the logical cluster ${name}`}`;
    return failing(what, async () => {
      const created = await this.#post(name, source);
      try {
        const ready = await this.#watch(created, (_, { status }) => ['Ready', 'Failed'].includes(status?.phase));
        if (ready.status.phase !== 'Ready') throw new Error(ready.status.message);
        return new Cluster(this, this.#server, ready, this.#write(ready, await this.#kubeconfig(ready)));
      } catch (error) {
        await this.#remove(created.metadata);
        throw error;
      }
    });
  }

  async delete({ name, uid, path }) {
    // Nothing is left of a cluster whose server has stopped.
    if (!this.#agent) return;
    await failing(`cannot delete the logical cluster ${name}`, async () => {
      if (await this.#remove({ name, uid })) rmSync(path, { force: true });
    });
  }

  close() {
    this.#agent?.destroy();
    this.#agent = undefined;
  }

  async #post(name, source) {
    const metadata = name === undefined ? { generateName: PREFIX } : { name };
    const spec = source === undefined ? {} : { source: { cluster: source } };
    const body = { apiVersion: 'binnacle.dev/v1alpha1', kind: 'LogicalCluster', metadata, spec };
    const deadline = Date.now() + (this.#isHost ? INSTALL_MS : 0);
    for (;;) {
      try {
        return await this.#send('POST', RESOURCE, body);
      } catch (error) {
        // Without the resource, the path is unknown.
        if (error.code !== 404) throw error;
        if (Date.now() >= deadline) throw new Error(`the server hosts none: start it with the flag ${FLAG}`);
      }
      await sleep(INSTALL_POLL_MS);
    }
  }

  /** Deletes a cluster, and waits until it is gone. Returns false if another cluster has the name. */
  async #remove({ name, uid }) {
    let deleted;
    try {
      deleted = await this.#send('DELETE', `${RESOURCE}/${name}`, { preconditions: { uid } });
    } catch (error) {
      if (error.code === 404 || error.code === 409) return error.code === 404;
      throw error;
    }
    // It is a Status, if the cluster is gone already.
    if (deleted.kind !== 'Status') await this.#watch(deleted, (change) => change === 'DELETED');
    return true;
  }

  async #kubeconfig({ status }) {
    const [namespace, name] = status.kubeconfigSecret.split('/');
    const secret = await this.#send('GET', `/api/v1/namespaces/${namespace}/secrets/${name}`);
    return Buffer.from(secret.data.kubeconfig, 'base64').toString();
  }

  /** Writes a file that only its owner can read. */
  #write({ metadata }, kubeconfig) {
    const folder = join(this.#folder, 'clusters');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `${metadata.name}.kubeconfig`);
    writeFileSync(path, kubeconfig, { mode: 0o600 });
    return { kubeconfig, path };
  }

  /** Sends a request, and returns the object in the response. */
  async #send(method, path, body) {
    return JSON.parse(await textOf(await this.#open(method, path, body)));
  }

  /** Waits for a later version of a cluster for which `isLast` is true, and returns it. */
  async #watch({ metadata: { name, resourceVersion } }, isLast) {
    const options = new URLSearchParams({ watch: 'true', fieldSelector: `metadata.name=${name}`, resourceVersion });
    const response = await this.#open('GET', `${RESOURCE}?${options}`);
    try {
      for await (const line of createInterface({ input: response })) {
        const { type, object } = JSON.parse(line);
        if (type === 'ERROR') throw new Error(object.message);
        if (isLast(type, object)) return object;
      }
      throw new Error('the watch has ended');
    } finally {
      response.destroy();
    }
  }

  /** Sends a request, and returns a successful response. */
  #open(method, path, body) {
    return new Promise((resolve, reject) => {
      const data = body === undefined ? '' : JSON.stringify(body);
      const headers = {
        authorization: `Bearer ${this.#server.token}`,
        'content-type': 'application/json',
        // Node sets none for a DELETE.
        'content-length': Buffer.byteLength(data),
      };
      const sent = request(this.#server.url + path, { method, headers, agent: this.#agent, timeout: PATIENCE_MS });
      sent.once('timeout', () => sent.destroy(new Error('the server does not answer')));
      sent.once('error', reject);
      sent.once('response', (response) => {
        if (response.statusCode < 300) return resolve(response);
        const code = response.statusCode;
        textOf(response).then((text) => reject(Object.assign(new Error(messageIn(text, code)), { code })), reject);
      });
      sent.end(data);
    });
  }
}

/** A Kubernetes API of its own in the process of a server. */
class Cluster {
  #clusters;
  #uid;

  constructor(clusters, server, { metadata, status }, { kubeconfig, path }) {
    this.#clusters = clusters;
    this.#uid = metadata.uid;
    this.name = metadata.name;
    this.url = status.url;
    this.kubeconfig = kubeconfig;
    this.kubeconfigPath = path;
    this.ca = server.ca;
    this.caPath = server.caPath;
    this.token = server.token;
  }

  async fork(name) {
    return this.#clusters.create(name, this.name);
  }

  async delete() {
    await this.#clusters.delete({ name: this.name, uid: this.#uid, path: this.kubeconfigPath });
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.delete();
  }
}

async function textOf(response) {
  let text = '';
  for await (const part of response.setEncoding('utf8')) text += part;
  return text;
}

/** The message of a Status, or the code and the text of another response. */
function messageIn(text, code) {
  try {
    return JSON.parse(text).message;
  } catch {
    return `status ${code} ${text}`.trimEnd();
  }
}

/** Adds what failed to the errors of a function. */
async function failing(what, call) {
  try {
    return await call();
  } catch (error) {
    throw new Error(`${what}: ${error.message}`, { cause: error });
  }
}

module.exports = { Cluster, Clusters };
