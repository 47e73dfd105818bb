//! Division of seats among levels: each level gets its target multiplied by a common factor, within its lower and upper
//! bound.

/// The claim of one level to seats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) target: f64,
}

/// The minimum target, which prevents division by zero.
const MIN_TARGET: f64 = 0.001;
const ROUNDS: u32 = 64;

/// Returns the seats of each level, and the common factor. `None` if the bounds prevent the division.
pub(crate) fn divide(seats: f64, claims: &[Claim]) -> Option<(Vec<f64>, f64)> {
    let target = |claim: &Claim| claim.target.max(MIN_TARGET);
    let seats_at =
        |factor: f64| claims.iter().map(move |claim| (target(claim) * factor).clamp(claim.lower, claim.upper));
    if claims.iter().any(|claim| claim.lower < 0.0 || claim.upper < claim.lower) {
        return None;
    }
    let (low, high): (f64, f64) = (claims.iter().map(|c| c.lower).sum(), claims.iter().map(|c| c.upper).sum());
    if seats < low - 1e-7 || seats > high + 1e-7 {
        return None;
    }
    // The sum of seats grows with the factor, so bisection finds it: above `high_factor` all levels have their upper
    // bounds.
    let mut high_factor = claims.iter().map(|claim| claim.upper / target(claim)).fold(0.0, f64::max);
    let mut low_factor = 0.0;
    for _ in 0..ROUNDS {
        let middle = (low_factor + high_factor) / 2.0;
        if seats_at(middle).sum::<f64>() < seats { low_factor = middle } else { high_factor = middle }
    }
    Some((seats_at(high_factor).collect(), high_factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_seats_within_bounds() {
        let claim = |lower, upper, target| Claim { lower, upper, target };
        for (seats, claims, want) in [
            (30.0, &[claim(0.0, 100.0, 1.0), claim(0.0, 100.0, 2.0)][..], Some(vec![10.0, 20.0])),
            (30.0, &[claim(15.0, 100.0, 1.0), claim(0.0, 100.0, 2.0)], Some(vec![15.0, 15.0])),
            (30.0, &[claim(0.0, 100.0, 1.0), claim(0.0, 12.0, 2.0)], Some(vec![18.0, 12.0])),
            (30.0, &[claim(0.0, 10.0, 0.0), claim(0.0, 20.0, 5.0)], Some(vec![10.0, 20.0])),
            (30.0, &[claim(10.0, 50.0, 1.0), claim(20.0, 50.0, 2.0)], Some(vec![10.0, 20.0])),
            (9.0, &[claim(10.0, 50.0, 1.0)], None),
            (51.0, &[claim(10.0, 50.0, 1.0)], None),
        ] {
            let got = divide(seats, claims).map(|(seats_at, _)| {
                seats_at.iter().map(|seats| (seats * 1000.0).round() / 1000.0).collect::<Vec<f64>>()
            });
            assert_eq!(got, want, "{seats} {claims:?}");
        }
    }
}
