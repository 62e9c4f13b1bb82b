//! A policy can do no more than its author: everything that a rule may touch is asked at admission, and what is unknown then
//! is asked as `*`.

use super::{ATTACK, Attack, WRITE_CLUSTER_POLICIES, WRITE_POLICIES, run};

/// A Policy of the tenant's namespace with one rule; `$kind` is the kind of its triggers.
macro_rules! policy {
    ($kind:literal, $rule:expr) => {
        concat!(
            "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: escape, namespace: NS}\nspec:\n  rules:\n    - name: out\n",
            "      match: {any: [{resources: {kinds: ['",
            $kind,
            "'], names: [start]}}]}\n",
            $rule
        )
    };
    ($rule:expr) => {
        policy!("ConfigMap", $rule)
    };
}

/// A ClusterPolicy with one rule for ConfigMap `start` of the tenant's namespace.
macro_rules! cluster_policy {
    ($rule:expr) => {
        concat!(
            "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: UNIQUE}\nspec:\n  rules:\n    - name: out\n",
            "      match: {any: [{resources: {kinds: [ConfigMap], names: [start], namespaces: [NS]}}]}\n",
            $rule
        )
    };
}

/// Writes ConfigMap `made`, which holds something that was looked up.
macro_rules! made {
    ($context:expr) => {
        concat!(
            "      context:\n",
            $context,
            "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {data: {v: \"{{ to_string(v) }}\"}}}\n"
        )
    };
}

const MADE: &str = "configmap NS/made";
const START: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: start, namespace: NS}\ndata: {x: VICTIM}\n";
/// Somebody who writes policies and ConfigMaps in one namespace.
const TENANT: Attack = Attack { may: &[WRITE_POLICIES, "* configmaps"], trigger: START, never: &[MADE], ..ATTACK };

#[test]
fn an_author_copies_no_secret_that_he_may_not_read() {
    run(&[
        Attack {
            name: "clone: a Secret of another namespace",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps", "create,update,delete secrets"],
            attempt: cluster_policy!(
                "      generate: {apiVersion: v1, kind: Secret, name: copy, namespace: NS, synchronize: true, clone: {namespace: VICTIM, name: secret}}"
            ),
            rejected: &["spec.rules[0].generate.clone", "get", "secrets `secret` in namespace `VICTIM`"],
            never: &["secret NS/copy"],
            ..ATTACK
        },
        Attack {
            name: "clone: a Secret of a namespace that a variable names",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps", "create secrets"],
            attempt: cluster_policy!(
                "      generate: {apiVersion: v1, kind: Secret, name: copy, namespace: NS, clone: {namespace: '{{ request.object.data.x }}', name: secret}}"
            ),
            rejected: &["spec.rules[0].generate.clone", "get secrets `secret` in the whole cluster"],
            never: &["secret NS/copy"],
            ..ATTACK
        },
        Attack {
            name: "cloneList by kinds: all Secrets of another namespace",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps", "create,update,delete secrets"],
            attempt: cluster_policy!(
                "      generate: {namespace: NS, cloneList: {namespace: VICTIM, kinds: [v1/Secret]}}"
            ),
            rejected: &["spec.rules[0].generate.cloneList.kinds[0]", "get, list, watch secrets in namespace `VICTIM`"],
            never: &["secret NS/secret"],
            ..ATTACK
        },
        Attack {
            name: "cloneList by name: a Secret of another namespace",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps", "create,update,delete secrets"],
            attempt: cluster_policy!(
                "      generate: {cloneList: [{source: {apiVersion: v1, kind: Secret, name: secret, namespace: VICTIM}, target: {name: copy, namespace: NS}}]}"
            ),
            rejected: &["spec.rules[0].generate.cloneList[0].source", "get secrets `secret` in namespace `VICTIM`"],
            never: &["secret NS/copy"],
            ..ATTACK
        },
    ]);
}

#[test]
fn what_a_variable_may_become_is_asked_as_everything() {
    const ANY: &[&str] = &["spec.rules[0].generate", "bind, create, escalate *.* in namespace `NS`"];
    run(&[
        Attack {
            name: "data: a kind by variable",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: '{{ request.object.data.x }}', name: made, namespace: NS, data: {}}"
            ),
            rejected: ANY,
            ..TENANT
        },
        Attack {
            name: "data: an API version by reference",
            attempt: policy!(
                "      generate: {apiVersion: '$(./../name)', kind: ConfigMap, name: made, namespace: NS, data: {}}"
            ),
            rejected: ANY,
            ..TENANT
        },
        Attack {
            name: "dataList: a kind by variable",
            attempt: policy!(
                "      generate: {dataList: [{apiVersion: v1, kind: '{{ request.object.data.x }}', name: made, namespace: NS, data: {}}]}"
            ),
            rejected: &["spec.rules[0].generate.dataList[0]", "bind, create, escalate *.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "foreach: a kind by element",
            attempt: policy!(
                "      generate: {foreach: [{list: 'request.object.data.x | [@]', apiVersion: v1, kind: '{{ element }}', name: made, namespace: NS, data: {}}]}"
            ),
            rejected: &["spec.rules[0].generate.foreach[0]", "bind, create, escalate *.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "cloneList: kinds by variable",
            attempt: policy!(
                "      generate: {namespace: NS, cloneList: {namespace: NS, kinds: ['{{ request.object.data.x }}']}}"
            ),
            rejected: &["spec.rules[0].generate.cloneList.kinds[0]", "*.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: the whole path by variable",
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '{{ request.object.data.x }}'}}\n")),
            rejected: &["spec.rules[0].context[0].apiCall.urlPath", "get, list *.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: the resource by variable",
            attempt: policy!(made!(
                "        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/NS/{{ request.object.data.x }}'}}\n"
            )),
            rejected: &["spec.rules[0].context[0].apiCall.urlPath", "get, list *.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "globalReference: an entry by variable",
            attempt: policy!(made!("        - {name: v, globalReference: {name: '{{ request.object.data.x }}'}}\n")),
            rejected: &["spec.rules[0].context[0].globalReference.name", "list, watch *.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "a trigger of a kind that is not served yet",
            attempt: policy!(
                "example.org/v1/Widget",
                "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {}}"
            ),
            rejected: &["spec.rules[0].match", "get, list, watch *.* in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: a namespace that leads to another resource",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps"],
            attempt: cluster_policy!(made!(
                "        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/{{ request.object.data.x }}/configmaps/c'}}\n"
            )),
            trigger: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: start, namespace: NS}\ndata: {x: 'VICTIM/secrets/secret?x='}\n",
            ..TENANT
        },
    ]);
}

#[test]
fn everything_that_a_rule_reads_is_asked_of_its_author() {
    const OUT: &str = "spec.rules[0].context[0].apiCall.urlPath";
    run(&[
        Attack {
            name: "a trigger kind that the author may not read",
            attempt: policy!(
                "Secret",
                "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {data: {v: '{{ to_string(request.object.data) }}'}}}"
            ),
            rejected: &["spec.rules[0].match", "get, list, watch secrets in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "a pattern of trigger kinds",
            attempt: policy!(
                "Sec*",
                "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {}}"
            ),
            rejected: &["spec.rules[0].match", "get, list, watch secrets in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: a Secret",
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/NS/secrets/x'}}\n")),
            rejected: &[OUT, "get secrets `x` in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: a list",
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/NS/secrets'}}\n")),
            rejected: &[OUT, "list secrets in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: a subresource",
            may: &[WRITE_POLICIES, "* pods", "* configmaps"],
            attempt: policy!(made!("        - {name: v, apiCall: {urlPath: '/api/v1/namespaces/NS/pods/p/status'}}\n")),
            rejected: &[OUT, "get pods/status `p` in namespace `NS`"],
            ..TENANT
        },
        Attack {
            name: "apiCall: a review is posted",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps"],
            attempt: cluster_policy!(made!(
                "        - {name: v, apiCall: {method: POST, urlPath: /apis/authentication.k8s.io/v1/tokenreviews}}\n"
            )),
            rejected: &[OUT, "create tokenreviews.authentication.k8s.io in the whole cluster"],
            ..TENANT
        },
        Attack {
            name: "apiCall in the context of foreach",
            attempt: policy!(
                "      generate: {foreach: [{list: 'request.object.data.x | [@]', context: [{name: v, apiCall: {urlPath: '/api/v1/namespaces/NS/secrets/{{ element }}'}}], apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, data: {data: {v: '{{ to_string(v) }}'}}}]}"
            ),
            rejected: &[
                "spec.rules[0].generate.foreach[0].context[0].apiCall.urlPath",
                "get secrets in namespace `NS`",
            ],
            ..TENANT
        },
        Attack {
            name: "configMap: of another namespace",
            may: &[],
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "get,list,watch secrets", "create configmaps"],
            attempt: cluster_policy!(made!("        - {name: v, configMap: {name: c, namespace: VICTIM}}\n")),
            rejected: &["spec.rules[0].context[0].configMap", "get configmaps `c` in namespace `VICTIM`"],
            ..TENANT
        },
        Attack {
            name: "globalReference: what an entry holds",
            setup: "apiVersion: kyverno.io/v2alpha1\nkind: GlobalContextEntry\nmetadata: {name: UNIQUE}\nspec: {kubernetesResource: {version: v1, resource: secrets, namespace: VICTIM}}\n",
            may_everywhere: &[WRITE_CLUSTER_POLICIES, "* configmaps"],
            attempt: cluster_policy!(made!("        - {name: v, globalReference: {name: UNIQUE}}\n")),
            rejected: &[
                "spec.rules[0].context[0].globalReference.name",
                "get, list, watch secrets in namespace `VICTIM`",
            ],
            ..TENANT
        },
        Attack {
            name: "a global context entry for what its author may not read",
            may_everywhere: &["get,create,update,patch globalcontextentries.kyverno.io"],
            attempt: "apiVersion: kyverno.io/v2alpha1\nkind: GlobalContextEntry\nmetadata: {name: UNIQUE}\nspec: {kubernetesResource: {version: v1, resource: secrets, namespace: VICTIM}}\n",
            rejected: &["spec.kubernetesResource", "get, list, watch secrets in namespace `VICTIM`"],
            ..TENANT
        },
    ]);
}

#[test]
fn what_is_written_is_asked_of_its_author() {
    run(&[
        Attack {
            name: "a target with a subresource after its kind",
            may: &[WRITE_POLICIES, "* secrets/status", "* configmaps"],
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: Secret/status, name: made, namespace: NS, data: {}}"
            ),
            rejected: &["spec.rules[0].generate", "create secrets in namespace `NS`"],
            never: &["secret NS/made"],
            ..TENANT
        },
        Attack {
            name: "a target that is kept in sync",
            may: &[WRITE_POLICIES, "create secrets", "* configmaps"],
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: Secret, name: made, namespace: NS, synchronize: true, data: {}}"
            ),
            rejected: &["spec.rules[0].generate", "delete, update secrets in namespace `NS`"],
            never: &["secret NS/made"],
            ..TENANT
        },
        Attack {
            name: "a binding of a role that the author may not bind",
            may: &[WRITE_POLICIES, "get,create,update,delete rolebindings.rbac.authorization.k8s.io", "* configmaps"],
            attempt: policy!(
                "      generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: made, namespace: NS, data: {roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: TENANT}]}}"
            ),
            rejected: &[
                "spec.rules[0].generate",
                "bind clusterroles.rbac.authorization.k8s.io `cluster-admin` in namespace `NS`",
            ],
            never: &["rolebinding NS/made"],
            ..TENANT
        },
        Attack {
            name: "a role that grants more than its author has",
            may: &[WRITE_POLICIES, "get,create,update,delete roles.rbac.authorization.k8s.io", "* configmaps"],
            attempt: policy!(
                "      generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, name: made, namespace: NS, data: {rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}}"
            ),
            rejected: &["spec.rules[0].generate", "escalate roles.rbac.authorization.k8s.io in namespace `NS`"],
            never: &["role NS/made"],
            ..TENANT
        },
        Attack {
            name: "a policy that another policy writes with Writ's permissions",
            attempt: policy!(
                "      generate: {apiVersion: kyverno.io/v1, kind: Policy, name: made, namespace: NS, data: {spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, generate: {apiVersion: v1, kind: Secret, name: x, namespace: NS}}]}}}"
            ),
            rejected: &["spec.rules[0].generate", "* *.* in namespace `NS`"],
            never: &["policies.kyverno.io NS/made"],
            ..TENANT
        },
        Attack {
            name: "whoever may do it himself is admitted",
            attempt: policy!(
                "      generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, synchronize: true, data: {data: {v: '{{ request.object.data.x }}'}}}"
            ),
            never: &[],
            still: &[MADE],
            ..TENANT
        },
    ]);
}
