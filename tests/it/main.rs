//! One binary for everything that needs nothing but this checkout.

mod envoy;
