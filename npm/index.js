// A Kubernetes API server for each test, from the program kube-apiserver of Binnacle.

'use strict';

const { spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { delimiter, join } = require('node:path');

const PROGRAM_VARIABLE = 'BINNACLE_KUBE_APISERVER';
// How long a start may take, on a machine that does much else.
const PATIENCE_MS = 60_000;
// A flag that says which admission plugins are enabled or disabled.
const PLUGIN_FLAG = /^--(en|dis)able-admission-plugins/;
// How much of a log an error shows.
const SHOWN = 2048;

const running = new Set();
// A process that ends without having stopped its servers takes them and their files along; one that is killed leaves the files.
process.on('exit', () => running.forEach((server) => server.abandon()));

class ApiServer {
  #process;
  #ended;
  #folder;

  static async start({ flags = [], program, environment = {} } = {}) {
    const server = new ApiServer();
    try {
      await server.#launch(program ?? findProgram(), flags, environment);
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  async #launch(program, flags, environment) {
    // Made for the owner only.
    const folder = mkdtempSync(join(tmpdir(), 'binnacle-testing-'));
    this.#folder = folder;
    running.add(this);
    this.token = randomBytes(16).toString('hex');
    const [tokens, data, log] = ['tokens', 'data', 'log'].map((name) => join(folder, name));
    writeFileSync(tokens, `${this.token},admin,admin,system:masters\n`);
    const given = ['--ephemeral', `--data-dir=${data}`, '--bind-address=127.0.0.1', '--secure-port=0', '--stop-with-stdin'];
    if (!flags.some((flag) => PLUGIN_FLAG.test(flag))) given.push('--disable-admission-plugins=ServiceAccount');
    const file = openSync(log, 'w');
    const child = spawn(program, [...given, `--token-auth-file=${tokens}`, ...flags], {
      stdio: ['pipe', 'pipe', file],
      env: { ...process.env, TMPDIR: folder, ...environment },
    });
    closeSync(file);
    this.#process = child;
    this.#ended = new Promise((resolve) => {
      child.once('close', resolve);
      child.once('error', resolve);
    });
    this.url = await this.#printedUrl(child, program);
    this.kubeconfigPath = join(data, 'admin.kubeconfig');
    this.caPath = join(data, 'pki', 'ca.crt');
    this.kubeconfig = readFileSync(this.kubeconfigPath, 'utf8');
    this.ca = readFileSync(this.caPath, 'utf8');
    this.pid = child.pid;
  }

  #printedUrl(child, program) {
    return new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`${program} did not start: ${this.log().slice(-SHOWN).trimEnd()}`));
      const timer = setTimeout(failed, PATIENCE_MS);
      let out = '';
      child.stdout.setEncoding('utf8');
      // Read on behind the URL, so that the pipe never fills.
      child.stdout.on('data', (text) => {
        out = (out + text).slice(-SHOWN);
        const url = /(https:\/\/\S+)\n/.exec(out);
        if (url) {
          clearTimeout(timer);
          resolve(url[1]);
        }
      });
      child.once('error', (error) => {
        clearTimeout(timer);
        reject(new Error(`cannot run ${program}: ${error.message}`));
      });
      child.once('close', () => {
        clearTimeout(timer);
        failed();
      });
    });
  }

  log() {
    return this.#folder ? readFileSync(join(this.#folder, 'log'), 'utf8') : '';
  }

  async stop() {
    // A server that keeps nothing loses nothing by that.
    this.#process?.kill('SIGKILL');
    await this.#ended;
    this.abandon();
  }

  /** The same without waiting for the end. */
  abandon() {
    running.delete(this);
    this.#process?.kill('SIGKILL');
    if (this.#folder) rmSync(this.#folder, { recursive: true, force: true });
    this.#process = this.#ended = this.#folder = undefined;
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop();
  }
}

function findProgram() {
  const named = process.env[PROGRAM_VARIABLE];
  if (named) return named;
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  const bundled = join(__dirname, 'bin');
  const found = [bundled, ...folders].map((folder) => join(folder, 'kube-apiserver')).find((path) => existsSync(path));
  if (!found) throw new Error(`there is no kube-apiserver in PATH; ${PROGRAM_VARIABLE} can name one`);
  return found;
}

module.exports = { ApiServer, findProgram };
