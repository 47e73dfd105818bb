// One server for all files: it starts before the workers, which get its kubeconfig.

import { ApiServer } from 'binnacle-testing';

export default async function setup(project) {
  const server = await ApiServer.start();
  project.provide('kubeconfig', server.kubeconfig);
  return () => server.stop();
}
