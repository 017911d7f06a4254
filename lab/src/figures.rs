//! Quantities that an experiment measures, as a table in its code, and their samples.

use tabane_kit::report::{Report, Samples};

/// Something that can be measured.
pub(crate) trait Quantity: Copy + PartialEq + 'static {
    /// All of its experiment, in the order in which they are shown.
    const ALL: &'static [Self];

    /// Name in files.
    fn key(self) -> &'static str;

    /// Name and unit for people.
    fn label(self) -> &'static str;

    fn unit(self) -> &'static str;
}

/// Makes a [`Quantity`] of a table: name in files, name for people, unit.
macro_rules! quantities {
    ($(#[$meta:meta])* $name:ident {
        $($(#[doc = $doc:literal])* $variant:ident: $key:literal, $label:literal, $unit:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[doc = $doc])* $variant,)*
        }

        impl $crate::figures::Quantity for $name {
            const ALL: &'static [$name] = &[$($name::$variant),*];

            fn key(self) -> &'static str {
                match self { $($name::$variant => $key,)* }
            }

            fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }

            fn unit(self) -> &'static str {
                match self { $($name::$variant => $unit,)* }
            }
        }
    };
}
pub(crate) use quantities;

/// Samples of every quantity; one that was not measured stays empty.
#[derive(Clone, Debug)]
pub(crate) struct Sheet<Q>(Vec<(Q, Samples)>);

impl<Q: Quantity> Default for Sheet<Q> {
    fn default() -> Sheet<Q> {
        Sheet(Q::ALL.iter().map(|quantity| (*quantity, Samples::new(quantity.unit(), Vec::new()))).collect())
    }
}

impl<Q: Quantity> Sheet<Q> {
    pub(crate) fn push(&mut self, quantity: Q, value: f64) {
        let own = self.0.iter_mut().filter(|(own, _)| *own == quantity);
        own.for_each(|(_, samples)| samples.push(value));
    }

    /// NaN for what was not measured.
    pub(crate) fn median(&self, quantity: Q) -> f64 {
        self.0.iter().find(|(own, _)| *own == quantity).map_or(f64::NAN, |(_, samples)| samples.median())
    }

    /// Writes all samples into `report`, under names that begin with `name`.
    pub(crate) fn keep(&self, report: &mut Report, name: &str) {
        for (quantity, samples) in &self.0 {
            report.samples(format!("{name}.{}", quantity.key()), samples.clone());
        }
    }
}

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

    quantities! {
        Thing {
            Speed: "mbps", "speed, Mbit/s", "Mbit/s";
            Time: "ms", "time, ms", "ms";
        }
    }

    #[test]
    fn each_quantity_has_a_place_of_its_own() {
        let mut sheet = Sheet::default();
        sheet.push(Thing::Time, 3.0);
        assert_eq!(sheet.median(Thing::Time).to_bits(), 3.0_f64.to_bits());
        assert!(sheet.median(Thing::Speed).is_nan());
        assert_eq!((Thing::Speed.label(), Thing::ALL.len()), ("speed, Mbit/s", 2));
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.1234, 0.9999, 1.234, 12.34, 99.98, 1234.4, 7.0, f64::NAN].map(number);
        assert_eq!(shown, ["0", "0.123", "1.00", "1.23", "12.3", "100", "1234", "7", "–"]);
    }
}
