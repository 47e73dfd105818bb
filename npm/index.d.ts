/** What a server is started with. */
export interface Options {
  /** More flags of kube-apiserver. */
  flags?: string[];
  /** Another program than the one that the environment names. */
  program?: string;
  /** More variables of its environment. */
  environment?: Record<string, string>;
}

/** A Kubernetes API server on a free port of 127.0.0.1 that keeps everything in memory. */
export class ApiServer {
  private constructor();
  /** Starts a server; resolves when it is ready. */
  static start(options?: Options): Promise<ApiServer>;
  /** The address, as in `https://127.0.0.1:41234`. */
  readonly url: string;
  /** A kubeconfig of an administrator (group `system:masters`), with certificates and key inside of it. */
  readonly kubeconfig: string;
  /** A file with it. */
  readonly kubeconfigPath: string;
  /** The authority that signed the server's certificate, as PEM. */
  readonly ca: string;
  /** A file with it. */
  readonly caPath: string;
  /** A bearer token of an administrator. */
  readonly token: string;
  /** The process. */
  readonly pid: number;
  /** The server's log so far. */
  log(): string;
  /** Ends the server and removes what it wrote. It may be called again. */
  stop(): Promise<void>;
}

/** The program: the one that the environment names, that of the package, or the first in `PATH`. */
export function findProgram(): string;
