//! Nothing runs that was not admitted, own writes are known by facts, and nothing is deleted by mistake.
