//! Line charts with logarithmic axes, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 60.0;
/// The distance of the names of series.
const LINE: f64 = 16.0;
const COLORS: [&str; 4] = ["#1b6ca8", "#c8553d", "#2a9d62", "#8a5fb0"];

pub(crate) struct Chart {
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    pub series: Vec<Series>,
}

pub(crate) struct Series {
    pub name: String,
    /// Both coordinates are above zero.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), points: Vec::new() }
    }
}

/// An axis: powers of ten that enclose the values, on a section of the picture.
struct Axis {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).max(1e-3).log10().floor() as i32;
        let high = values.fold(0.0, f64::max).max(1e-2).log10().ceil() as i32;
        Self { low, high: high.max(low + 1), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(1e-3).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10f64.powi(power))
    }
}

impl Chart {
    pub(crate) fn svg(&self) -> String {
        let points = self.series.iter().flat_map(|series| &series.points);
        let x = Axis::new(points.clone().map(|point| point.0), MARGIN, WIDTH - MARGIN);
        let mut y = Axis::new(points.clone().map(|point| point.1), HEIGHT - MARGIN, MARGIN);
        // The names of the series need room above the lines.
        let highest = points.map(|point| y.place(point.1)).fold(HEIGHT, f64::min);
        y.high += i32::from(highest < MARGIN + LINE * self.series.len() as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let mut text = |at: (f64, f64), anchor: &str, text: &str| {
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>", at.0, at.1);
        };
        text((WIDTH / 2.0, 24.0), "middle", self.title);
        text((WIDTH / 2.0, HEIGHT - 12.0), "middle", self.x);
        text((MARGIN, MARGIN - 14.0), "middle", self.y);
        for tick in x.ticks() {
            text((x.place(tick), HEIGHT - MARGIN + 18.0), "middle", &tick.to_string());
        }
        for tick in y.ticks() {
            text((MARGIN - 6.0, y.place(tick) + 4.0), "end", &tick.to_string());
        }
        for (at, series) in self.series.iter().enumerate() {
            text((WIDTH - MARGIN, MARGIN + LINE * at as f64), "end", &series.name);
        }
        for tick in y.ticks() {
            let (left, right, at) = (MARGIN, WIDTH - MARGIN, y.place(tick));
            let _ = writeln!(svg, "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>");
        }
        for (at, series) in self.series.iter().enumerate() {
            let color = COLORS[at % COLORS.len()];
            let line: Vec<String> =
                series.points.iter().map(|point| format!("{:.1},{:.1}", x.place(point.0), y.place(point.1))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n\
                 <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{color}\"/>",
                line.join(" "),
                WIDTH - MARGIN + 10.0,
                MARGIN + LINE * at as f64 - 4.0
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}
