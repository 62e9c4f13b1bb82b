//! A mesh from files.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use serde_json::Value;

use crate::cli::load::{self, Source};
use crate::cli::serve::ControlPlaneArgs;
use crate::compile::mesh::admission::{self, ControlPlane, Operation, Request};
use crate::core::json::Document;
use crate::core::resource::text_at;
use crate::core::yaml::YamlError;
use crate::index::mesh::{MeshIndex, MeshSnapshot};

/// Where the mesh is read from.
#[derive(Debug, clap::Args)]
pub(super) struct MeshFiles {
    /// Files or folders with the resources and policies of the mesh (YAML or JSON); `-` reads standard input
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    plane: ControlPlaneArgs,
}

impl MeshFiles {
    /// Reads all documents. Those of other kinds are skipped.
    pub(super) fn load(self, talk: &mut dyn Write) -> anyhow::Result<MeshSnapshot> {
        let plane = self.plane.resolve()?;
        let mut index = MeshIndex::default();
        for source in load::sources(&self.files)? {
            for document in documents(&source) {
                let document = match document {
                    Ok(document) => document,
                    Err(error) => bail!("{}: {error}", source.file),
                };
                match admitted(document, &plane) {
                    Ok(document) => drop(index.apply(&document)),
                    Err(reason) => writeln!(talk, "{}: skipped: {reason}", source.file)?,
                }
            }
        }
        Ok(index.snapshot())
    }
}

/// The object with the labels that the webhook adds. Universal resources have all their labels.
fn admitted(mut document: Value, plane: &ControlPlane) -> Result<Value, String> {
    let operations = {
        let borrowed = Document::from(&document);
        let request = Request {
            operation: Operation::Create,
            user: plane.privileged.first().map(String::as_str).unwrap_or_default(),
            namespace: text_at(&document, &["metadata", "namespace"]),
            object: borrowed.root(),
        };
        admission::defaults(&request, plane).map_err(|refusal| {
            let (kind, name) = (text_at(&document, &["kind"]), text_at(&document, &["metadata", "name"]));
            format!("{kind} {name}: {}", refusal.message)
        })?
    };
    json_patch::patch(&mut document, &operations).map_err(|error| error.to_string())?;
    Ok(document)
}

/// The documents of a file. Universal resources are read as the peer's command line reads them: it cuts a file at lines of
/// dashes and trims each piece first, so a block of text at its end has no line break.
fn documents(source: &Source) -> Vec<Result<Value, YamlError>> {
    let read = |piece: &str| -> Vec<Result<Value, YamlError>> {
        let loaded = load::split(&source.file, piece).into_iter();
        loaded.map(|loaded| loaded.document.map(|placed| placed.value)).collect()
    };
    let is_universal = |document: &Result<Value, YamlError>| {
        document.as_ref().is_ok_and(|document| document.get("type").is_some() && document.get("apiVersion").is_none())
    };
    let mut documents = Vec::new();
    for piece in pieces(&source.text) {
        let whole = read(&piece);
        documents.extend(if whole.iter().all(is_universal) { read(piece.trim_end()) } else { whole });
    }
    documents.retain(|document| !matches!(document, Ok(Value::Null)));
    documents
}

/// The text between lines of dashes, each piece with the line breaks before it, so that errors name the right line.
fn pieces(text: &str) -> Vec<String> {
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" {
            pieces.push(std::mem::replace(&mut piece, "\n".repeat(number + 1)));
        } else {
            piece.push_str(line);
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}
