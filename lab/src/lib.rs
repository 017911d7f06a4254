//! The laboratory: an experiment per file in [`commands`], and [`scenario`], which runs one that a file describes.
//!
//! Crate `tabane-kit` is the equipment; crate `tabane-papers` has the papers' experiments.
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
mod prelude;
pub mod scenario;

/// Three digits that matter, or all before the point; whole numbers as they are.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size.is_nan() => "–".to_string(),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.1234, 0.9999, 1.234, 12.34, 99.98, 1234.4, 7.0, f64::NAN].map(number);
        assert_eq!(shown, ["0", "0.123", "1.00", "1.23", "12.3", "100", "1234", "7", "–"]);
    }
}
