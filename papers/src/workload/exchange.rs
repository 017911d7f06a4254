//! What the NAS Parallel Benchmarks exchange: for each kernel, the messages of one of its iterations, with partners and sizes as
//! the sources of version 3.3 (MPI) have them.
//!
//! Only `ep` computes here; of the others the exchange alone is left. So a second link shows in the whole kernel by less than it
//! does here, by as much less as the kernel computes.

use std::time::Duration;

const DOUBLE: usize = 8;
const INTEGER: usize = 4;
/// Unknowns of a point in lu, sp and bt.
const UNKNOWNS: usize = 5;
/// Layers of a face that they exchange.
const LAYERS: usize = 2;
const COMPUTED: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Random numbers, nearly without exchange.
    Ep,
    /// A transform in three dimensions: all to all, large.
    Ft,
    /// A sort: all to all, smaller.
    Is,
    /// Conjugate gradients: sums along rows, and the transposed rank.
    Cg,
    /// Multigrid: faces to neighbours, large ones and small ones.
    Mg,
    /// A wave front of many small messages.
    Lu,
    /// Lines solved rank by rank, scalar.
    Sp,
    /// The same in blocks.
    Bt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A workstation's of 1994.
    W,
    /// Larger.
    A,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends so many bytes to a rank, and does not wait.
    Send(usize, usize),
    /// Waits for so many bytes from a rank.
    Receive(usize, usize),
    Compute(Duration),
}

impl Kernel {
    /// All, in the order of the paper's figure.
    pub const ALL: [Kernel; 8] =
        [Kernel::Ep, Kernel::Ft, Kernel::Is, Kernel::Cg, Kernel::Mg, Kernel::Lu, Kernel::Sp, Kernel::Bt];

    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Ep => "ep",
            Kernel::Ft => "ft",
            Kernel::Is => "is",
            Kernel::Cg => "cg",
            Kernel::Mg => "mg",
            Kernel::Lu => "lu",
            Kernel::Sp => "sp",
            Kernel::Bt => "bt",
        }
    }

    /// Whether it runs on so many ranks: powers of two, and of sp and bt squares of those.
    pub const fn runs_on(self, ranks: usize) -> bool {
        let is_square = ranks.isqrt() * ranks.isqrt() == ranks;
        ranks.is_power_of_two() && ranks > 1 && (is_square || !matches!(self, Kernel::Sp | Kernel::Bt))
    }

    /// What rank `rank` of `ranks` does in one iteration; of cg, in one step of an iteration.
    ///
    /// # Panics
    /// It does not run on so many ranks.
    pub fn steps(self, class: Class, ranks: usize, rank: usize) -> Vec<Step> {
        assert!(self.runs_on(ranks), "{} does not run on {ranks} ranks", self.name());
        let mut of = Rank { ranks, rank, steps: Vec::new() };
        let size = self.size(class);
        match self {
            Kernel::Ep => of.random_numbers(),
            Kernel::Ft => of.transpose(size),
            Kernel::Is => of.sort(size),
            Kernel::Cg => of.conjugate_gradient(size),
            Kernel::Mg => of.v_cycle(size),
            Kernel::Lu => of.wave_front(size),
            Kernel::Sp => of.lines(size, 22, 10),
            // Blocks of 5 x 5 and right sides forwards, solutions backwards, of cells that are padded by a layer.
            Kernel::Bt => of.lines(size, 30, 5),
        }
        of.steps
    }

    const fn size(self, class: Class) -> usize {
        match (self, class) {
            (Kernel::Ep, _) => 0,
            (Kernel::Ft, Class::W) => 128 * 128 * 32,
            (Kernel::Ft, Class::A) => 256 * 256 * 128,
            (Kernel::Is, Class::W) => 1 << 20,
            (Kernel::Is, Class::A) => 1 << 23,
            (Kernel::Cg, Class::W) => 7_000,
            (Kernel::Cg, Class::A) => 14_000,
            (Kernel::Mg, Class::W) => 128,
            (Kernel::Mg, Class::A) => 256,
            (Kernel::Lu, Class::W) => 33,
            (Kernel::Sp, Class::W) => 36,
            (Kernel::Bt, Class::W) => 24,
            (Kernel::Lu | Kernel::Sp | Kernel::Bt, Class::A) => 64,
        }
    }
}

struct Rank {
    ranks: usize,
    rank: usize,
    steps: Vec<Step>,
}

impl Rank {
    fn send(&mut self, to: usize, bytes: usize) {
        self.steps.push(Step::Send(to, bytes));
    }

    fn receive(&mut self, from: usize, bytes: usize) {
        self.steps.push(Step::Receive(from, bytes));
    }

    /// Sends to `to` and receives as much from `from`; a rank that is its own partner does neither.
    fn exchange(&mut self, to: usize, from: usize, bytes: usize) {
        if to != self.rank {
            self.send(to, bytes);
            self.receive(from, bytes);
        }
    }

    /// A sum over all ranks, by doubling.
    fn all_reduce(&mut self, bytes: usize) {
        for distance in (0..self.ranks.ilog2()).map(|level| 1 << level) {
            self.exchange(self.rank ^ distance, self.rank ^ distance, bytes);
        }
    }

    fn all_to_all(&mut self, bytes: usize) {
        let place = |distance: usize| (self.rank + distance) % self.ranks;
        let (to, from): (Vec<_>, Vec<_>) =
            (1..self.ranks).map(|distance| (place(distance), place(self.ranks - distance))).unzip();
        to.into_iter().for_each(|to| self.send(to, bytes));
        from.into_iter().for_each(|from| self.receive(from, bytes));
    }

    /// ep: two sums, and ten counts.
    fn random_numbers(&mut self) {
        self.steps.push(Step::Compute(COMPUTED));
        [1, 1, 10].into_iter().for_each(|numbers| self.all_reduce(numbers * DOUBLE));
    }

    /// ft: complex points are transposed, and a checksum is made.
    fn transpose(&mut self, points: usize) {
        self.all_to_all(points * 2 * DOUBLE / (self.ranks * self.ranks));
        self.all_reduce(2 * DOUBLE);
    }

    /// is: sizes of buckets, how many keys come, and the keys.
    fn sort(&mut self, keys: usize) {
        const BUCKETS_AND_TESTS: usize = (1 << 10) + 5;
        self.all_reduce(BUCKETS_AND_TESTS * INTEGER);
        self.all_to_all(INTEGER);
        self.all_to_all(keys * INTEGER / (self.ranks * self.ranks));
    }

    /// cg: the pieces of a row are summed over its ranks, the result goes to the transposed rank, and two products are summed.
    fn conjugate_gradient(&mut self, rows: usize) {
        let levels = self.ranks.ilog2();
        let (down, across) = (1 << (levels / 2), 1 << levels.div_ceil(2));
        let (row, column) = (self.rank / across, self.rank % across);
        let piece = rows / down * DOUBLE / (across / down);
        let partners: Vec<usize> =
            (0..across.ilog2()).map(|level| row * across + (column ^ (1 << level))).collect();
        partners.iter().for_each(|partner| self.exchange(*partner, *partner, piece));
        let wide = across / down;
        let (half, rest) = (self.rank / wide, self.rank % wide);
        let transposed = wide * ((half % down) * down + half / down) + rest;
        self.exchange(transposed, transposed, piece);
        for _ in 0..2 {
            partners.iter().for_each(|partner| self.exchange(*partner, *partner, DOUBLE));
        }
    }

    /// mg: three exchanges of faces on each level, down to a cube of two points.
    fn v_cycle(&mut self, edge: usize) {
        let split = self.split_of_three();
        for level in (1..=edge.ilog2()).rev() {
            let points = split.map(|ranks| ((1 << level) / ranks).max(1));
            (0..3).for_each(|_| self.faces(split, points));
        }
    }

    fn split_of_three(&self) -> [usize; 3] {
        let mut split = [1; 3];
        for level in 0..self.ranks.ilog2() {
            split[2 - level as usize % 3] *= 2;
        }
        split
    }

    /// The faces of a block of `points`, axis by axis, with the borders that came before.
    fn faces(&mut self, split: [usize; 3], points: [usize; 3]) {
        let [x, y, z] = points;
        let sizes = [y * z, (x + 2) * z, (x + 2) * (y + 2)];
        let strides = [1, split[0], split[0] * split[1]];
        for axis in (0..3).filter(|axis| split[*axis] > 1) {
            let place = self.rank / strides[axis] % split[axis];
            let at = |place: usize| {
                self.rank - self.rank / strides[axis] % split[axis] * strides[axis] + place * strides[axis]
            };
            let (next, last) = (at((place + 1) % split[axis]), at((place + split[axis] - 1) % split[axis]));
            self.send(next, sizes[axis] * DOUBLE);
            self.send(last, sizes[axis] * DOUBLE);
            self.receive(last, sizes[axis] * DOUBLE);
            self.receive(next, sizes[axis] * DOUBLE);
        }
    }

    /// lu: plane by plane from the north-west to the south-east and back, then whole faces.
    fn wave_front(&mut self, edge: usize) {
        let levels = self.ranks.ilog2();
        let (down, across) = (1 << levels.div_ceil(2), 1 << (levels / 2));
        let (row, column) = (self.rank % down, self.rank / down);
        let (x, y) = (edge / down, edge / across);
        let neighbour = |is_there: bool, rank: usize, points: usize| is_there.then_some((rank, points));
        let north = neighbour(row > 0, self.rank.wrapping_sub(1), y);
        let south = neighbour(row + 1 < down, self.rank + 1, y);
        let west = neighbour(column > 0, self.rank.wrapping_sub(down), x);
        let east = neighbour(column + 1 < across, self.rank + down, x);
        for (before, behind) in [([north, west], [south, east]), ([south, east], [north, west])] {
            for _ in 1..edge - 1 {
                before
                    .iter()
                    .flatten()
                    .for_each(|(rank, points)| self.receive(*rank, UNKNOWNS * points * DOUBLE));
                behind
                    .iter()
                    .flatten()
                    .for_each(|(rank, points)| self.send(*rank, UNKNOWNS * points * DOUBLE));
            }
        }
        let face = |points: usize| LAYERS * UNKNOWNS * points * edge * DOUBLE;
        for pair in [[north, south], [west, east]] {
            pair.iter().flatten().for_each(|(rank, points)| self.send(*rank, face(*points)));
            pair.iter().flatten().for_each(|(rank, points)| self.receive(*rank, face(*points)));
        }
    }

    /// sp and bt: six faces, then lines along each axis, cell by cell there and back, with so many numbers for each point.
    fn lines(&mut self, edge: usize, forwards: usize, backwards: usize) {
        let cells = self.ranks.isqrt();
        let (i, j) = (self.rank % cells, self.rank / cells);
        let at = |i: usize, j: usize| i % cells + cells * (j % cells);
        let next = [at(i + 1, j), at(i, j + 1), at(i + cells - 1, j + 1)];
        let last = [at(i + cells - 1, j), at(i, j + cells - 1), at(i + 1, j + cells - 1)];
        let points = edge.div_ceil(cells).pow(2);
        let face = (cells - 1) * LAYERS * UNKNOWNS * points * DOUBLE;
        for (to, from) in next.iter().zip(last).chain(last.iter().zip(next)) {
            self.send(*to, face);
            self.receive(from, face);
        }
        for (next, last) in next.into_iter().zip(last) {
            for (to, from, numbers) in [(next, last, forwards), (last, next, backwards)] {
                (1..cells).for_each(|_| self.exchange(to, from, numbers * points * DOUBLE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Messages = BTreeMap<(usize, usize), Vec<usize>>;

    fn traffic(kernel: Kernel, ranks: usize) -> [Messages; 2] {
        let mut traffic = [Messages::new(), Messages::new()];
        for rank in 0..ranks {
            for step in kernel.steps(Class::W, ranks, rank) {
                let (which, way, bytes) = match step {
                    Step::Send(to, bytes) => (0, (rank, to), bytes),
                    Step::Receive(from, bytes) => (1, (from, rank), bytes),
                    Step::Compute(_) => continue,
                };
                traffic[which].entry(way).or_default().push(bytes);
            }
        }
        traffic
    }

    #[test]
    fn whatever_one_rank_sends_another_receives_in_the_same_order() {
        for kernel in Kernel::ALL {
            for ranks in [2, 4, 8, 16, 32, 64].into_iter().filter(|ranks| kernel.runs_on(*ranks)) {
                let [sent, received] = traffic(kernel, ranks);
                assert_eq!(sent, received, "{} on {ranks}", kernel.name());
                assert!(!sent.is_empty() && sent.keys().all(|(from, to)| from != to));
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_sources() {
        let largest = |kernel: Kernel, ranks| {
            let steps = kernel.steps(Class::A, ranks, 0).into_iter();
            steps.filter_map(|step| if let Step::Send(_, bytes) = step { Some(bytes) } else { None }).max()
        };
        // Complex points over the square of the ranks; keys of four bytes over it; a half and a quarter of the rows.
        assert_eq!(largest(Kernel::Ft, 4), Some(256 * 256 * 128 * 16 / 16));
        assert_eq!(largest(Kernel::Is, 4), Some((1 << 23) * 4 / 16));
        assert_eq!((largest(Kernel::Cg, 4), largest(Kernel::Cg, 8)), (Some(56_000), Some(28_000)));
        // The face of the finest level: 256 points and two borders by half of that.
        assert_eq!(largest(Kernel::Mg, 4), Some(258 * 130 * 8));
        assert_eq!(largest(Kernel::Sp, 4), Some(22 * 32 * 32 * 8));
    }

    #[test]
    fn sp_and_bt_run_on_squares() {
        assert!(Kernel::Sp.runs_on(4) && !Kernel::Bt.runs_on(8) && Kernel::Bt.runs_on(64));
        assert!(Kernel::Cg.runs_on(8) && !Kernel::Cg.runs_on(6) && !Kernel::Cg.runs_on(1));
    }
}
