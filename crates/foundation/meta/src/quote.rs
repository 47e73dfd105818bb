//! Texts in quotation marks, as Go's `strconv.Quote` and `%q` show them.

mod printable;

use std::fmt::Write;

use printable::is_printable;

/// Quotes a text like Go's `strconv.Quote`.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c);
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    let escape = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        c if is_printable(c) => return out.push(c),
        c => {
            // Writing to a string cannot fail.
            let _ = match c as u32 {
                code @ (..0x20 | 0x7f) => write!(out, "\\x{code:02x}"),
                code @ ..0x10000 => write!(out, "\\u{code:04x}"),
                code => write!(out, "\\U{code:08x}"),
            };
            return;
        }
    };
    out.push_str(escape);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_every_category_are_quoted_as_by_go() {
        // Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So
        let shown = "A \u{1c95} a \u{1c5} \u{2b0} \u{aa} \u{1c1} \u{300} \u{34f} \u{903} \u{488} 0 \u{1d7e1} \u{16ee} \
                     \u{b2} _ - ( ) \u{ab} \u{bb} ! ' \u{12470} + \u{a5} ^ \u{a6} \u{fffd} \u{1f600} \u{3134a} \u{31350} \
                     \u{e0100}";
        assert_eq!(go_quote(shown), format!("\"{shown}\""));
        for (text, want) in [
            ("\"\\\t\n\r\u{7}\u{8}\u{b}\u{c}", r#""\"\\\t\n\r\a\b\v\f""#),
            // Cc
            ("\0\u{4}\u{1b}\u{1f}\u{7f}\u{80}\u{85}\u{9f}", r#""\x00\x04\x1b\x1f\x7f\u0080\u0085\u009f""#),
            // Cf
            (
                "\u{ad}\u{603}\u{180e}\u{200b}\u{200d}\u{202e}\u{feff}",
                r#""\u00ad\u0603\u180e\u200b\u200d\u202e\ufeff""#,
            ),
            ("\u{e0001}", r#""\U000e0001""#),
            // Zs, Zl, Zp
            ("\u{a0}\u{2001}\u{3000}\u{2028}\u{2029}", r#""\u00a0\u2001\u3000\u2028\u2029""#),
            // Co
            ("\u{e000}\u{f8ff}\u{10fffd}", r#""\ue000\uf8ff\U0010fffd""#),
            // Cn, with characters that later versions of Unicode assign
            (
                "\u{378}\u{fffe}\u{1c89}\u{1ccd6}\u{2ebf0}\u{1fae9}",
                r#""\u0378\ufffe\u1c89\U0001ccd6\U0002ebf0\U0001fae9""#,
            ),
            ("\u{3134b}\u{323b0}\u{10ffff}", r#""\U0003134b\U000323b0\U0010ffff""#),
        ] {
            assert_eq!(go_quote(text), want);
        }
    }
}
