//! The cost of copying and comparing values, charged to the work budget.

use binnacle_meta::Text;
use binnacle_schema::{Object, Value};
use binnacle_work::{BudgetError, allocate, charge, charge_bytes};

/// The cost of a copy of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub nodes: u64,
    /// The bytes that its nodes and texts take in memory.
    pub bytes: usize,
    /// The minimum number of bytes of its JSON.
    pub text: usize,
}

/// The steps of copying a node, with its allocation.
const COPY: u64 = 4;
/// The number of members above which an object has an index, and the bytes of an index entry.
const INDEXED: usize = 48;
const INDEX: usize = 12;
/// The additional bytes of an escaped byte in JSON.
const ESCAPE: usize = 5;

impl Weight {
    /// Computes the weight of a value. Copies share strings, but encodings for the store and for responses do not, so
    /// they count.
    pub fn of(value: &Value) -> Self {
        let mut weight = Self { nodes: 1, bytes: size_of::<Value>(), text: 0 };
        weight.add(value);
        weight
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::List(items) => {
                self.nodes += items.len() as u64;
                self.bytes += size_of_val(&**items);
                // Two brackets, and commas.
                self.text += 1 + items.len().max(1);
                items.iter().for_each(|item| self.add(item));
            }
            Value::Object(object) => {
                self.nodes += object.len() as u64;
                self.bytes += object.len() * size_of::<(Text, Value)>();
                // Colons, too.
                self.text += 1 + object.len().max(1) + object.len();
                if object.len() > INDEXED {
                    self.bytes += object.len() * INDEX;
                }
                for (name, member) in object.iter() {
                    self.add_text(name);
                    self.add(member);
                }
            }
            Value::Str(text) | Value::Raw(text) => self.add_text(text),
            Value::Null | Value::Bool(_) => self.text += 4,
            Value::Int(_) | Value::Float(_) => self.text += 1,
        }
    }

    fn add_text(&mut self, text: &str) {
        let escaped = |byte: &u8| *byte < b' ' || !byte.is_ascii() || matches!(byte, b'<' | b'>' | b'&');
        self.text += 2 + text.len();
        self.bytes += text.len() + ESCAPE * text.as_bytes().iter().filter(|byte| escaped(byte)).count();
    }

    /// Charges a copy to the work budget, before copying.
    ///
    /// # Errors
    /// The limit that is exceeded.
    pub fn charge(self) -> Result<(), BudgetError> {
        charge(self.nodes * COPY + self.bytes as u64 / 64)?;
        allocate(self.bytes)
    }
}

/// Copies a value, if the work budget allows it.
pub(crate) fn copy_charged(value: &Value) -> Option<Value> {
    let weight = Weight::of(value);
    charge(weight.nodes).ok()?;
    weight.charge().ok()?;
    Some(value.clone())
}

/// Compares two values like `==`, and charges the comparison. Returns false once the work budget is exhausted.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    if charge(1).is_err() {
        return false;
    }
    match (a, b) {
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => same_members(a, b),
        (Value::Str(a), Value::Str(b)) | (Value::Raw(a), Value::Raw(b)) => same_text(a, b),
        (a, b) => a == b,
    }
}

fn same_members(a: &Object, b: &Object) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, value)| {
            charge_lookup(b, name);
            b.get(name).is_some_and(|other| equal(value, other))
        })
}

fn same_text(a: &Text, b: &Text) -> bool {
    a.len() == b.len() && charge_bytes(a.len()).is_ok() && a == b
}

/// Charges the lookup of a member: small objects are scanned, large ones have an index.
pub(crate) fn charge_lookup(object: &Object, name: &str) {
    binnacle_work::pace(if object.len() > INDEXED { 2 + name.len() as u64 / 16 } else { object.len() as u64 / 8 });
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;
    use binnacle_work::{WorkBudget, WorkLimits};

    use super::*;

    #[test]
    fn weight_covers_the_allocations_of_a_copy() {
        for (value, nodes) in
            [(value!(1i64), 1), (value!("a text of more than twenty-three bytes"), 1), (value!([1i64, {"a": []}]), 4)]
        {
            let weight = Weight::of(&value);
            assert_eq!(weight.nodes, nodes, "{value:?}");
            assert!(weight.bytes >= weight.nodes as usize * size_of::<Value>(), "{value:?}");
        }
        let [plain, escaped] = ["x", "<"].map(|text| Weight::of(&Value::from(text.repeat(1000))).bytes);
        assert!(plain >= 1000 && escaped >= 6000, "{plain} {escaped}");
    }

    #[test]
    fn comparison_stops_at_the_budget() {
        let list = Value::List(vec![value!({"a": 1i64}); 10_000]);
        let other = list.clone();
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        assert!(budget.enter(|| equal(&list, &other)));
        assert!((20_000..100_000).contains(&budget.steps()), "{}", budget.steps());
        let small = WorkBudget::new(WorkLimits { steps: 100, memory: 0 });
        assert!(!small.enter(|| equal(&list, &other)) && small.check().is_err());
        // Values that differ immediately cost nothing.
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        assert!(!budget.enter(|| equal(&list, &value!([]))) && budget.steps() < 10);
    }
}
