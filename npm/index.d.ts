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
  /**
   * Creates a logical cluster; resolves when it is ready. Without a name, it gets a new one. The server must have the flag
   * `--logical-clusters`.
   */
  cluster(name?: string): Promise<Cluster>;
  /** Returns the server's log so far. */
  log(): string;
  /** Stops the server, which removes its files. It may be called again. */
  stop(): Promise<void>;
  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A Kubernetes API of its own in the process of a server. It ends with its server in any case. */
export class Cluster implements AsyncDisposable {
  private constructor();
  /** The name, which is a part of the URL. */
  readonly name: string;
  /** The address, as in `https://127.0.0.1:41234/clusters/NAME`. */
  readonly url: string;
  /** A kubeconfig of an administrator of this cluster alone, with certificates and key embedded. */
  readonly kubeconfig: string;
  /** The path of a file with `kubeconfig`, which is removed with the cluster. */
  readonly kubeconfigPath: string;
  /** The certificate of the authority that signed the server's certificate, as PEM. */
  readonly ca: string;
  /** The path of a file with `ca`. */
  readonly caPath: string;
  /** The server's bearer token: its user is an administrator of all clusters of the server. */
  readonly token: string;
  /**
   * Creates a cluster with the objects that this one has now; resolves when it is ready. Without a name, it gets a new one.
   * Both are independent afterwards, and what neither changes is stored once.
   */
  fork(name?: string): Promise<Cluster>;
  /** Deletes the cluster with all its objects; resolves when its name is free. It may be called again. */
  delete(): Promise<void>;
  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Returns the program: the one that the environment names, that of the package, or the first in `PATH`. */
export function findProgram(): string;
