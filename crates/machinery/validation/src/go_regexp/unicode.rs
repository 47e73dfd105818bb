//! Names of Unicode classes in `\\p{...}`: categories, their long names, and scripts.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Returns true for the name of a class. Ignores case, spaces, hyphens and underscores.
pub(super) fn is_class(name: &str) -> bool {
    let name: String = name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
    // An expression can have many thousand classes.
    static SET: LazyLock<HashSet<&str>> = LazyLock::new(|| NAMES.split(' ').collect());
    SET.contains(&*name)
}

/// In lower case and without separators, of Unicode 17.
const NAMES: &str = "\
    adlam ahom anatolianhieroglyphs any arabic armenian ascii assigned avestan balinese bamum bassavah batak bengali \
    beriaerfe bhaiksuki bopomofo brahmi braille buginese buhid c canadianaboriginal carian casedletter \
    caucasianalbanian cc cf chakma cham cherokee chorasmian closepunctuation cn cntrl co combiningmark common \
    connectorpunctuation control coptic cs cuneiform currencysymbol cypriot cyprominoan cyrillic dashpunctuation \
    decimalnumber deseret devanagari digit divesakuru dogra duployan egyptianhieroglyphs elbasan elymaic \
    enclosingmark ethiopic finalpunctuation format garay georgian glagolitic gothic grantha greek gujarati \
    gunjalagondi gurmukhi gurungkhema han hangul hanifirohingya hanunoo hatran hebrew hiragana imperialaramaic \
    inherited initialpunctuation inscriptionalpahlavi inscriptionalparthian javanese kaithi kannada katakana kawi \
    kayahli kharoshthi khitansmallscript khmer khojki khudawadi kiratrai l lao latin lc lepcha letter letternumber \
    limbu lineara linearb lineseparator lisu ll lm lo lowercaseletter lt lu lycian lydian m mahajani makasar \
    malayalam mandaic manichaean marchen mark masaramgondi mathsymbol mc me medefaidrin meeteimayek mendekikakui \
    meroiticcursive meroitichieroglyphs miao mn modi modifierletter modifiersymbol mongolian mro multani myanmar n \
    nabataean nagmundari nandinagari nd newa newtailue nko nl no nonspacingmark number nushu nyiakengpuachuehmong \
    ogham olchiki oldhungarian olditalic oldnortharabian oldpermic oldpersian oldsogdian oldsoutharabian oldturkic \
    olduyghur olonal openpunctuation oriya osage osmanya other otherletter othernumber otherpunctuation othersymbol \
    p pahawhhmong palmyrene paragraphseparator paucinhau pc pd pe pf phagspa phoenician pi po privateuse ps \
    psalterpahlavi punct punctuation rejang runic s samaritan saurashtra sc separator sharada shavian siddham \
    sidetic signwriting sinhala sk sm so sogdian sorasompeng soyombo spaceseparator spacingmark sundanese sunuwar \
    surrogate sylotinagri symbol syriac tagalog tagbanwa taile taitham taiviet taiyo takri tamil tangsa tangut \
    telugu thaana thai tibetan tifinagh tirhuta titlecaseletter todhri tolongsiki toto tulutigalari ugaritic \
    unassigned uppercaseletter vai vithkuqi wancho warangciti yezidi yi z zanabazarsquare zl zp zs";

#[cfg(test)]
mod tests {
    use super::is_class;

    #[test]
    fn accepts_unicode_class_names() {
        for name in
            ["L", "lu", "Cn", "LC", "Letter", "uppercase letter", "Greek", "old-italic", "Phags_Pa", "Any", "ASCII"]
        {
            assert!(is_class(name), "{name}");
        }
        for name in ["", "Foo", "Emoji", "Alphabetic", "Script=Greek", "Lx", "Gree k1"] {
            assert!(!is_class(name), "{name}");
        }
    }
}
