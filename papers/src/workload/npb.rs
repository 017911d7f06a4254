//! The NAS Parallel Benchmarks, whoever has built them, over [MPI](super::mpi), and [what they exchange](exchange).
//!
//! They come as sources, which give a program for each kernel, class and, up to version 3.3, number of ranks.

pub mod exchange;

use tabane_kit::workload::mpi::Mpi;

use crate::prelude::*;

/// The class that the papers run, and smaller ones.
const CLASSES: [char; 4] = ['B', 'A', 'W', 'S'];
/// Longest run of one kernel.
const END_WITHIN: Duration = Duration::from_secs(600);

/// Runs `kernel` from the `directory` of the programs, and returns its speed in 10^6 operations per second.
pub fn run(mpi: &Mpi<'_>, directory: &Path, kernel: &str) -> Result<f64> {
    let program = find(directory, kernel, mpi.ranks())?;
    let output = mpi.run(&program, &[], END_WITHIN)?.success(kernel)?;
    speed(&output).with_context(|| kernel.to_string())
}

/// The program of `kernel`, of the largest class that is there: for this number of ranks, or as version 3.4 has it, for any.
fn find(directory: &Path, kernel: &str, ranks: usize) -> Result<PathBuf> {
    let names = CLASSES
        .into_iter()
        .flat_map(|class| [ranks.to_string(), "x".into()].map(|of| format!("{kernel}.{class}.{of}")));
    let found = names.map(|name| directory.join(name)).find(|path| path.is_file());
    let program = found.ok_or_else(|| {
        let (directory, class) = (directory.display(), CLASSES[1]);
        Missing::new(format!(
            "no {kernel} for {ranks} ranks in `{directory}`: build it in NPB's MPI sources with `make {kernel} CLASS={class} NPROCS={ranks}`"
        ))
    })?;
    program.canonicalize().with_context(|| program.display().to_string())
}

/// Reads what a kernel prints in the end: lines `NAME = VALUE`.
fn speed(output: &str) -> Result<f64> {
    let field = |name: &str| {
        let mut fields = output.lines().filter_map(|line| line.split_once('='));
        let (_, value) =
            fields.find(|(key, _)| key.trim() == name).with_context(|| format!("it does not tell {name}"))?;
        anyhow::Ok(value.trim())
    };
    let verified = field("Verification")?;
    ensure!(verified == "SUCCESSFUL", "its result is not verified: {verified}");
    let speed = field("Mop/s total")?;
    speed.parse().with_context(|| format!("Mop/s total = {speed}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OUTPUT: &str = " IS Benchmark Completed\n Class           =                        B\n \
                          Time in seconds =                     1.23\n Total processes =                        4\n \
                          Mop/s total     =                   272.61\n Mop/s/process   =                    68.15\n \
                          Operation type  =              keys ranked\n Verification    =               SUCCESSFUL\n";

    #[test]
    fn the_speed_of_a_verified_run_is_read() {
        assert_eq!(speed(OUTPUT).unwrap().to_bits(), 272.61_f64.to_bits());
        let complaint = speed(&OUTPUT.replace("SUCCESSFUL", "UNSUCCESSFUL")).unwrap_err().to_string();
        assert!(complaint.contains("not verified"), "{complaint}");
        assert!(speed(" Verification = SUCCESSFUL\n").is_err());
    }

    #[test]
    fn a_program_is_found_under_either_name() {
        let directory = tempfile::tempdir().unwrap();
        let complaint = find(directory.path(), "cg", 8).unwrap_err();
        assert!(
            complaint.is::<Missing>() && complaint.to_string().contains("no cg for 8 ranks"),
            "{complaint}"
        );
        for name in ["cg.S.8", "cg.A.x", "cg.A.8", "cg.B.x"] {
            fs::write(directory.path().join(name), "").unwrap();
            assert!(find(directory.path(), "cg", 8).unwrap().ends_with(name));
        }
    }
}
