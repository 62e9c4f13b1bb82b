//! `foreach`, `dataList` and look-ups.

use super::{ON_TRIGGER, VALUE, base64, stage};

#[test]
fn every_element_gets_its_object() {
    let Some(stage) = stage("foreach") else { return };
    stage.policy(&format!(
        r#"
- name: each
  {ON_TRIGGER}
  generate:
    synchronize: true
    foreach:
      - list: "request.object.data.value | split(@, ',')"
        apiVersion: v1
        kind: Secret
        name: "each-{{{{elementIndex}}}}-{{{{element}}}}"
        namespace: NS
        data: {{stringData: {{value: "{{{{element}}}}"}}}}
"#
    ));
    stage.trigger("a", "x,y");
    stage.becomes("secret", "each-0-x", VALUE, &base64("x"));
    stage.becomes("secret", "each-1-y", VALUE, &base64("y"));
    stage.trigger("a", "x");
    stage.fence();
    stage.is_there("secret", "each-1-y");
    stage.delete("configmap", "a");
    stage.disappears("secret", "each-0-x");
    stage.disappears("secret", "each-1-y");
}

#[test]
fn context_is_read_when_the_rule_runs() {
    let Some(stage) = stage("context") else { return };
    stage.ns.kubectl(["create", "configmap", "settings", "--from-literal=color=red"]).ok();
    stage.policy(&format!(
        r#"
- name: out
  {ON_TRIGGER}
  context:
    - {{name: settings, configMap: {{name: settings, namespace: NS}}}}
    - {{name: names, apiCall: {{urlPath: "/api/v1/namespaces/NS/configmaps", jmesPath: "length(items[?metadata.name=='settings'])"}}}}
  generate:
    apiVersion: v1
    kind: Secret
    name: "out-{{{{request.object.metadata.name}}}}"
    namespace: NS
    synchronize: true
    data: {{stringData: {{value: "{{{{settings.data.color}}}} {{{{names}}}}"}}}}
"#
    ));
    stage.trigger("a", "x");
    stage.becomes("secret", "out-a", VALUE, &base64("red 1"));
}

#[test]
fn defaults_of_the_api_server_are_no_edits() {
    let Some(stage) = stage("defaults") else { return };
    stage.policy(&format!(
        r#"
- name: out
  {ON_TRIGGER}
  generate:
    apiVersion: v1
    kind: Service
    name: "out-{{{{request.object.metadata.name}}}}"
    namespace: NS
    synchronize: true
    data: {{spec: {{type: ExternalName, externalName: example.org, ports: [{{port: 80}}]}}}}
"#
    ));
    stage.trigger("a", "1");
    stage.appears("service", "out-a");
    let version = stage.field("service", "out-a", ".metadata.resourceVersion");
    stage.trigger("a", "2");
    stage.fence();
    assert_eq!(
        stage.field("service", "out-a", ".metadata.resourceVersion"),
        version,
        "written although nothing changed"
    );
    stage.patch("service", "out-a", r#"{"spec": {"externalName": "example.com"}}"#);
    stage.becomes("service", "out-a", ".spec.externalName", "example.org");
}
