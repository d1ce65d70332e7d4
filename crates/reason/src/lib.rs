//! FACTS -> WAITS -> GRAPH -> MEASURES -> RULES -> ANSWER. Pure: no I/O, no clock, no environment.
//!
//! The folders are the steps, in this order, and no step knows a later one: [`facts`] are pushed into a
//! [`model::Model`], which indexes them; `programs` is what is known of concrete ones; `waits` says what each wait is for; `graph` follows who would have to act for it to
//! end; `measure` computes the figures that several rules need; `rules` name ends; `answer` is what is said.

pub mod answer;
pub mod facts;
pub mod graph;
pub mod measure;
pub mod model;
pub mod programs;
pub mod rules;
pub mod threshold;
pub mod waits;

pub use answer::{
    Beside, Explained, explain, explain_beside, explain_model, look_at_model, network_of_model,
};
