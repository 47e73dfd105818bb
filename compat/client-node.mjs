// What the integration tests of @kubernetes/client-node call (informers that begin again, patches of namespaces, watches), and
// the other ways to write and read.
import assert from 'node:assert';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const namespace = `client-node-${process.pid}`;

async function check(name, run) {
    try {
        await run();
        console.log(`ok ${name}`);
    } catch (error) {
        console.log(`FAILED ${name}: ${error.stack}`);
    }
}

async function until(condition) {
    for (let n = 0; n < 500; n++) {
        if (await condition()) return;
        await new Promise((done) => setTimeout(done, 20));
    }
    throw new Error('it did not come true');
}

const configMap = (name, data = { a: '1' }) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace, labels: { t: 'x' } }, data });

await check('version', async () => {
    const version = await config.makeApiClient(k8s.VersionApi).getCode();
    assert.equal(version.minor, '36');
});
await check('namespace', () => core.createNamespace({ body: { metadata: { name: namespace } } }));
await check('patch strategies', async () => {
    const patch = (body, type) => core.patchNamespace({ name: namespace, body }, k8s.setHeaderOptions('Content-Type', type));
    await patch([{ op: 'add', path: '/metadata/labels/json', value: '1' }], k8s.PatchStrategy.JsonPatch);
    await patch({ metadata: { labels: { merge: '2' } } }, k8s.PatchStrategy.MergePatch);
    await patch({ metadata: { labels: { strategic: '3' } } }, k8s.PatchStrategy.StrategicMergePatch);
    const applied = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels: { applied: '4' } } };
    await core.patchNamespace({ name: namespace, body: applied, fieldManager: 'me', force: true }, k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply));
    const { labels } = (await core.readNamespace({ name: namespace })).metadata;
    assert.deepEqual([labels.json, labels.merge, labels.strategic, labels.applied], ['1', '2', '3', '4']);
});
await check('create and replace', async () => {
    const made = await core.createNamespacedConfigMap({ namespace, body: configMap('one') });
    made.data.a = '2';
    const replaced = await core.replaceNamespacedConfigMap({ name: 'one', namespace, body: made });
    assert.notEqual(replaced.metadata.resourceVersion, made.metadata.resourceVersion);
    assert.ok(made.metadata.creationTimestamp instanceof Date);
});
await check('conflict', async () => {
    const body = configMap('one');
    body.metadata.resourceVersion = '1';
    await assert.rejects(core.replaceNamespacedConfigMap({ name: 'one', namespace, body }), (error) => error.code === 409);
});
await check('not found', () => assert.rejects(core.readNamespacedConfigMap({ name: 'none', namespace }), (error) => error.code === 404));
await check('pages', async () => {
    for (let n = 0; n < 5; n++) await core.createNamespacedConfigMap({ namespace, body: configMap(`page-${n}`) });
    let found = 0, next;
    do {
        const page = await core.listNamespacedConfigMap({ namespace, limit: 2, _continue: next, labelSelector: 't=x' });
        found += page.items.length;
        next = page.metadata._continue;
    } while (next);
    assert.equal(found, 6);
});
await check('watch', async () => {
    const seen = [];
    const watch = new k8s.Watch(config);
    const controller = await watch.watch(`/api/v1/namespaces/${namespace}/configmaps`, { allowWatchBookmarks: true }, (type, object) => seen.push(`${type} ${object.metadata.name}`), () => {});
    await core.createNamespacedConfigMap({ namespace, body: configMap('watched') });
    await core.deleteNamespacedConfigMap({ name: 'watched', namespace });
    await until(() => seen.includes('DELETED watched'));
    assert.ok(seen.includes('ADDED watched'));
    controller.abort();
});
await check('informer', async () => {
    const seen = [];
    const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap({ namespace }));
    for (const verb of ['add', 'update', 'delete']) informer.on(verb, (object) => seen.push(`${verb} ${object.metadata.name}`));
    informer.on('error', () => {});
    await informer.start();
    await until(() => informer.list().length >= 6);
    await core.patchNamespacedConfigMap({ name: 'one', namespace, body: { data: { b: '1' } } }, k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch));
    await core.deleteNamespacedConfigMap({ name: 'page-0', namespace });
    await until(() => seen.includes('update one') && seen.includes('delete page-0'));
    await informer.stop();
    await informer.start();
    await core.createNamespacedConfigMap({ namespace, body: configMap('again') });
    await until(() => seen.includes('add again'));
    await informer.stop();
});
await check('any object', async () => {
    const [deployment] = k8s.loadAllYaml(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ${namespace}}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`);
    await objects.create(deployment);
    const read = await objects.read(deployment);
    assert.equal(read.spec.replicas, 1);
    assert.equal((await objects.list('apps/v1', 'Deployment', namespace)).items.length, 1);
    await objects.patch({ ...deployment, spec: { replicas: 2 } }, undefined, undefined, 'me', undefined, k8s.PatchStrategy.StrategicMergePatch);
});
await check('scale', async () => {
    const scale = await apps.readNamespacedDeploymentScale({ name: 'web', namespace });
    scale.spec.replicas = 5;
    await apps.replaceNamespacedDeploymentScale({ name: 'web', namespace, body: scale });
    assert.equal((await apps.readNamespacedDeployment({ name: 'web', namespace })).spec.replicas, 5);
});
await check('review', async () => {
    const api = config.makeApiClient(k8s.AuthorizationV1Api);
    const review = await api.createSelfSubjectAccessReview({ body: { spec: { resourceAttributes: { verb: 'get', resource: 'pods' } } } });
    assert.equal(review.status.allowed, true);
});
await check('custom resources', async () => {
    const api = config.makeApiClient(k8s.ApiextensionsV1Api);
    const group = `${namespace}.example.com`;
    const schema = { openAPIV3Schema: { type: 'object', x_kubernetes_preserve_unknown_fields: true } };
    const spec = { group, scope: 'Namespaced', names: { plural: 'widgets', kind: 'Widget' }, versions: [{ name: 'v1', served: true, storage: true, schema }] };
    await api.createCustomResourceDefinition({ body: { metadata: { name: `widgets.${group}` }, spec } });
    const custom = config.makeApiClient(k8s.CustomObjectsApi);
    const at = { group, version: 'v1', namespace, plural: 'widgets' };
    const body = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w' }, spec: { size: 1 } };
    await until(() => custom.createNamespacedCustomObject({ ...at, body }).then(() => true, () => false));
    assert.equal((await custom.listNamespacedCustomObject(at)).items[0].spec.size, 1);
    await api.deleteCustomResourceDefinition({ name: `widgets.${group}` });
});
await check('delete collection', async () => {
    await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 't=x' });
    assert.equal((await core.listNamespacedConfigMap({ namespace, labelSelector: 't=x' })).items.length, 0);
});
await check('health', async () => assert.equal(await new k8s.Health(config).readyz({}), true));
await check('delete namespace', () => core.deleteNamespace({ name: namespace }));
console.log('end');
process.exit(0);
