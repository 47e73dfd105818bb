//! Text for people: tables and sizes.

pub(crate) use binnacle_cli::progress::bytes;

/// Formats rows in columns; the first column is left-aligned, the others are right-aligned.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let aligns_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..aligns_columns).map(|column| width(column).unwrap_or(0)).collect();
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
    fn aligns_columns() {
        let rows = [["a", "1"], ["long", "100"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a       1\nlong  100\n");
    }
}
