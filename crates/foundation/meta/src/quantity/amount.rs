//! The number of a quantity: an exact decimal, small or big.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// `value * 10^scale`.
#[derive(Clone, Debug)]
pub(super) enum Amount {
    Small { value: i64, scale: i32 },
    Big { value: BigInt, scale: i32 },
}

impl Default for Amount {
    fn default() -> Self {
        Self::Small { value: 0, scale: 0 }
    }
}

impl Amount {
    pub(super) fn scale(&self) -> i32 {
        match self {
            Self::Small { scale, .. } | Self::Big { scale, .. } => *scale,
        }
    }

    pub(super) fn unscaled(&self) -> BigInt {
        match self {
            Self::Small { value, .. } => BigInt::from(*value),
            Self::Big { value, .. } => value.clone(),
        }
    }

    pub(super) fn unscaled_sign(&self) -> Ordering {
        match self {
            Self::Small { value, .. } => value.cmp(&0),
            Self::Big { value, .. } => match value.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.unscaled_sign() == Ordering::Equal
    }

    pub(super) fn into_big(self) -> Self {
        Self::Big { value: self.unscaled(), scale: self.scale() }
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Small { value, scale } if *value != i64::MIN => Self::Small { value: -value, scale: *scale },
            _ => Self::Big { value: -self.unscaled(), scale: self.scale() },
        }
    }

    /// Returns the integer of this amount at a scale that is at most its own.
    pub(super) fn rescaled(&self, scale: i32) -> BigInt {
        let up = self.scale().saturating_sub(scale).max(0).unsigned_abs();
        self.unscaled() * BigInt::from(10).pow(up)
    }

    pub(super) fn sum(&self, other: &Self) -> Self {
        if other.is_zero() {
            return self.clone();
        }
        if self.is_zero() {
            return other.clone();
        }
        let scale = self.scale().min(other.scale());
        if let (Self::Small { value: a, scale: a_scale }, Self::Small { value: b, scale: b_scale }) = (self, other) {
            let sum = small_times_power(*a, a_scale - scale)
                .zip(small_times_power(*b, b_scale - scale))
                .and_then(|(a, b)| a.checked_add(b));
            if let Some(value) = sum {
                return Self::Small { value, scale };
            }
        }
        Self::Big { value: self.rescaled(scale) + other.rescaled(scale), scale }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (self.unscaled_sign(), other.unscaled_sign());
        if a != b || a == Ordering::Equal {
            return a.cmp(&b);
        }
        if let (Self::Small { value: x, scale: x_scale }, Self::Small { value: y, scale: y_scale }) = (self, other) {
            let scale = *x_scale.min(y_scale);
            let up = |value: i64, own: i32| {
                (own - scale <= 18).then(|| i128::from(value) * 10i128.pow((own - scale).unsigned_abs()))
            };
            if let (Some(x), Some(y)) = (up(*x, *x_scale), up(*y, *y_scale)) {
                return x.cmp(&y);
            }
        }
        // Compares the position of the first digit first, to avoid writing out 10^10000.
        let first = |amount: &Self| {
            let digits = amount.unscaled().magnitude().to_string().len();
            digits as i64 + i64::from(amount.scale())
        };
        let by_position = first(self).cmp(&first(other));
        if by_position != Ordering::Equal {
            return if a == Ordering::Greater { by_position } else { by_position.reverse() };
        }
        let scale = self.scale().min(other.scale());
        self.rescaled(scale).cmp(&other.rescaled(scale))
    }

    /// Rounds away from zero to the scale; returns true if the result is exact.
    pub(super) fn round_up(&self, scale: i32) -> (Self, bool) {
        if self.scale() >= scale {
            return (self.clone(), true);
        }
        let down = scale.saturating_sub(self.scale());
        match self {
            Self::Small { value, .. } => {
                let (value, exact) = small_round_up(*value, down);
                (Self::Small { value, scale }, exact)
            }
            Self::Big { value, .. } => {
                let divisor = BigInt::from(10).pow(down.unsigned_abs());
                let quotient = value / &divisor;
                let exact = &quotient * &divisor == *value;
                let away = if exact {
                    0
                } else if value.sign() == Sign::Minus {
                    -1
                } else {
                    1
                };
                (Self::Big { value: quotient + away, scale }, exact)
            }
        }
    }
}

/// Returns `value * 10^power`; `None` on overflow.
pub(super) fn small_times_power(value: i64, power: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10i64.checked_pow(u32::try_from(power).ok()?)?)
}

/// Returns `value / 10^power`, rounded away from zero, and true if the result is exact.
pub(super) fn small_round_up(value: i64, power: i32) -> (i64, bool) {
    let Some(divisor) = 10i64.checked_pow(power.unsigned_abs()) else {
        return (value.signum(), value == 0);
    };
    let remainder = value % divisor;
    (value / divisor + remainder.signum(), remainder == 0)
}

/// Returns kube-apiserver's result for big amounts: it truncates the bits that do not fit, and rounds negative
/// fractions up.
pub(super) fn big_scaled_value(value: &BigInt, down: i32) -> i64 {
    if down <= 0 {
        return low_bits(value).wrapping_mul(10i64.checked_pow(down.unsigned_abs()).unwrap_or(i64::MIN));
    }
    let divisor = BigInt::from(10).pow(down.unsigned_abs());
    let quotient = value / &divisor;
    let exact = &quotient * &divisor == *value;
    low_bits(&quotient).wrapping_add(i64::from(!exact))
}

fn low_bits(value: &BigInt) -> i64 {
    let bits = value.iter_u64_digits().next().unwrap_or(0) as i64;
    if value.sign() == Sign::Minus { bits.wrapping_neg() } else { bits }
}
