// Requests of the tests to a server or a cluster.

import { request } from 'node:https';

export const NAMESPACE = JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'mine' } });

/** The status of an answer. */
export function ask(server, path, { token = server.token, body } = {}) {
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
