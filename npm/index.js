// A Kubernetes API server for each test, from the program kube-apiserver of Binnacle.

'use strict';

const { spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { closeSync, existsSync, openSync, readFileSync, rmSync, unlinkSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { delimiter, dirname, join } = require('node:path');

const { Cluster, Clusters } = require('./cluster.js');

const PROGRAM_VARIABLE = 'BINNACLE_KUBE_APISERVER';
// The time limit of a start, on a busy machine.
const PATIENCE_MS = 60_000;
// The time limit of a graceful stop, which takes milliseconds unless a request or a flag delays it.
const STOP_MS = 5_000;
// The number of characters of a log that an error shows.
const SHOWN = 2048;
// The admission plugin that is disabled unless a flag enables it.
const SERVICE_ACCOUNT = 'ServiceAccount';
// The flag that selects controllers; all run unless it is used.
const CONTROLLERS = '--run-controllers';
// The file in the command line of kubectl that the server prints: the kubeconfig, or what replaces it with --client-ca-file.
const GREETING = /(https:\/\/\S+)\n[^]*^Try: kubectl .*--(?:kubeconfig|certificate-authority) ('(?:[^']|'\\'')*'|\S+).*\n/m;

class ApiServer {
  #process;
  #ended;
  #log;
  #clusters;

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
    this.token = randomBytes(16).toString('hex');
    const [log, tokens] = ['log', 'tokens'].map((suffix) => join(tmpdir(), `binnacle-testing-${randomBytes(16).toString('hex')}.${suffix}`));
    // A file without a name: nothing remains of it, however this process ends.
    this.#log = openSync(log, 'wx+', 0o600);
    unlinkSync(log);
    writeFileSync(tokens, `${this.token},admin,admin,system:masters\n`, { flag: 'wx', mode: 0o600 });
    try {
      const child = spawn(program, [...ownFlags(flags), `--token-auth-file=${tokens}`, ...flags], {
        stdio: ['pipe', 'pipe', this.#log],
        env: { ...process.env, ...environment },
      });
      this.#process = child;
      this.#ended = new Promise((resolve) => {
        child.once('close', resolve);
        child.once('error', resolve);
      });
      // The server may end before its input does.
      child.stdin?.on('error', () => {});
      const { url, folder } = await this.#greeting(child, program);
      this.url = url;
      this.kubeconfigPath = join(folder, 'admin.kubeconfig');
      this.caPath = join(folder, 'pki', 'ca.crt');
      this.kubeconfig = readFileSync(this.kubeconfigPath, 'utf8');
      this.ca = readFileSync(this.caPath, 'utf8');
      this.pid = child.pid;
      this.#clusters = new Clusters(this, folder, flags);
    } finally {
      // The server has read it when it is ready.
      rmSync(tokens, { force: true });
    }
  }

  /** The address of the server and the folder of its files, as it prints them when it is ready. */
  #greeting(child, program) {
    return new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`${program} did not start: ${this.log().slice(-SHOWN).trimEnd()}`));
      const timer = setTimeout(failed, PATIENCE_MS);
      let out = '';
      child.stdout?.setEncoding('utf8');
      // Read on after the greeting, so that the pipe never fills.
      child.stdout?.on('data', (text) => {
        out = (out + text).slice(-2 * SHOWN);
        const found = GREETING.exec(out);
        if (found) {
          clearTimeout(timer);
          resolve({ url: found[1], folder: dirname(unquoted(found[2])) });
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

  async cluster(name) {
    if (!this.#clusters) throw new Error('the server does not run');
    return this.#clusters.create(name);
  }

  log() {
    // Opened once more: the server writes at the position that both processes share.
    return this.#log === undefined ? '' : readFileSync(`/proc/self/fd/${this.#log}`, 'utf8');
  }

  async stop() {
    this.#clusters?.close();
    const child = this.#process;
    if (child) {
      // The server stops when its standard input ends, and removes its files.
      child.stdin?.end();
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await this.#ended;
      clearTimeout(timer);
    }
    if (this.#log !== undefined) closeSync(this.#log);
    this.#process = this.#ended = this.#log = this.#clusters = undefined;
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop();
  }
}

function findProgram() {
  const named = process.env[PROGRAM_VARIABLE];
  if (named) return named;
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  const all = [join(__dirname, 'bin'), ...platformFolder(), ...folders];
  const found = all.map((folder) => join(folder, 'kube-apiserver')).find((path) => existsSync(path));
  if (!found) throw new Error(`there is no kube-apiserver in PATH; ${PROGRAM_VARIABLE} can name one`);
  return found;
}

/** The folder with the program in the optional package for this processor. */
function platformFolder() {
  try {
    return [join(dirname(require.resolve(`binnacle-testing-linux-${process.arch}/package.json`)), 'bin')];
  } catch {
    return [];
  }
}

/** The flags of every server. Lists of plugins in other flags are added to these. */
function ownFlags(flags) {
  const own = ['--ephemeral', '--stop-with-stdin', '--bind-address=127.0.0.1', '--secure-port=0'];
  // One word per value, also where a value follows its flag.
  const words = flags.flatMap((flag) => flag.replaceAll('_', '-').split(/[=,]/));
  if (!words.includes(CONTROLLERS)) {
    own.push(`${CONTROLLERS}=*`);
  } else if (!words.includes(SERVICE_ACCOUNT) && !words.includes('--admission-control')) {
    own.push(`--disable-admission-plugins=${SERVICE_ACCOUNT}`);
  }
  return own;
}

/** A word of a shell's command line as it was before it was quoted. */
function unquoted(word) {
  return word.startsWith("'") ? word.slice(1, -1).replaceAll("'\\''", "'") : word;
}

module.exports = { ApiServer, Cluster, findProgram };
