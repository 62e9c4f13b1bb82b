//! A namespaced Policy stays in its namespace: scope comes from the API server, not from text. Nobody reaches the namespace that
//! Writ is installed in.

use super::{ATTACK, Attack, run};

/// A Policy of the tenant's namespace with one rule for ConfigMap `start`; `rule` stands at the level of `match`.
macro_rules! policy {
    ($rule:expr) => {
        concat!(
            "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: escape, namespace: NS}\nspec:\n  rules:\n    - name: out\n",
            "      match: {any: [{resources: {kinds: [ConfigMap], names: [start]}}]}\n",
            $rule
        )
    };
}

/// The same as a ClusterPolicy.
macro_rules! cluster_policy {
    ($rule:expr) => {
        concat!(
            "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: UNIQUE}\nspec:\n  rules:\n    - name: out\n",
            "      match: {any: [{resources: {kinds: [ConfigMap], names: [UNIQUE-start]}}]}\n",
            $rule
        )
    };
}

/// ConfigMap `start` with one value.
macro_rules! start {
    ($value:literal) => {
        concat!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: start, namespace: NS}\ndata: {x: \"",
            $value,
            "\"}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: UNIQUE-start, namespace: NS}\ndata: {x: \"",
            $value,
            "\"}\n"
        )
    };
}

/// Writes ConfigMap `made`, which holds something that was looked up.
const MADE: &str = "configmap NS/made";
macro_rules! made {
    ($context:expr) => {
        concat!(
            "      context:\n",
            $context,
            "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {data: {v: \"{{ to_string(v) }}\"}}}\n"
        )
    };
}

/// Whoever may do everything in the own namespace passes the author's check: the gate is all there is.
const EVERYTHING_THERE: Attack = Attack { may: &["* *.*"], never: &[MADE], ..ATTACK };

#[test]
fn a_namespaced_policy_writes_nothing_cluster_scoped() {
    run(&[
        Attack {
            name: "data: a cluster-scoped kind by variable, with metadata.namespace",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: '{{ request.object.data.x }}', name: UNIQUE-made, namespace: NS, data: {}}"
            ),
            trigger: start!("Namespace"),
            never: &["namespace UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "dataList: a cluster-scoped kind by variable",
            attempt: policy!(
                "      generate: {dataList: [{apiVersion: v1, kind: '{{ request.object.data.x }}', name: UNIQUE-made, namespace: NS, data: {}}]}"
            ),
            trigger: start!("Namespace"),
            never: &["namespace UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "foreach: a cluster-scoped kind by element",
            attempt: policy!(
                "      generate: {foreach: [{list: 'request.object.data.x | [@]', apiVersion: v1, kind: '{{ element }}', name: UNIQUE-made, namespace: NS, data: {}}]}"
            ),
            trigger: start!("Namespace"),
            never: &["namespace UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "clone: a cluster-scoped kind by variable",
            attempt: policy!(
                "      generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: '{{ request.object.data.x }}', name: UNIQUE-made, namespace: NS, clone: {name: view, namespace: NS}}"
            ),
            trigger: start!("ClusterRole"),
            never: &["clusterrole UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "cloneList by name: a cluster-scoped kind by variable",
            attempt: policy!(
                "      generate: {cloneList: [{source: {apiVersion: rbac.authorization.k8s.io/v1, kind: '{{ request.object.data.x }}', name: view, namespace: NS}, target: {name: UNIQUE-made, namespace: NS}}]}"
            ),
            trigger: start!("ClusterRole"),
            never: &["clusterrole UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "a cluster-scoped kind that is written out",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: Namespace, name: UNIQUE-made, namespace: NS, data: {}}"
            ),
            rejected: &["spec.rules[0].generate.namespace", "cluster-scoped"],
            never: &["namespace UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "a cluster-scoped kind with a subresource after it",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: Namespace/status, name: UNIQUE-made, namespace: NS, data: {}}"
            ),
            rejected: &["spec.rules[0].generate.namespace", "cluster-scoped"],
            never: &["namespace UNIQUE-made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "data: another namespace by variable",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: '{{ request.object.data.x }}', data: {}}"
            ),
            rejected: &["spec.rules[0].generate.namespace", "must be in its own namespace"],
            never: &["configmap VICTIM/made"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "cloneList by kinds: copies into another namespace",
            setup: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: NS}\n",
            attempt: policy!(
                "      generate: {namespace: '{{ request.object.data.x }}', cloneList: {namespace: NS, kinds: [v1/ConfigMap]}}"
            ),
            rejected: &["spec.rules[0].generate.namespace", "must be in its own namespace"],
            never: &["configmap VICTIM/made"],
            ..EVERYTHING_THERE
        },
    ]);
}

#[test]
fn a_namespaced_policy_reads_nothing_outside() {
    run(&[
        Attack {
            name: "apiCall: another namespace by variable",
            attempt: policy!(made!(
                "        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/{{ request.object.data.x }}/secrets/secret'}}\n"
            )),
            trigger: start!("VICTIM"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "apiCall: the whole path by variable",
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '{{ request.object.data.x }}'}}\n")),
            trigger: start!("/api/v1/namespaces/VICTIM/secrets/secret"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "apiCall: all namespaces",
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '{{ request.object.data.x }}'}}\n")),
            trigger: start!("/api/v1/secrets"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "apiCall: a cluster-scoped resource",
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '{{ request.object.data.x }}'}}\n")),
            trigger: start!("/apis/rbac.authorization.k8s.io/v1/clusterroles/view"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "apiCall: the Namespace object",
            attempt: policy!(made!(
                "        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/{{ request.object.data.x }}'}}\n"
            )),
            trigger: start!("NS"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "configMap: another namespace by variable",
            setup: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: VICTIM}\ndata: {key: value}\n",
            attempt: policy!(made!(
                "        - {name: v, configMap: {name: c, namespace: '{{ request.object.data.x }}'}}\n"
            )),
            trigger: start!("VICTIM"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "configMap: another namespace, in the context of foreach",
            setup: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: VICTIM}\ndata: {key: value}\n",
            attempt: policy!(
                "      generate: {foreach: [{list: 'request.object.data.x | [@]', context: [{name: v, configMap: {name: c, namespace: '{{ element }}'}}], apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {data: {v: '{{ to_string(v) }}'}}}]}"
            ),
            trigger: start!("VICTIM"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "clone: a source in another namespace by variable",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: Secret, name: copy, namespace: NS, clone: {name: secret, namespace: '{{ request.object.data.x }}'}}"
            ),
            rejected: &["spec.rules[0].generate.clone.namespace"],
            never: &["secret NS/copy"],
            ..EVERYTHING_THERE
        },
        Attack {
            name: "globalReference: an entry that holds another namespace, by variable",
            setup: "apiVersion: kyverno.io/v2alpha1\nkind: GlobalContextEntry\nmetadata: {name: UNIQUE}\nspec: {kubernetesResource: {version: v1, resource: secrets, namespace: VICTIM}}\n",
            attempt: policy!(made!("        - {name: v, globalReference: {name: '{{ request.object.data.x }}'}}\n")),
            trigger: start!("UNIQUE"),
            ..EVERYTHING_THERE
        },
        Attack {
            name: "the Namespace object as a trigger, by a pattern of kinds",
            attempt: "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: escape, namespace: NS}\nspec:\n  rules:\n    - name: out\n      match: {any: [{resources: {kinds: ['Name*']}}]}\n      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {}}\n",
            trigger: "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS, labels: {attack: again}}\n",
            ..EVERYTHING_THERE
        },
    ]);
}

/// Somebody who may do everything everywhere.
const EVERYTHING: Attack = Attack { may_everywhere: &["* *.*"], never: &[MADE], ..ATTACK };

#[test]
fn nobody_reaches_the_namespace_of_the_install() {
    run(&[
        Attack {
            name: "clone: a Secret of the install",
            attempt: cluster_policy!(
                "      generate: {apiVersion: v1, kind: Secret, name: copy, namespace: NS, clone: {name: writ-certificates, namespace: writ-system}}"
            ),
            rejected: &["spec.rules[0].generate.clone", "the namespace that Writ is installed in"],
            never: &["secret NS/copy"],
            ..EVERYTHING
        },
        Attack {
            name: "clone: a Secret of the install by variable",
            attempt: cluster_policy!(
                "      generate: {apiVersion: v1, kind: Secret, name: copy, namespace: NS, clone: {name: writ-certificates, namespace: '{{ request.object.data.x }}'}}"
            ),
            trigger: start!("writ-system"),
            never: &["secret NS/copy"],
            ..EVERYTHING
        },
        Attack {
            name: "cloneList: Secrets of the install by variable",
            attempt: cluster_policy!(
                "      generate: {namespace: NS, cloneList: {namespace: '{{ request.object.data.x }}', kinds: [v1/Secret]}}"
            ),
            trigger: start!("writ-system"),
            never: &["secret NS/writ-certificates"],
            ..EVERYTHING
        },
        Attack {
            name: "apiCall: a Secret of the install by variable",
            attempt: cluster_policy!(made!(
                "        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/{{ request.object.data.x }}/secrets/writ-certificates'}}\n"
            )),
            trigger: start!("writ-system"),
            ..EVERYTHING
        },
        Attack {
            name: "apiCall: a Secret of the install in a list of all namespaces",
            attempt: cluster_policy!(concat!(
                "      preconditions: {all: [{key: '{{ v }}', operator: GreaterThan, value: 0}]}\n",
                made!(
                    "        - {name: v, apiCall: {urlPath: '/api/v1/secrets?fieldSelector=metadata.name=writ-certificates', jmesPath: 'length(items)'}}\n"
                )
            )),
            trigger: start!("x"),
            ..EVERYTHING
        },
        Attack {
            name: "apiCall: the namespace of the install in a list of all",
            attempt: cluster_policy!(concat!(
                "      preconditions: {all: [{key: '{{ v }}', operator: GreaterThan, value: 0}]}\n",
                made!(
                    "        - {name: v, apiCall: {urlPath: '/api/v1/namespaces?fieldSelector=metadata.name=writ-system', jmesPath: 'length(items)'}}\n"
                )
            )),
            trigger: start!("x"),
            ..EVERYTHING
        },
        Attack {
            name: "configMap: of the install by variable",
            attempt: cluster_policy!(made!(
                "        - {name: v, configMap: {name: kube-root-ca.crt, namespace: '{{ request.object.data.x }}'}}\n"
            )),
            trigger: start!("writ-system"),
            ..EVERYTHING
        },
        Attack {
            name: "data: a target in the namespace of the install by variable",
            attempt: cluster_policy!(
                "      generate: {apiVersion: v1, kind: ConfigMap, name: UNIQUE-made, namespace: '{{ request.object.data.x }}', data: {}}"
            ),
            trigger: start!("writ-system"),
            never: &["configmap writ-system/UNIQUE-made"],
            ..EVERYTHING
        },
        Attack {
            name: "a trigger in the namespace of the install",
            attempt: cluster_policy!(
                "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {}}"
            ),
            trigger: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UNIQUE-start, namespace: writ-system}\n",
            ..EVERYTHING
        },
        Attack {
            name: "the namespace of the install as an existing trigger",
            attempt: "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: UNIQUE}\nspec:\n  rules:\n    - name: out\n      match: {any: [{resources: {kinds: [Namespace], names: ['writ-s*']}}]}\n      generate: {generateExisting: true, apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {}}\n",
            trigger: "apiVersion: v1\nkind: Namespace\nmetadata: {name: writ-system, labels: {attack: again}}\n",
            ..EVERYTHING
        },
        Attack {
            name: "a global context entry of the install",
            attempt: "apiVersion: kyverno.io/v2alpha1\nkind: GlobalContextEntry\nmetadata: {name: UNIQUE}\nspec: {kubernetesResource: {version: v1, resource: secrets, namespace: writ-system}}\n",
            rejected: &["spec.kubernetesResource", "the namespace that Writ is installed in"],
            never: &[],
            ..EVERYTHING
        },
    ]);
}
