//! One binary for everything that needs nothing but this checkout.

mod support;

mod admission;
mod envoy;
mod fuzz_corpus;
<<<<<<< HEAD
mod generate;
=======
mod hostile;
>>>>>>> main
mod jmespath;
mod layers;
mod manifests;
mod proxy_template;
mod serve;
mod server;
