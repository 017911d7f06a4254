//! HPC Challenge: kernels that compute, exchange, or both, over [MPI](super::mpi).

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::mpi::Mpi;

/// Order of the linear system, from which HPC Challenge derives the sizes of most kernels: with some more than this, random
/// accesses take twice as long, and they are most of the time where ranks share processors.
const ORDER: usize = 720;
/// Order of the matrix that is transposed: 8 MB on each of four ranks.
const TRANSPOSED_ORDER: usize = 2_000;
/// Columns of a block.
const BLOCK: usize = 80;
/// Longest run; two kernels stop after a minute each by themselves.
const END_WITHIN: Duration = Duration::from_secs(600);

/// What HPC Challenge found out: `NAME=VALUE`, a line for each figure.
#[derive(Debug)]
pub struct Summary(String);

impl Summary {
    /// The figure `name`.
    ///
    /// # Errors
    /// There is no such figure.
    pub fn figure(&self, name: &str) -> Result<f64> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let value = value.with_context(|| format!("HPC Challenge does not tell {name}"))?;
        value.parse().with_context(|| format!("{name}={value}"))
    }

    /// The summary at the end of `report`.
    fn of(report: &str) -> Result<Summary> {
        let (_, summary) =
            report.split_once("Begin of Summary section.").context("HPC Challenge gives no summary")?;
        let summary = Summary(summary.to_string());
        ensure!(summary.figure("Success")? > 0.0, "HPC Challenge got a wrong result");
        Ok(summary)
    }
}

/// Runs all kernels.
///
/// # Errors
/// HPC Challenge fails, finds a result wrong, or does not end in time.
pub fn run(mpi: &Mpi<'_>) -> Result<Summary> {
    let place = |name: &str| mpi.directory().join(name);
    fs::write(place("hpccinf.txt"), input(mpi.ranks()))?;
    mpi.run(Path::new("hpcc"), &[], END_WITHIN)?.success("HPC Challenge")?;
    let output = fs::read_to_string(place("hpccoutf.txt")).context("the report of HPC Challenge")?;
    // It adds to a report that is there.
    fs::remove_file(place("hpccoutf.txt"))?;
    Summary::of(&output)
}

/// The input file, whose lines have fixed places; those that are not named belong to the linear system and are those of the
/// example that comes with the program.
fn input(ranks: usize) -> String {
    let (rows, columns) = grid(ranks);
    let lines = [
        "HPC Challenge input",
        "of the lab",
        "HPL.out  output file",
        "8  device out: a file",
        "1  number of orders",
        &format!("{ORDER}  order"),
        "1  number of block sizes",
        &format!("{BLOCK}  block size"),
        "0  mapping of processes: by rows",
        "1  number of grids",
        &format!("{rows}  rows"),
        &format!("{columns}  columns"),
        "16.0  threshold of the residual",
        "1  number of panel factorizations",
        "2  panel factorization: right",
        "1  number of stopping criteria",
        "4  stopping criterium",
        "1  number of divisions",
        "2  panels in the recursion",
        "1  number of recursive factorizations",
        "1  recursive factorization: Crout",
        "1  number of broadcasts",
        "1  broadcast: a modified ring",
        "1  number of depths",
        "1  depth of lookahead",
        "2  swap: mixed",
        "64  threshold of swapping",
        "0  L1 transposed",
        "0  U transposed",
        "1  equilibration",
        "8  alignment",
        "separator",
        "1  number of further matrices to transpose",
        &format!("{TRANSPOSED_ORDER}  order"),
        "0  number of further block sizes",
        "80  block sizes",
    ];
    lines.join("\n") + "\n"
}

/// The most square grid of that many processes, which has no more rows than columns.
fn grid(ranks: usize) -> (usize, usize) {
    let rows = (1..=ranks.isqrt()).rev().find(|rows| ranks.is_multiple_of(*rows)).unwrap_or(1);
    (rows, ranks / rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_holds_all_ranks() {
        assert_eq!([2, 4, 6, 7, 8].map(grid), [(1, 2), (2, 2), (2, 3), (1, 7), (2, 4)]);
    }

    #[test]
    fn places_in_the_input_are_those_that_the_program_reads() {
        let input = input(8);
        let line = |number: usize| input.lines().nth(number - 1).unwrap();
        assert!(line(6).starts_with("720 ") && line(11).starts_with("2 ") && line(12).starts_with("4 "));
        assert_eq!(line(32), "separator");
        assert!(line(34).starts_with("2000 "));
    }

    #[test]
    fn a_summary_is_read_by_whole_names() {
        let report = "StarSTREAM_Triad=9\nBegin of Summary section.\nSuccess=1\nMPIRandomAccess_LCG_GUPs=7\n\
                      MPIRandomAccess_GUPs=0.000515664\nStarSTREAM_Triad=19.5824\nEnd of Summary section.\n";
        let summary = Summary::of(report).unwrap();
        let [updates, triad] =
            ["MPIRandomAccess_GUPs", "StarSTREAM_Triad"].map(|name| summary.figure(name).unwrap());
        assert_eq!((updates.to_bits(), triad.to_bits()), (0.000515664_f64.to_bits(), 19.5824_f64.to_bits()));
        assert!(summary.figure("GUPs").is_err());
        let wrong = Summary::of(&report.replace("Success=1", "Success=0")).unwrap_err().to_string();
        assert!(wrong.contains("wrong result"), "{wrong}");
        assert!(Summary::of("StarSTREAM_Triad=9\n").is_err());
    }
}
