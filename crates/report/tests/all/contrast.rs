//! Contrast of the page's colours, light and dark.

/// Minimum contrasts of WCAG 2, level AA: of text, and of drawings.
const TEXT: f64 = 4.5;
const DRAWN: f64 = 3.0;

/// The variables of the light and the dark theme.
fn palettes() -> [Vec<(String, [f64; 3])>; 2] {
    let css = include_str!("../../templates/page.css");
    let block = |nth: usize| {
        let started = css.match_indices(":root {").nth(nth).expect("a palette").0;
        let text = &css[started..started + css[started..].find('}').expect("an end")];
        text.split("--")
            .skip(1)
            .filter_map(|variable| {
                let (name, value) = variable.split_once(": ")?;
                let hex = value.split(';').next()?.trim().strip_prefix('#')?;
                let wide: String = match hex.len() {
                    3 => hex.chars().flat_map(|c| [c, c]).collect(),
                    _ => hex.to_owned(),
                };
                let part = |at: usize| u8::from_str_radix(&wide[at..at + 2], 16).map(f64::from).ok();
                Some((name.to_owned(), [part(0)?, part(2)?, part(4)?]))
            })
            .collect()
    };
    [block(0), block(1)]
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear = colour.map(|part| {
        let part = part / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_and_curves_have_sufficient_contrast() {
    for palette in palettes() {
        let colour = |name: &str| {
            palette.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}")).1
        };
        for (inks, least) in [
            (&["ink", "quiet", "good", "bad", "unsure", "busy"][..], TEXT),
            (&["out", "in", "reference", "good", "bad", "unsure"], DRAWN),
        ] {
            for (ink, paper) in inks.iter().flat_map(|ink| [(*ink, "paper"), (*ink, "soft")]) {
                let found = contrast(colour(ink), colour(paper));
                println!("{ink} on {paper}: {found:.1}");
                assert!(found >= least, "{ink} on {paper}: {found:.2}");
            }
        }
    }
}
