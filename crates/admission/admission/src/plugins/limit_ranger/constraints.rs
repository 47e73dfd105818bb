//! The constraints of a limit range's item.

use binnacle_fields::core::v1::LimitRangeItem;
use binnacle_fields::types::{self, Field, Map};
use binnacle_meta::{Format, Quantity};

use super::comparable;

#[derive(Clone, Copy, Debug)]
pub(super) enum Constraint {
    Min,
    Max,
    MaxLimitRequestRatio,
    /// [`Constraint::Max`] for objects that only have requests.
    MaxRequest,
}

impl Constraint {
    pub(super) const ALL: &'static [Self] = &[Self::Min, Self::Max, Self::MaxLimitRequestRatio];
    pub(super) const OF_CLAIMS: &'static [Self] = &[Self::Min, Self::MaxRequest];

    /// Returns the item's field with the quantities of the constraint.
    pub(super) fn field(self) -> Field<LimitRangeItem, Map<types::Quantity>> {
        match self {
            Self::Min => LimitRangeItem::MIN,
            Self::Max | Self::MaxRequest => LimitRangeItem::MAX,
            Self::MaxLimitRequestRatio => LimitRangeItem::MAX_LIMIT_REQUEST_RATIO,
        }
    }

    /// Returns an error if the constraint is violated.
    pub(super) fn violation(
        self,
        kind: &str,
        name: &str,
        enforced: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let zero = Quantity::new(0, Format::DecimalSI);
        let [requested, limited, bound] = comparable([request.unwrap_or(&zero), limit.unwrap_or(&zero), enforced]);
        match self {
            Self::Min => {
                let rule = format!("minimum {name} usage per {kind} is {enforced}");
                match (request, limit) {
                    (None, _) => Some(format!("{rule}.  No request is specified")),
                    (Some(request), _) if requested < bound => Some(format!("{rule}, but request is {request}")),
                    (_, Some(limit)) if limited < bound => Some(format!("{rule}, but limit is {limit}")),
                    _ => None,
                }
            }
            Self::Max => {
                let rule = format!("maximum {name} usage per {kind} is {enforced}");
                match (limit, request) {
                    (None, _) => Some(format!("{rule}.  No limit is specified")),
                    (Some(limit), _) if limited > bound => Some(format!("{rule}, but limit is {limit}")),
                    (_, Some(request)) if requested > bound => Some(format!("{rule}, but request is {request}")),
                    _ => None,
                }
            }
            Self::MaxRequest => {
                let rule = format!("maximum {name} usage per {kind} is {enforced}");
                match request {
                    None => Some(format!("{rule}.  No request is specified")),
                    Some(request) if requested > bound => Some(format!("{rule}, but request is {request}")),
                    Some(_) => None,
                }
            }
            Self::MaxLimitRequestRatio => {
                let rule = format!("{name} max limit to request ratio per {kind} is {enforced}");
                if requested == 0 {
                    return Some(format!("{rule}, but no request is specified or request is 0"));
                }
                if limited == 0 {
                    return Some(format!("{rule}, but no limit is specified or limit is 0"));
                }
                let ratio = limited as f64 / requested as f64;
                let (actual, allowed) = if enforced.value() <= i64::MAX / 1000 {
                    (ratio * 1000.0, enforced.milli_value() as f64)
                } else {
                    (ratio, enforced.value() as f64)
                };
                (actual > allowed).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_violations() {
        use Constraint::{Max, MaxLimitRequestRatio, MaxRequest, Min};
        for (constraint, enforced, request, limit, want) in [
            (Min, "10Mi", None, None, Some("minimum memory usage per Container is 10Mi.  No request is specified")),
            (Min, "10Mi", Some("1Mi"), None, Some("minimum memory usage per Container is 10Mi, but request is 1Mi")),
            (
                Min,
                "10Mi",
                Some("10Mi"),
                Some("9Mi"),
                Some("minimum memory usage per Container is 10Mi, but limit is 9Mi"),
            ),
            (Min, "10Mi", Some("10Mi"), Some("10Mi"), None),
            (Max, "1", None, None, Some("maximum memory usage per Container is 1.  No limit is specified")),
            (Max, "1", None, Some("2"), Some("maximum memory usage per Container is 1, but limit is 2")),
            (Max, "1", Some("1500m"), Some("1"), Some("maximum memory usage per Container is 1, but request is 1500m")),
            (Max, "1", Some("1"), Some("1"), None),
            (
                MaxRequest,
                "2Gi",
                Some("5Gi"),
                None,
                Some("maximum memory usage per Container is 2Gi, but request is 5Gi"),
            ),
            (
                MaxLimitRequestRatio,
                "1500m",
                Some("1"),
                Some("2"),
                Some("memory max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"),
            ),
            (MaxLimitRequestRatio, "2", Some("1"), Some("2"), None),
            (
                MaxLimitRequestRatio,
                "2",
                None,
                Some("2"),
                Some(
                    "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
                ),
            ),
        ] {
            let parse = |text: Option<&str>| text.map(|text| text.parse::<Quantity>().unwrap());
            let (request, limit) = (parse(request), parse(limit));
            let found = constraint.violation(
                "Container",
                "memory",
                &enforced.parse().unwrap(),
                request.as_ref(),
                limit.as_ref(),
            );
            assert_eq!(found.as_deref(), want);
        }
    }
}
