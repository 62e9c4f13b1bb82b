//! One binary for everything that needs nothing but this checkout.

mod support;

mod admission;
mod serve;
mod server;
