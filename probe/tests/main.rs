//! The program, its server and its statistics from outside.

mod commands;
mod scipy;
mod serve;
