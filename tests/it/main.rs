//! One binary for everything that needs nothing but this checkout.

mod support;

mod admission;
mod envoy;
mod fuzz_corpus;
mod jmespath;
mod layers;
mod manifests;
mod mesh;
mod proxy_template;
mod serve;
mod server;
