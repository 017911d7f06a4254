//! The experiments: a file each, with its options, what it measures and what it prints.

pub mod attack;
pub mod bench;
pub mod compare;
pub mod demo;
pub mod engines;
pub mod figures;
pub mod guests;
pub mod moderation;
pub mod nics;
mod pair;
pub mod soak;
pub mod trace;

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    /// The parser finds out when it is built, and only where debug assertions are on.
    fn builds<T: Args>(name: &'static str) {
        T::augment_args(Command::new(name)).debug_assert();
    }

    #[test]
    fn no_option_of_a_command_stands_in_the_way_of_another() {
        builds::<attack::Options>("attack");
        builds::<bench::Options>("bench");
        builds::<compare::Options>("compare");
        builds::<demo::Options>("demo");
        builds::<engines::Options>("engines");
        builds::<figures::Options>("figures");
        builds::<guests::Options>("guests");
        builds::<moderation::Options>("moderation");
        builds::<nics::Options>("nics");
        builds::<soak::Options>("soak");
        builds::<trace::Options>("trace");
        builds::<crate::scenario::Options>("run");
    }
}
