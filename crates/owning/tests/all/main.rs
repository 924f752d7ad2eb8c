//! Managers over a real socket: what they learn and bring about, and what they cannot do to others.

mod attacks;
mod client;
mod protocol;
