//! Numbers and tables for people.

/// Formats a size with three digits.
pub(crate) fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = size as f64;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{size} B"),
        _ if scaled < 10.0 => format!("{scaled:.2} {}", UNITS[unit]),
        _ if scaled < 100.0 => format!("{scaled:.1} {}", UNITS[unit]),
        _ => format!("{scaled:.0} {}", UNITS[unit]),
    }
}

/// Formats rows in columns; the first column is left-aligned, the others are right-aligned.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (size, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (10 << 10, "10.0 KiB"),
            (300 << 10, "300 KiB"),
            (5 << 20, "5.00 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(size), want);
        }
    }

    #[test]
    fn columns() {
        let rows = [["a", "1"], ["long", "100"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a       1\nlong  100\n");
    }
}
