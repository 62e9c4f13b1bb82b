//! One binary for everything that needs nothing but this checkout.

mod support;

mod admission;
mod envoy;
mod fuzz_corpus;
mod generate;
mod hostile;
mod jmespath;
mod layers;
mod manifests;
mod proxy_template;
mod registration;
mod serve;
mod server;
