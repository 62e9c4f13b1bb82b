//! Tests against a real control plane. How to write one: see `support`.

mod support;

mod admission;
mod attacks;
mod certificates;
mod chaos;
mod definitions;
mod generate;
mod hostile;
mod mesh;
mod node;
mod proxy_template;
mod serving;
mod testbed;
