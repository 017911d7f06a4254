//! Seats over memory that they share: beside a plain queue, and beside a neighbour that writes nonsense.

mod hostile;
mod queue;
mod words;
