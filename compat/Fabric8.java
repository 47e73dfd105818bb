// The ways in which operators written with fabric8's client use a server: typed, generic and custom resources, patches, server-side
// apply, watches, informers, leader election.
import io.fabric8.kubernetes.api.model.*;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apps.*;
import io.fabric8.kubernetes.api.model.authentication.*;
import io.fabric8.kubernetes.api.model.authorization.v1.*;
import io.fabric8.kubernetes.api.model.coordination.v1.Lease;
import io.fabric8.kubernetes.api.model.rbac.*;
import io.fabric8.kubernetes.client.*;
import io.fabric8.kubernetes.client.dsl.base.*;
import io.fabric8.kubernetes.client.extended.leaderelection.*;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.*;
import java.io.ByteArrayInputStream;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Fabric8 {
    interface Check { void run() throws Exception; }

    static final KubernetesClient client = new KubernetesClientBuilder().build();
    static final String namespace = "fabric8-" + ProcessHandle.current().pid();

    static void check(String name, Check run) {
        try {
            run.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            System.out.println("FAILED " + name + ": " + error);
        }
    }

    static void that(boolean holds, Object shown) {
        if (!holds) throw new IllegalStateException(String.valueOf(shown));
    }

    static void code(int code, Check run) throws Exception {
        try {
            run.run();
        } catch (KubernetesClientException error) {
            that(error.getCode() == code && error.getStatus() != null, error);
            return;
        }
        throw new IllegalStateException("no error " + code);
    }

    static ConfigMap map(String name, String value) {
        return new ConfigMapBuilder().withNewMetadata().withName(name).withNamespace(namespace).addToLabels("t", "x").endMetadata()
            .addToData("a", value).build();
    }

    static Deployment deployment(int replicas) {
        return new DeploymentBuilder().withNewMetadata().withName("web").withNamespace(namespace).endMetadata().withNewSpec()
            .withReplicas(replicas).withNewSelector().addToMatchLabels("app", "web").endSelector().withNewTemplate().withNewMetadata()
            .addToLabels("app", "web").endMetadata().withNewSpec().addNewContainer().withName("web").withImage("nginx").endContainer()
            .endSpec().endTemplate().endSpec().build();
    }

    static final String DEFINITION = """
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: gadgets.fabric8.example}
        spec:
          group: fabric8.example
          scope: Namespaced
          names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
          versions:
          - name: v1
            served: true
            storage: true
            subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
            schema:
              openAPIV3Schema:
                type: object
                properties:
                  spec:
                    type: object
                    properties: {size: {type: integer, minimum: 0, default: 1}, color: {type: string, enum: [red, green]}}
                    x-kubernetes-validations: [{rule: "!has(self.color) || self.color != 'red' || self.size < 5", message: red ones are small}]
                  status: {type: object, properties: {size: {type: integer}}}
        """;

    static GenericKubernetesResource gadget(String name, Object spec) {
        GenericKubernetesResource gadget = new GenericKubernetesResource();
        gadget.setApiVersion("fabric8.example/v1");
        gadget.setKind("Gadget");
        gadget.setMetadata(new ObjectMetaBuilder().withName(name).withNamespace(namespace).build());
        gadget.setAdditionalProperty("spec", spec);
        return gadget;
    }

    public static void main(String[] arguments) {
        check("version", () -> that(client.getKubernetesVersion().getMinor().equals("36"), client.getKubernetesVersion()));
        check("discovery", () -> {
            that(client.hasApiGroup("apps", true) && !client.hasApiGroup("nothing.example", true), "groups");
            that(client.getApiGroups().getGroups().size() > 15, client.getApiGroups());
            that(client.getApiResources("apps/v1").getResources().stream().anyMatch(r -> r.getName().equals("deployments/scale")), "scale");
            that(client.supports(Lease.class), "leases");
        });
        check("namespace", () -> {
            client.namespaces().resource(new NamespaceBuilder().withNewMetadata().withName(namespace).endMetadata().build()).create();
            that(client.namespaces().withName(namespace).get().getStatus().getPhase().equals("Active"), "phase");
        });
        check("create, replace, conflict", () -> {
            ConfigMap made = client.resource(map("one", "1")).create();
            code(409, () -> client.resource(map("one", "1")).create());
            made.getData().put("a", "2");
            ConfigMap replaced = client.resource(made).update();
            that(!replaced.getMetadata().getResourceVersion().equals(made.getMetadata().getResourceVersion()), replaced);
            code(409, () -> client.resource(made).lockResourceVersion(made.getMetadata().getResourceVersion()).update());
        });
        check("not found", () -> {
            that(client.configMaps().inNamespace(namespace).withName("none").get() == null, "none");
            try {
                client.configMaps().inNamespace(namespace).withName("none").require();
                that(false, "there");
            } catch (ResourceNotFoundException missing) {
            }
            code(404, () -> client.configMaps().inNamespace(namespace).withName("none").patch(PatchContext.of(PatchType.JSON_MERGE), "{}"));
        });
        check("invalid", () -> code(422, () -> client.resource(map("Not_A_Name", "1")).create()));
        check("edit", () -> {
            ConfigMap edited = client.configMaps().inNamespace(namespace).withName("one").edit(m -> new ConfigMapBuilder(m).addToData("b", "3").build());
            that(edited.getData().equals(Map.of("a", "2", "b", "3")), edited);
        });
        check("patches", () -> {
            var one = client.configMaps().inNamespace(namespace).withName("one");
            one.patch(PatchContext.of(PatchType.JSON), "[{\"op\":\"test\",\"path\":\"/data/a\",\"value\":\"2\"},{\"op\":\"add\",\"path\":\"/data/j\",\"value\":\"1\"}]");
            one.patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"m\":\"1\",\"b\":null}}");
            ConfigMap patched = one.patch(PatchContext.of(PatchType.STRATEGIC_MERGE), "{\"data\":{\"s\":\"1\"}}");
            that(patched.getData().equals(Map.of("a", "2", "j", "1", "m", "1", "s", "1")), patched.getData());
        });
        check("server-side apply", () -> {
            var mine = new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager("mine").build();
            var forced = new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager("other").withForce(true).build();
            var other = new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager("other").build();
            client.resource(map("applied", "1")).patch(mine);
            code(409, () -> client.resource(map("applied", "2")).patch(other));
            that(client.resource(map("applied", "2")).patch(forced).getData().get("a").equals("2"), "forced");
            var managers = client.resource(map("applied", "2")).serverSideApply().getMetadata().getManagedFields();
            that(managers.stream().map(ManagedFieldsEntry::getManager).collect(java.util.stream.Collectors.toSet()).equals(Set.of("mine", "other", "fabric8")), managers);
        });
        check("dry run", () -> {
            client.resource(map("dry", "1")).dryRun().create();
            that(client.resource(map("dry", "1")).get() == null, "was made");
        });
        check("pages and selectors", () -> {
            for (int n = 0; n < 5; n++) client.resource(map("page-" + n, "1")).create();
            int found = 0;
            String next = null;
            do {
                var list = client.configMaps().inNamespace(namespace).withLabel("t", "x").list(new ListOptionsBuilder().withLimit(2L).withContinue(next).build());
                found += list.getItems().size();
                next = list.getMetadata().getContinue();
            } while (next != null && !next.isEmpty());
            that(found == 7, found);
            that(client.configMaps().inNamespace(namespace).withLabelIn("t", "y", "x").withField("metadata.name", "page-3").list().getItems().size() == 1, "field");
            that(client.configMaps().inNamespace(namespace).withLabelNotIn("t", "x").withoutLabel("t").list().getItems().stream().allMatch(m -> m.getMetadata().getName().equals("kube-root-ca.crt")), "none");
        });
        check("watch", () -> {
            var seen = new ConcurrentLinkedQueue<String>();
            var closed = new CountDownLatch(1);
            try (Watch watch = client.configMaps().inNamespace(namespace).watch(new Watcher<ConfigMap>() {
                public void eventReceived(Action action, ConfigMap map) { seen.add(action + " " + map.getMetadata().getName()); }
                public void onClose(WatcherException cause) { closed.countDown(); }
                public void onClose() { closed.countDown(); }
            })) {
                client.resource(map("watched", "1")).create();
                client.resource(map("watched", "2")).update();
                client.resource(map("watched", "2")).delete();
                until(() -> seen.contains("DELETED watched"));
                that(seen.containsAll(List.of("ADDED watched", "MODIFIED watched")), seen);
            }
            that(closed.await(10, TimeUnit.SECONDS), "not closed");
        });
        check("informer", () -> {
            var events = new ConcurrentLinkedQueue<String>();
            try (SharedIndexInformer<ConfigMap> informer = client.configMaps().inNamespace(namespace).withLabel("t").inform(new ResourceEventHandler<>() {
                public void onAdd(ConfigMap m) { events.add("add " + m.getMetadata().getName()); }
                public void onUpdate(ConfigMap was, ConfigMap m) { events.add("update " + m.getMetadata().getName()); }
                public void onDelete(ConfigMap m, boolean unknown) { events.add("delete " + m.getMetadata().getName()); }
            }, 1000)) {
                that(informer.hasSynced() && informer.getIndexer().list().size() == 7, informer.getIndexer().list().size());
                client.resource(map("informed", "1")).create();
                client.resource(map("informed", "2")).update();
                client.resource(map("informed", "2")).delete();
                until(() -> events.contains("delete informed"));
                that(events.containsAll(List.of("add page-0", "add informed", "update informed")), events);
            }
        });
        check("wait for a condition", () -> {
            var waiting = CompletableFuture.supplyAsync(() -> client.configMaps().inNamespace(namespace).withName("awaited")
                .waitUntilCondition(m -> m != null && "2".equals(m.getData().get("a")), 20, TimeUnit.SECONDS));
            client.resource(map("awaited", "1")).create();
            client.resource(map("awaited", "2")).update();
            that(waiting.get(20, TimeUnit.SECONDS).getData().get("a").equals("2"), "value");
        });
        check("deployment, scale, status", () -> {
            client.resource(deployment(2)).create();
            var web = client.apps().deployments().inNamespace(namespace).withName("web");
            that(web.scale(new io.fabric8.kubernetes.api.model.autoscaling.v1.ScaleBuilder().withNewMetadata().withName("web").withNamespace(namespace).endMetadata()
                .withNewSpec().withReplicas(4).endSpec().build()).getSpec().getReplicas() == 4, "scale");
            that(web.get().getSpec().getReplicas() == 4, "replicas");
            Deployment status = web.editStatus(d -> new DeploymentBuilder(d).editOrNewStatus().withReplicas(4).withObservedGeneration(2L).endStatus().editSpec().withReplicas(9).endSpec().build());
            that(status.getStatus().getReplicas() == 4 && status.getSpec().getReplicas() == 4, status);
            web.rolling().restart();
            that(web.get().getSpec().getTemplate().getMetadata().getAnnotations().containsKey("kubectl.kubernetes.io/restartedAt"), "restart");
            web.withPropagationPolicy(DeletionPropagation.BACKGROUND).delete();
            until(() -> web.get() == null);
        });
        check("manifests", () -> {
            String manifests = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec: {ports: [{port: 80}], selector: {a: b}}\n";
            var loaded = client.load(new ByteArrayInputStream(manifests.getBytes())).inNamespace(namespace);
            that(loaded.create().size() == 2 && loaded.serverSideApply().size() == 2, "made");
            that(client.secrets().inNamespace(namespace).withName("s").get().getData().get("k").equals("dg=="), "secret");
            that(client.services().inNamespace(namespace).withName("svc").get().getSpec().getClusterIP() != null, "address");
            that(loaded.delete().size() == 2, "deleted");
        });
        check("definition", () -> {
            client.load(new ByteArrayInputStream(DEFINITION.getBytes())).serverSideApply();
            var definition = client.apiextensions().v1().customResourceDefinitions().withName("gadgets.fabric8.example");
            definition.waitUntilCondition(d -> d.getStatus().getConditions().stream().anyMatch(c -> c.getType().equals("Established") && c.getStatus().equals("True")), 20, TimeUnit.SECONDS);
        });
        check("custom resources", () -> {
            var context = CustomResourceDefinitionContext.fromCrd(client.apiextensions().v1().customResourceDefinitions().withName("gadgets.fabric8.example").get());
            var gadgets = client.genericKubernetesResources(context).inNamespace(namespace);
            var made = gadgets.resource(gadget("g", Map.of("color", "red"))).create();
            that(((Map<?, ?>) made.getAdditionalProperties().get("spec")).get("size").equals(1), made);
            code(422, () -> gadgets.resource(gadget("bad", Map.of("color", "red", "size", 7))).create());
            code(422, () -> gadgets.resource(gadget("bad", Map.of("color", "blue"))).create());
            that(gadgets.withName("g").scale(3) != null && gadgets.withName("g").scale().getSpec().getReplicas() == 3, "scale");
            var seen = new ConcurrentLinkedQueue<String>();
            try (var informer = gadgets.inform(new ResourceEventHandler<GenericKubernetesResource>() {
                public void onAdd(GenericKubernetesResource g) { seen.add("add " + g.getMetadata().getName()); }
                public void onUpdate(GenericKubernetesResource was, GenericKubernetesResource g) { seen.add("update " + g.getAdditionalProperties().get("status")); }
                public void onDelete(GenericKubernetesResource g, boolean unknown) { seen.add("delete " + g.getMetadata().getName()); }
            })) {
                gadgets.withName("g").editStatus(g -> { g.setAdditionalProperty("status", Map.of("size", 3)); return g; });
                gadgets.withName("g").delete();
                until(() -> seen.contains("delete g"));
                that(seen.containsAll(List.of("add g", "update {size=3}")), seen);
            }
        });
        check("leader election", () -> {
            var leads = new CountDownLatch(1);
            var stopped = new CountDownLatch(1);
            var elector = client.leaderElector().withConfig(new LeaderElectionConfigBuilder().withName("election")
                .withLock(new LeaseLock(namespace, "leader", "me")).withLeaseDuration(Duration.ofSeconds(3)).withRenewDeadline(Duration.ofSeconds(2))
                .withRetryPeriod(Duration.ofMillis(200)).withReleaseOnCancel(true).withLeaderCallbacks(new LeaderCallbacks(leads::countDown, stopped::countDown, holder -> {})).build()).build();
            var running = elector.start();
            that(leads.await(10, TimeUnit.SECONDS), "nobody leads");
            that(client.leases().inNamespace(namespace).withName("leader").get().getSpec().getHolderIdentity().equals("me"), "holder");
            running.cancel(true);
            that(stopped.await(10, TimeUnit.SECONDS), "still leads");
            // It gives the lease up by making it short.
            that(client.leases().inNamespace(namespace).withName("leader").get().getSpec().getLeaseDurationSeconds() == 1, "kept");
        });
        check("reviews", () -> {
            var review = client.authorization().v1().selfSubjectAccessReview().create(new SelfSubjectAccessReviewBuilder().withNewSpec().withNewResourceAttributes()
                .withVerb("delete").withResource("pods").withNamespace(namespace).endResourceAttributes().endSpec().build());
            that(review.getStatus().getAllowed(), review);
            var other = client.authorization().v1().subjectAccessReview().create(new SubjectAccessReviewBuilder().withNewSpec().withUser("nobody").withNewResourceAttributes()
                .withVerb("delete").withResource("pods").withNamespace(namespace).endResourceAttributes().endSpec().build());
            that(!other.getStatus().getAllowed(), other);
        });
        check("service account, token, another identity", () -> {
            client.resource(new ServiceAccountBuilder().withNewMetadata().withName("reader").withNamespace(namespace).endMetadata().build()).create();
            client.resource(new RoleBuilder().withNewMetadata().withName("reader").withNamespace(namespace).endMetadata().addNewRule().withApiGroups("").withResources("configmaps").withVerbs("get").endRule().build()).create();
            client.resource(new RoleBindingBuilder().withNewMetadata().withName("reader").withNamespace(namespace).endMetadata().withNewRoleRef("rbac.authorization.k8s.io", "Role", "reader")
                .addNewSubject("", "ServiceAccount", "reader", namespace).build()).create();
            TokenRequest token = client.serviceAccounts().inNamespace(namespace).withName("reader").tokenRequest(new TokenRequestBuilder().withNewSpec().withExpirationSeconds(600L).endSpec().build());
            var own = new io.fabric8.kubernetes.client.ConfigBuilder().withMasterUrl(client.getMasterUrl().toString()).withCaCertData(client.getConfiguration().getCaCertData()).withCaCertFile(client.getConfiguration().getCaCertFile())
                .withOauthToken(token.getStatus().getToken()).withAutoConfigure(false).build();
            try (KubernetesClient reader = new KubernetesClientBuilder().withConfig(own).build()) {
                that(reader.configMaps().inNamespace(namespace).withName("one").get() != null, "may read");
                code(403, () -> reader.configMaps().inNamespace(namespace).list());
                code(403, () -> reader.configMaps().inNamespace(namespace).withName("one").delete());
            }
        });
        check("pods: eviction, ephemeral containers", () -> {
            // Without controllers nobody else makes the account that pods need.
            client.resource(new ServiceAccountBuilder().withNewMetadata().withName("default").withNamespace(namespace).endMetadata().build()).serverSideApply();
            client.resource(new PodBuilder().withNewMetadata().withName("p").withNamespace(namespace).endMetadata().withNewSpec().addNewContainer().withName("c").withImage("i").endContainer().endSpec().build()).create();
            var pod = client.pods().inNamespace(namespace).withName("p");
            pod.ephemeralContainers().edit(p -> new PodBuilder(p).editSpec().addNewEphemeralContainer().withName("debug").withImage("i").endEphemeralContainer().endSpec().build());
            that(pod.get().getSpec().getEphemeralContainers().size() == 1, "ephemeral");
            that(pod.evict(), "evicted");
        });
        check("delete many", () -> {
            client.configMaps().inNamespace(namespace).withLabel("t", "x").withGracePeriod(0).delete();
            until(() -> client.configMaps().inNamespace(namespace).withLabel("t", "x").list().getItems().isEmpty());
            client.apiextensions().v1().customResourceDefinitions().withName("gadgets.fabric8.example").delete();
            client.namespaces().withName(namespace).delete();
        });
        client.close();
        System.out.println("end");
    }

    static void until(Callable<Boolean> condition) throws Exception {
        for (int n = 0; n < 500; n++) {
            if (condition.call()) return;
            Thread.sleep(20);
        }
        throw new IllegalStateException("it did not come true");
    }
}
