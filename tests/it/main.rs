//! One binary for everything that needs nothing but this checkout.

mod envoy;
mod layers;
mod manifests;
mod mesh;
mod proxy_template;
