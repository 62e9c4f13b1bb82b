//! Admission over HTTP, without the HTTP: a whole request in, a whole response out.
//!
//! `routes` answers what needs no cluster, `desk` what does; `review` reads and writes AdmissionReviews. `validate` judges
//! policies by their text, `policies` by the cluster as well; `mesh` completes and judges objects of the mesh; `resources`
//! takes in what rules have to know of requests, and `preview` tells what they would do. It knows no socket and no TLS; the
//! cluster is behind the traits of `port`.

mod desk;
mod mesh;
mod object;
mod policies;
mod port;
mod preview;
mod resources;
mod review;
mod reviewed;
mod routes;
mod validate;

pub use desk::{POLICIES, RESOURCES, handle as handle_with};
pub use mesh::MeshView;
pub use port::{Accounts, Counter, Office, Trouble, View};
pub use reviewed::ReviewKey;
pub use routes::{Answer, ENTRY_PATHS, Outcome, PATHS, handle, refuse_unauthenticated};
