// Figures as people read them: three digits and a unit, always as wide.

const UNITS = ["", "k", "M", "G", "T"];

/** Three digits and a prefix: `97.6 M`. */
export function scaled(value: number): string {
  let power = 0;
  while (value >= 999.5 && power < UNITS.length - 1) {
    value /= 1000;
    power += 1;
  }
  const digits = power === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[power]}`;
}

/** A rate in bits per second: `97.6 Mbit/s`. */
export function rate(bits: number | null | undefined): string {
  return bits == null ? "–" : `${scaled(bits)}bit/s`;
}

/** A time in microseconds: `1.24 ms`. */
export function duration(us: number | null | undefined): string {
  if (us == null) return "–";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e4 ? 2 : us < 1e5 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(2)} s`;
}

/** A share in percent. */
export function percent(value: number | null | undefined, digits = 0): string {
  return value == null ? "–" : `${value.toFixed(digits)} %`;
}

/** The time of day of an RFC 3339 time, in UTC as `tabane events` prints it. */
export function clock(time: string): string {
  return `${time.slice(11, 19)}Z`;
}

/** That of a moment in seconds since 1970. */
export function clockOf(seconds: number): string {
  return clock(new Date(seconds * 1000).toISOString());
}
