//! `writ inspect get`: one body of the Inspect API.

use std::io::Write;

use super::files::MeshFiles;
use crate::cli::Outcome;
use crate::inspect::{InspectRequest, answer};

/// Print the body that the Inspect API answers for a path, from files instead of a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  writ inspect get /meshes/default/dataplanes/web-1/_rules -f mesh/
  writ inspect get '/meshes/default/dataplanes/web-1/_rules?view=sparse' -f mesh/ | jq '.rules[].type'
  writ inspect get /meshes/default/meshtimeouts/slow/_resources/dataplanes -f mesh.yaml
  writ inspect get /meshes/default/meshservices/backend/_dataplanes -f mesh.yaml
  writ inspect get /_kri/kri_msvc_default_east_shop_backend_ -f mesh.yaml

Objects of Kubernetes get the labels that the webhook adds (mesh, namespace, zone, role).
Names in paths are core names: NAME, or NAME.NAMESPACE for an object of a Kubernetes namespace.

Exit codes: 0 answered, 1 the answer is an error (its body is printed), 2 could not run.")]
pub(super) struct Get {
    /// The path, with its query if it has one
    #[arg(value_name = "PATH")]
    path: String,
    #[command(flatten)]
    files: MeshFiles,
}

impl Get {
    pub(super) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> anyhow::Result<Outcome> {
        let snapshot = self.files.load(talk)?;
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let answer = answer(&snapshot, &InspectRequest { path, query, base: "" });
        out.write_all(answer.body.as_bytes())?;
        Ok(if answer.status < 400 { Outcome::Clean } else { Outcome::Findings })
    }
}
