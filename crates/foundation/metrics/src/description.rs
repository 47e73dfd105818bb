//! The part of a family that all servers of a process share: its name, help, labels and buckets.

use std::sync::Arc;

use prometheus::core::Desc;
use prometheus::proto::{Metric, MetricFamily, MetricType};

use crate::family::pair;

/// The name, help, labels and buckets of a family.
#[derive(Debug)]
pub struct Description {
    desc: Desc,
    /// The positions of the labels, sorted by name: the order of labels in metrics.
    order: Box<[usize]>,
    /// The upper bounds of the buckets. The last bucket counts all observations, so it is implicit.
    bounds: Box<[f64]>,
}

impl Description {
    /// Describes a family without buckets. Fails if the name or a label is invalid.
    pub fn new(name: &str, help: &str, labels: &[&str]) -> Result<Arc<Self>, prometheus::Error> {
        Self::with_buckets(name, help, labels, Vec::new())
    }

    /// Describes a family of histograms. Fails if the name, a label or the order of the buckets is invalid.
    pub fn with_buckets(
        name: &str,
        help: &str,
        labels: &[&str],
        mut bounds: Vec<f64>,
    ) -> Result<Arc<Self>, prometheus::Error> {
        bounds.pop_if(|bound| *bound == f64::INFINITY);
        if !bounds.is_sorted_by(|lower, upper| lower < upper) {
            return Err(prometheus::Error::Msg(format!("the buckets of {name} are not in ascending order")));
        }
        let names = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), names, Default::default())?;
        let mut order: Box<[usize]> = (0..labels.len()).collect();
        order.sort_by_key(|at| labels[*at]);
        Ok(Arc::new(Self { desc, order, bounds: bounds.into() }))
    }

    pub fn desc(&self) -> &Desc {
        &self.desc
    }

    pub(crate) fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// Panics unless there is one value for each label.
    pub(crate) fn check_values(&self, values: usize) {
        assert_eq!(values, self.order.len(), "one value for each label");
    }

    /// Returns a metric without a value. Its labels are sorted by name, as in all families.
    pub(crate) fn metric(&self, values: &[&str]) -> Metric {
        self.check_values(values.len());
        let labels = &self.desc.variable_labels;
        Metric::from_label(self.order.iter().map(|at| pair(&labels[*at], values[*at])).collect())
    }

    /// Returns the family with these metrics.
    pub(crate) fn family(&self, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(kind);
        family.set_metric(metrics);
        family
    }
}
