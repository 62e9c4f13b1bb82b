//! The content of Secrets stays inside.
