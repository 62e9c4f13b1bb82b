//! Group `kyverno.io`: ClusterPolicy, Policy, PolicyException, GlobalContextEntry and UpdateRequest.
//!
//! Whatever applies to Kyverno's own definitions applies to these. Rules of other types than generate are kept as they are
//! written; fields that no one knows are kept for admission, which refuses them with the name that was probably meant.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::definition::{Column, Definition, Scope};
use super::schema::{flag, flag_default, integer, list, map, object, open, open_object, requiring, text, texts, word};

const GROUP: &str = "kyverno.io";
const VERSIONS: &[&str] = &["v1", "v2beta1"];
const CATEGORIES: &[&str] = &["kyverno"];
const POLICY_COLUMNS: &[Column] = &[
    Column::flag("Admission", ".spec.admission"),
    Column::flag("Background", ".spec.background"),
    Column::text("Ready", ".status.conditions[?(@.type == \"Ready\")].status"),
    Column::wide_number("Generate", ".status.rulecount.generate"),
    Column::wide_number("Validate", ".status.rulecount.validate"),
    Column::wide_number("Mutate", ".status.rulecount.mutate"),
    Column::wide_number("Verify Images", ".status.rulecount.verifyimages"),
    Column::wide_text("Message", ".status.conditions[?(@.type == \"Ready\")].message"),
];

const ENTRY_COLUMNS: &[Column] = &[
    Column::text("Ready", ".status.conditions[?(@.type == \"Ready\")].status"),
    Column::text("Refresh Interval", ".spec.apiCall.refreshInterval"),
    Column::text("Last Refresh", ".status.lastRefreshTime"),
    Column::wide_text("Message", ".status.conditions[?(@.type == \"Ready\")].message"),
];

const REQUEST_COLUMNS: &[Column] = &[
    Column::text("Policy", ".spec.policy"),
    Column::text("Type", ".spec.requestType"),
    Column::text("State", ".status.state"),
    Column::wide_number("Retries", ".status.retryCount"),
    Column::wide_text("Message", ".status.message"),
];

/// Rules for the whole cluster.
pub(super) fn cluster_policy() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        versions: VERSIONS,
        kind: "ClusterPolicy",
        plural: "clusterpolicies",
        short_names: &["cpol"],
        categories: CATEGORIES,
        scope: Scope::Cluster,
        status: true,
        columns: POLICY_COLUMNS,
        schema: policy_schema(
            "Rules for the whole cluster: when a trigger appears, other objects are made and kept in step.",
        ),
    }
    .build()
}

/// Data that is kept at hand for the rules of all policies.
pub(super) fn global_context_entry() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        versions: &["v2alpha1", "v2beta1"],
        kind: "GlobalContextEntry",
        plural: "globalcontextentries",
        short_names: &["gctxentry"],
        categories: CATEGORIES,
        scope: Scope::Cluster,
        status: true,
        columns: ENTRY_COLUMNS,
        schema: whole(
            "Data that is kept at hand for the rules of all policies, which name it in globalReference.",
            entry_spec(),
            object(
                "How the entry stands.",
                [
                    ("conditions", list("Exactly one, of type Ready.", condition("Of the entry."))),
                    (
                        "lastRefreshTime",
                        json!({"type": "string", "format": "date-time", "description": "When the data was last read as a whole."}),
                    ),
                    ("ready", flag("No longer used.")),
                ],
            ),
        ),
    }
    .build()
}

/// Rules for one namespace.
pub(super) fn policy() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        versions: VERSIONS,
        kind: "Policy",
        plural: "policies",
        short_names: &["pol"],
        categories: CATEGORIES,
        scope: Scope::Namespaced,
        status: true,
        columns: POLICY_COLUMNS,
        schema: policy_schema(
            "Rules for the namespace that the policy is in: triggers, sources and targets are all there.",
        ),
    }
    .build()
}

/// Triggers that are taken out of rules.
pub(super) fn policy_exception() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        versions: &["v2", "v2beta1"],
        kind: "PolicyException",
        plural: "policyexceptions",
        short_names: &["polex"],
        categories: CATEGORIES,
        scope: Scope::Namespaced,
        status: false,
        columns: &[],
        schema: exception_schema(),
    }
    .build()
}

/// One piece of work that must not be lost: what an admission request asked of some rules.
pub(super) fn update_request() -> CustomResourceDefinition {
    Definition {
        group: GROUP,
        versions: &["v2"],
        kind: "UpdateRequest",
        plural: "updaterequests",
        short_names: &["ur"],
        categories: CATEGORIES,
        scope: Scope::Namespaced,
        status: true,
        columns: REQUEST_COLUMNS,
        schema: whole(
            "Work that an admission request has caused and that is not done yet. None is there when nothing is to do.",
            request_spec(),
            object(
                "How far the work is.",
                [
                    (
                        "state",
                        word("Where it stands; absent means Pending.", &["Pending", "Failed", "Completed", "Skip"]),
                    ),
                    ("message", text("What went wrong last.")),
                    ("generatedResources", list("Objects that were made, or that are to be deleted.", reference())),
                    ("retryCount", integer("How often it was tried again.")),
                ],
            ),
        ),
    }
    .build()
}

fn whole(description: &str, spec: Value, status: Value) -> Value {
    let mut schema = without_status(description, spec);
    schema["properties"]["status"] = status;
    schema
}

fn without_status(description: &str, spec: Value) -> Value {
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    })
}

fn exception_schema() -> Value {
    let entry = requiring(
        object(
            "Rules of policies.",
            [
                ("policyName", text("`name` of a ClusterPolicy, `namespace/name` of a Policy; `*` and `?` match.")),
                ("ruleNames", texts("Names of rules; `*` and `?` match, one suffices.")),
            ],
        ),
        &["policyName", "ruleNames"],
    );
    let filter = || object("Attributes that must all hold.", filter_fields());
    let matching = object(
        "Which triggers are taken out of the rules.",
        [("any", list("One of these must hold.", filter())), ("all", list("All of these must hold.", filter()))],
    );
    let spec = requiring(
        object(
            "What is excepted from what.",
            [
                ("exceptions", list("The rules that triggers are taken out of.", entry)),
                ("match", matching),
                (
                    "conditions",
                    open("Conditions that must hold besides: {any: […], all: […]} of {key, operator, value}."),
                ),
                (
                    "background",
                    flag(
                        "False allows the exception to ask who made the request; it then counts only where that is known.",
                    ),
                ),
                (
                    "podSecurity",
                    list(
                        "For validate rules; generate rules do not look at it.",
                        open_object("Controls of a standard."),
                    ),
                ),
            ],
        ),
        &["exceptions", "match"],
    );
    without_status("Takes triggers out of rules without touching the policies.", spec)
}

fn policy_schema(description: &str) -> Value {
    let mut action =
        word("For validate rules; generate rules do not look at it.", &["audit", "enforce", "Audit", "Enforce"]);
    action["default"] = "Audit".into();
    let failure = || word("What the API server does when the webhook does not answer.", &["Fail", "Ignore"]);
    let spec = object(
        "What the policy does.",
        [
            ("rules", list("The rules, in the order in which they are tried.", rule())),
            (
                "applyRules",
                word(
                    "`One` stops after the first rule that does not skip the trigger; `All` is the default.",
                    &["All", "One"],
                ),
            ),
            ("admission", flag_default("Must not be false if a rule generates.", true)),
            (
                "background",
                flag_default("Whether rules may run without a request; false allows requester variables.", true),
            ),
            ("emitWarning", flag_default("For validate rules.", false)),
            ("failurePolicy", with_note(failure(), "Deprecated: use webhookConfiguration.failurePolicy.")),
            (
                "generateExisting",
                flag("Run for triggers that exist already. Deprecated: use generate.generateExisting of the rule."),
            ),
            (
                "generateExistingOnPolicyUpdate",
                flag("Removed: use generate.generateExisting of the rule. Any value is refused."),
            ),
            ("mutateExistingOnPolicyUpdate", flag("For mutate rules.")),
            ("schemaValidation", flag("Deprecated, without effect.")),
            (
                "useServerSideApply",
                flag(
                    "Write generated objects by server-side apply: fields of others stay. Otherwise the object is replaced.",
                ),
            ),
            ("validationFailureAction", action),
            (
                "validationFailureActionOverrides",
                list("For validate rules.", open_object("Another action for some namespaces.")),
            ),
            ("webhookConfiguration", webhook_configuration(failure())),
            ("webhookTimeoutSeconds", integer("Deprecated: use webhookConfiguration.timeoutSeconds. From 1 to 30.")),
        ],
    );
    whole(description, spec, policy_status())
}

fn with_note(mut schema: Value, note: &str) -> Value {
    schema["description"] = note.into();
    schema
}

fn webhook_configuration(failure: Value) -> Value {
    let condition = requiring(
        object(
            "One condition.",
            [
                ("name", text("A name for messages of the API server.")),
                ("expression", text("A CEL expression over object, oldObject, request and authorizer.")),
            ],
        ),
        &["name", "expression"],
    );
    object(
        "How the API server calls the webhook for this policy.",
        [
            ("failurePolicy", failure),
            ("timeoutSeconds", integer("How long the API server waits, from 1 to 30 seconds.")),
            (
                "matchConditions",
                list("Conditions that a request must meet to be sent to the webhook at all.", condition),
            ),
        ],
    )
}

fn rule() -> Value {
    let mut name = text("The name, unique in the policy; it becomes a label of generated objects.");
    name["maxLength"] = 63.into();
    requiring(
        object(
            "One rule: exactly one of generate, validate, mutate and verifyImages.",
            [
                ("name", name),
                ("match", block("Which triggers the rule is for: any, all, or the older form with resources.")),
                ("exclude", block("Which of them it is not for after all.")),
                ("context", context()),
                ("preconditions", open("Conditions that must hold: {any: […], all: […]} of {key, operator, value}.")),
                (
                    "skipBackgroundRequests",
                    flag_default("Whether requests of the background account itself trigger nothing.", true),
                ),
                ("reportProperties", map("Properties for reports.")),
                ("generate", generate()),
                ("celPreconditions", list("Not for generate rules.", open_object("One CEL condition."))),
                ("imageExtractors", open_object("For rules on images.")),
                ("validate", open_object("A validate rule: kept, and not run by Writ.")),
                ("mutate", open_object("A mutate rule: kept, and not run by Writ.")),
                (
                    "verifyImages",
                    list("A verifyImages rule: kept, and not run by Writ.", open_object("One image rule.")),
                ),
            ],
        ),
        &["name", "match"],
    )
}

/// `match` and `exclude`.
fn block(description: &str) -> Value {
    let filter = || object("Attributes that must all hold.", filter_fields());
    let mut fields = filter_fields();
    fields.push(("any", list("One of these must hold.", filter())));
    fields.push(("all", list("All of these must hold.", filter())));
    object(description, fields)
}

fn filter_fields() -> Vec<(&'static str, Value)> {
    let subject = requiring(
        object(
            "A requester.",
            [
                ("kind", text("User, Group or ServiceAccount.")),
                ("name", text("Its name; `*` and `?` match.")),
                ("namespace", text("The namespace of a ServiceAccount.")),
                ("apiGroup", text("Of no account.")),
            ],
        ),
        &["kind", "name"],
    );
    vec![
        ("resources", resources()),
        ("subjects", list("Who must have asked.", subject)),
        ("roles", texts("Roles of the requester as namespace:name; one suffices.")),
        ("clusterRoles", texts("ClusterRoles of the requester; one suffices.")),
    ]
}

fn resources() -> Value {
    let operation = word("An operation.", &["CREATE", "CONNECT", "UPDATE", "DELETE"]);
    object(
        "Attributes of the object.",
        [
            ("kinds", texts("Kind, version/Kind, group/version/Kind, each optionally with /subresource; `*` matches.")),
            ("name", text("Deprecated: use names.")),
            ("names", texts("Names, with `*` and `?`; one suffices.")),
            ("namespaces", texts("Namespaces, with `*` and `?`; one suffices.")),
            ("annotations", map("Annotations that must be there; `*` and `?` match in keys and values.")),
            ("selector", selector("By the labels of the object; `*` and `?` match.")),
            ("namespaceSelector", selector("By the labels of its namespace; never matches a Namespace.")),
            ("operations", list("What the request does; without it, any operation.", operation)),
        ],
    )
}

fn selector(description: &str) -> Value {
    let requirement = requiring(
        object(
            "One requirement.",
            [
                ("key", text("The label.")),
                ("operator", text("In, NotIn, Exists or DoesNotExist.")),
                ("values", texts("For In and NotIn.")),
            ],
        ),
        &["key", "operator"],
    );
    object(
        description,
        [
            ("matchLabels", map("Labels with their values.")),
            ("matchExpressions", list("Requirements that must all hold.", requirement)),
        ],
    )
}

fn context() -> Value {
    list(
        "Named values for expressions, in order; each has exactly one source.",
        object(
            "One named value.",
            [
                ("name", text("The name in expressions.")),
                ("configMap", open_object("A ConfigMap: {namespace, name}.")),
                ("apiCall", open_object("A call of the API server: {urlPath, method, data, jmesPath, default}.")),
                ("imageRegistry", open_object("Data of an image: {reference, jmesPath}.")),
                ("variable", open_object("A computed value: {value, jmesPath, default}.")),
                ("globalReference", open_object("A global context entry: {name, jmesPath}.")),
            ],
        ),
    )
}

fn generate() -> Value {
    let mut fields = output_fields();
    let mut existing = flag("Run for triggers that exist already.");
    existing["nullable"] = true.into();
    fields.extend([
        ("synchronize", flag("Keep generated objects in step with trigger, source and rule.")),
        ("orphanDownstreamOnPolicyDelete", flag("Keep generated objects when the policy or the rule is deleted.")),
        ("generateExisting", existing),
        ("foreach", list("The same for each element of a list.", loop_entry())),
    ]);
    object("What to make: one of data, clone, dataList, cloneList and foreach, or a bare object.", fields)
}

fn loop_entry() -> Value {
    let mut fields = output_fields();
    fields.extend([
        ("list", text("A JMESPath expression that gives the elements.")),
        ("context", context()),
        ("preconditions", open("Conditions on each element: {any: […], all: […]}.")),
    ]);
    object("One loop: one of data, clone, dataList and cloneList, for each element.", fields)
}

fn output_fields() -> Vec<(&'static str, Value)> {
    let source = object(
        "The object to copy; it has the kind of the target.",
        [("namespace", text("Its namespace.")), ("name", text("Its name."))],
    );
    vec![
        ("apiVersion", text("Of the target.")),
        ("kind", text("Of the target.")),
        ("name", text("Of the target.")),
        ("namespace", text("Of the target; none if its kind is cluster-scoped.")),
        ("uid", text("Without effect.")),
        ("data", open("The body of the target.")),
        ("clone", source),
        (
            "dataList",
            list(
                "Several bodies, each with its own identity: {apiVersion, kind, name, namespace, data}.",
                open_object("One."),
            ),
        ),
        (
            "cloneList",
            open(
                "Several sources: {namespace, kinds, selector}, or {list: [{source, target}]}; in foreach also such a list itself.",
            ),
        ),
    ]
}

fn entry_spec() -> Value {
    let resource = object(
        "All objects of a resource, as a list that follows their changes.",
        [
            ("group", text("The group of the resource; none for the core group.")),
            ("version", text("The version of the resource.")),
            ("resource", text("The plural name of the resource.")),
            ("namespace", text("The only namespace; all of them if there is none.")),
        ],
    );
    let pair = |note: &str, value: Value| object(note, [("key", text("Its name.")), ("value", value)]);
    let service = object(
        "A service outside the API server.",
        [
            ("url", text("Its address.")),
            ("headers", list("Headers to send.", pair("One header.", text("Its value.")))),
            ("caBundle", text("The authorities to trust, in PEM; those of the system if there is none.")),
        ],
    );
    let call = object(
        "What a call answers, asked again and again: exactly one of urlPath and service.",
        [
            ("urlPath", text("A path of the API server.")),
            ("service", service),
            ("method", word("GET unless said.", &["GET", "POST"])),
            ("data", list("The body of a POST.", pair("One field.", open("Its value.")))),
            ("refreshInterval", text("How often to ask, such as 10m, which it is unless said.")),
            ("retryLimit", integer("How often a call that fails is tried again; 3 unless said.")),
        ],
    );
    let projection = object(
        "One value.",
        [("name", text("Used as `entry.name`.")), ("jmesPath", text("A JMESPath expression over the data."))],
    );
    object(
        "Where the data comes from: exactly one of kubernetesResource and apiCall.",
        [
            ("kubernetesResource", resource),
            ("apiCall", call),
            ("projections", list("Values that are made of the data, each with a name.", projection)),
        ],
    )
}

fn condition(of: &str) -> Value {
    requiring(
        object(
            "One condition.",
            [
                ("type", text("Ready.")),
                ("status", word("Whether it holds.", &["True", "False", "Unknown"])),
                ("reason", text("Succeeded or Failed.")),
                ("message", text("For people.")),
                ("observedGeneration", json!({"type": "integer", "format": "int64", "description": of})),
                (
                    "lastTransitionTime",
                    json!({"type": "string", "format": "date-time", "description": "When the status last changed."}),
                ),
            ],
        ),
        &["type", "status"],
    )
}

fn policy_status() -> Value {
    let count = object(
        "How many rules there are of each type.",
        [
            ("generate", integer("Generate rules.")),
            ("validate", integer("Validate rules.")),
            ("mutate", integer("Mutate rules.")),
            ("verifyimages", integer("Rules on images.")),
        ],
    );
    object(
        "What became of the policy.",
        [
            ("conditions", list("Exactly one, of type Ready.", condition("Of the policy."))),
            ("rulecount", count),
            ("autogen", open_object("Always empty where a rule generates.")),
            ("ready", flag("No longer used.")),
            ("validatingadmissionpolicy", open_object("Always {generated: false} where a rule generates.")),
        ],
    )
}

fn request_spec() -> Value {
    let entry = object(
        "One rule and its trigger.",
        [
            ("rule", text("The rule.")),
            ("trigger", reference()),
            ("deleteDownstream", flag("Delete what the trigger has brought about, instead of making it.")),
            ("synchronize", flag("Whether the rule keeps its objects in step.")),
            ("cacheRestore", flag("Not used.")),
        ],
    );
    object(
        "The work.",
        [
            ("requestType", word("The type of work.", &["generate", "mutate", "cel-generate", "cel-mutate"])),
            ("policy", text("The policy, as name or namespace/name.")),
            ("ruleContext", list("The rules and their triggers.", entry)),
            (
                "context",
                open_object(
                    "What only admission knew: {userInfo: {roles, clusterRoles, userInfo}, admissionRequestInfo: \
                     {admissionRequest, operation}}.",
                ),
            ),
            ("rule", text("Older form of ruleContext.")),
            ("resource", reference()),
            ("deleteDownstream", flag("Older form of ruleContext.")),
            ("synchronize", flag("Older form of ruleContext.")),
        ],
    )
}

fn reference() -> Value {
    object(
        "An object.",
        [
            ("apiVersion", text("Its version.")),
            ("kind", text("Its kind.")),
            ("namespace", text("Its namespace.")),
            ("name", text("Its name.")),
            ("uid", text("Its UID.")),
        ],
    )
}
