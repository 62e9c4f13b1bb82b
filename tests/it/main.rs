//! One binary for everything that needs nothing but this checkout.
// A test that cannot go on has failed; there is nobody to tell more.
#![allow(clippy::unwrap_used)]

mod support;

mod admission;
mod advisories;
mod answers;
mod certificates;
mod envoy;
mod fuzz_corpus;
mod generate;
mod globals;
mod hostile;
mod intake;
mod jmespath;
mod layers;
mod manifests;
mod mesh;
mod migrate;
mod modify;
mod plan;
mod proxy_template;
mod readme;
mod registration;
mod serve;
mod server;
mod services;
mod supply_chain;
