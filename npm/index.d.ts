/// <reference lib="esnext.disposable" />

/** The settings of a server before its start. */
export interface Options {
  /** More flags of kube-apiserver. */
  flags?: string[];
  /** The program, in place of the one that the environment names. */
  program?: string;
  /** More environment variables. */
  environment?: Record<string, string>;
}

/** A Kubernetes API server on a free port of 127.0.0.1 that keeps everything in memory. */
export class ApiServer implements AsyncDisposable {
  private constructor();
  /** Starts a server; resolves when it is ready. */
  static start(options?: Options): Promise<ApiServer>;
  /** The address, as in `https://127.0.0.1:41234`. */
  readonly url: string;
  /** A kubeconfig of an administrator (group `system:masters`), with certificates and key embedded. */
  readonly kubeconfig: string;
  /** The path of a file with `kubeconfig`. */
  readonly kubeconfigPath: string;
  /** The certificate of the authority that signed the server's certificate, as PEM. */
  readonly ca: string;
  /** The path of a file with `ca`. */
  readonly caPath: string;
  /** A bearer token of an administrator. */
  readonly token: string;
  /** The process ID. */
  readonly pid: number;
  /** Returns the server's log so far. */
  log(): string;
  /** Stops the server, which removes its files. It may be called again. */
  stop(): Promise<void>;
  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Returns the program: the one that the environment names, that of the package, or the first in `PATH`. */
export function findProgram(): string;
