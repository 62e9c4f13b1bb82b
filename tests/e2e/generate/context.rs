//! Context entries whose values come from elsewhere.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;

use super::rules::{Rule, secret};
use super::{VALUE, base64, stage};

/// A service on loopback that answers every POST with what was posted, below `echo`. It ends with the run.
fn start_echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(echo(stream))));
    port
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = format!("{{\"echo\": {}}}", String::from_utf8_lossy(&body));
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn an_object_takes_its_data_from_a_service() {
    let Some(stage) = stage("service") else { return };
    if stage.cluster.folder().is_none() {
        return; // Writ is not on this host, so it cannot reach the service.
    }
    let url = format!("http://127.0.0.1:{}/", start_echo());
    let data = json!([{"key": "said", "value": "{{request.object.data.value}}"}]);
    let call = json!({"service": {"url": url}, "method": "POST", "data": data, "jmesPath": "echo.said"});
    // Nobody listens on port 1.
    let silent = json!({"service": {"url": "http://127.0.0.1:1/"}, "default": "instead"});
    let context = json!([{"name": "said", "apiCall": call}, {"name": "silent", "apiCall": silent}]);
    let made = secret("made-{{request.object.metadata.name}}");
    let rule = Rule::new("service", made).making("data", json!({"stringData": {"value": "{{said}} {{silent}}"}}));
    stage.policy(rule.with("context", context).synchronized());
    stage.trigger("a", "hello");
    stage.becomes("secret", "made-a", VALUE, &base64("hello instead"));
    stage.trigger("a", "again");
    stage.becomes("secret", "made-a", VALUE, &base64("again instead"));
}
