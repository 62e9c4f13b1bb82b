//! What needs nothing but this checkout.

mod mesh;
