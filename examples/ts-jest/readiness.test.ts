// One server for the tests of this file. ts-jest compiles `import` to `require()`.

import { request } from 'node:https';
import { ApiServer, type Options } from 'binnacle-testing';

const options: Options = { flags: ['--feature-gates=MutatingAdmissionPolicy=true'] };
let server: ApiServer;

beforeAll(async () => {
  server = await ApiServer.start(options);
});

afterAll(() => server.stop());

/** Sends a GET request, and returns the status of the response. */
function status(path: string, token: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const sent = request(server.url + path, { ca: server.ca, headers, agent: false }, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode));
    });
    sent.once('error', reject);
    sent.end();
  });
}

test('is ready', async () => {
  expect(await status('/readyz', server.token)).toBe(200);
});

test('rejects unknown tokens', async () => {
  expect(await status('/api/v1/secrets', 'unknown')).toBe(401);
});
