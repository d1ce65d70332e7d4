//! What a sample says and how sure it is: medians, their 95 % intervals, and an interval for what two samples
//! say together.
//!
//! The interval of a median is made of order statistics: exact for independent values of any distribution, so that
//! nobody has to believe in a bell curve. What is made of two medians has no such interval, and is drawn
//! again instead (bootstrap), whole rounds at a time, because the two share their round's weather. The draws begin at a
//! fixed seed: the same figures always give the same document. Rejected: means, which one stolen slice moves;
//! leaving out what lies far off, which hides what a looker may have done.

/// What an interval misses, both ends together.
const MISS: f64 = 0.05;
/// Draws of the bootstrap; the ends of the interval are then steady to a part in a hundred.
const DRAWS: usize = 4_000;
/// Where the draws begin.
const SEED: u64 = 0x6872_6f75;

/// Both ends of an interval that holds the truth 95 times in a hundred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Wider by as much at both ends.
    pub fn widened(self, by: f64) -> Self {
        Self { low: self.low - by, high: self.high + by }
    }

    /// How far a value lies outside; 0 inside.
    pub fn misses(self, value: f64) -> f64 {
        (self.low - value).max(value - self.high).max(0.0)
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Median; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Smallest and largest.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    Some((*sorted.first()?, *sorted.last()?))
}

/// How many values lie below the lower end of the interval of a median of `count`: the most that a fair coin
/// leaves so rarely on one side. None with five or fewer, where even all of them are no interval.
fn below(count: usize) -> Option<usize> {
    let (mut chance, mut sum) = (0.5f64.powi(i32::try_from(count).ok()?), 0.0);
    for number in 0..=count / 2 {
        sum += chance;
        if 2.0 * sum > MISS {
            return number.checked_sub(1);
        }
        chance *= (count - number) as f64 / (number + 1) as f64;
    }
    None
}

/// The interval of the median.
pub fn of_median(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let below = below(sorted.len())?;
    Some(Interval { low: sorted[below], high: sorted[sorted.len() - 1 - below] })
}

/// The interval of a figure made of the medians of two samples, whose values belong together in pairs.
pub fn of_both(
    first: &[f64],
    second: &[f64],
    figure: impl Fn(f64, f64) -> f64,
) -> Option<Interval> {
    let count = first.len().min(second.len());
    // As few as below().
    below(count)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut figures = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let drawn: Vec<usize> = (0..count).map(|_| random.usize(..count)).collect();
        let of = |values: &[f64]| median(&drawn.iter().map(|&at| values[at]).collect::<Vec<_>>());
        figures.push(figure(of(first)?, of(second)?));
    }
    figures.sort_by(f64::total_cmp);
    let end = (DRAWS as f64 * MISS / 2.0) as usize;
    Some(Interval { low: figures[end], high: figures[DRAWS - 1 - end] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise around a truth, skewed: most a little below it, some far above, half on either side.
    fn sample(random: &mut fastrand::Rng, truth: f64, count: usize) -> Vec<f64> {
        let one = |random: &mut fastrand::Rng| match random.bool() {
            true => truth + 0.10 * random.f64().powi(2),
            false => truth - 0.02 * random.f64(),
        };
        (0..count).map(|_| one(random)).collect()
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_range_bears_what_is_no_number() {
        assert_eq!(range(&[2.0, f64::NAN, 1.0]), Some((1.0, 2.0)));
        assert_eq!(range(&[]), None);
    }

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        // Tables of the sign test: 6 values bear all of them, 20 the sixth from either end.
        assert_eq!((below(5), below(6), below(9), below(20)), (None, Some(0), Some(1), Some(5)));
        assert_eq!(below(0), None);
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(of_median(&values), Some(Interval { low: 6.0, high: 15.0 }));
    }

    #[test]
    fn the_interval_of_a_median_holds_the_truth_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(1);
        let runs = 2_000;
        let held = (0..runs)
            .filter_map(|_| of_median(&sample(&mut random, 1.03, 18)))
            .filter(|interval| interval.misses(1.03) == 0.0)
            .count();
        assert!(held as f64 >= 0.95 * f64::from(runs) - 20.0, "{held} of {runs}");
        assert!(held < 2_000, "an interval that never misses says nothing");
    }

    #[test]
    fn the_interval_of_two_medians_holds_the_truth() {
        let mut random = fastrand::Rng::with_seed(2);
        let runs = 150;
        let mut held = 0;
        for _ in 0..runs {
            let floor = sample(&mut random, 1.08, 30);
            let look = sample(&mut random, 1.10, 30);
            let interval = of_both(&look, &floor, |look, floor| (look - 1.0) / (floor - 1.0));
            held += u32::from(interval.is_some_and(|it| it.misses(1.25) == 0.0));
        }
        // 95 in a hundred, with the luck of 150 runs.
        assert!(held >= 134, "{held} of {runs}");
    }

    #[test]
    fn what_moves_both_of_a_pair_cancels_out() {
        let weather: Vec<f64> = (0..20).map(|at| f64::from(at % 7) / 10.0).collect();
        let both = |by: f64| weather.iter().map(|it| it + by).collect::<Vec<_>>();
        let interval = of_both(&both(1.2), &both(1.1), |a, b| a - b).unwrap();
        assert!((interval.low - 0.1).abs() < 1e-9 && (interval.high - 0.1).abs() < 1e-9);
        assert_eq!(of_both(&[1.0; 5], &[1.0; 5], |a, b| a - b), None);
    }

    #[test]
    fn intervals_are_widened_at_both_ends() {
        let interval = Interval { low: 1.02, high: 1.04 };
        assert!((interval.misses(1.0) - 0.02).abs() < 1e-9 && interval.misses(1.03) == 0.0);
        assert!(interval.widened(0.02).misses(1.0) < 1e-9);
    }
}
