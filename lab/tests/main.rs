//! The whole: bundles with real traffic, and the pages, metrics and rules of the repository beside the code.

macro_rules! tests {
    ($($test:ident),* $(,)?) => { vec![$(crate::case::Case::new(stringify!($test), crate::case::NOTHING, $test)),*] };
}

mod case;
mod dissector;
mod documents;
mod gates;
mod metrics;
mod repository;
mod security;
mod tidy;
mod traffic;

use std::process::ExitCode;

use anyhow::Result;
use case::Case;
use libtest_mimic::{Arguments, Trial};
use tabane_kit::sandbox::{self, Side};

fn main() -> Result<ExitCode> {
    if let Some(done) = traffic::in_guest() {
        return done.map(|()| ExitCode::SUCCESS);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // they share the names of the sandbox
    let wanted = arguments.filter.clone().filter(|_| arguments.exact);
    let is_wanted = |case: &Case| case.is(wanted.as_deref());
    let mut trials: Vec<Trial> = without_traffic().filter(is_wanted).map(|case| case.trial(None)).collect();
    if wanted.is_none() || trials.is_empty() {
        if !arguments.list && !sandbox::is_inside() {
            traffic::build()?;
        }
        let lack = match sandbox::enter(&[]) {
            Ok(Side::Outside(code)) => return Ok(code),
            Ok(Side::Inside) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        let cases = traffic::cases().into_iter().filter(is_wanted);
        trials.extend(cases.map(|case| case.trial(lack.as_deref())));
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn without_traffic() -> impl Iterator<Item = Case> {
    macro_rules! all { ($($name:ident)*) => { [$((stringify!($name), $name::cases())),*] }; }
    let groups = all! { dissector documents gates metrics security tidy };
    groups.into_iter().flat_map(|(word, cases)| cases.into_iter().map(move |case| case.of(word)))
}

fn cases() -> impl Iterator<Item = Case> {
    without_traffic().chain(traffic::cases())
}
