//! Numbers exactly as printed.

/// Powers of ten as written in source, because computed ones are not the nearest floating-point numbers.
const POWERS: [f64; 49] = [
    1e-24, 1e-23, 1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10,
    1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24,
];
/// Maximum length of a number, bytes; the programs print at most 40.
const LONGEST: usize = 64;

/// A finite number and the distance of two adjacent printed values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) value: f64,
    pub(crate) resolution: Option<f64>,
}

impl Number {
    /// The same number printed with this many digits, of which zeros at the end were omitted.
    pub(crate) fn with_digits(self, digits: i32) -> Self {
        let magnitude = if self.value == 0.0 { 0.0 } else { self.value.abs().log10().floor() };
        // Exponents of finite numbers fit.
        let step = usize::try_from(magnitude as i32 + 1 - digits + 24).ok();
        Self { resolution: step.and_then(|step| POWERS.get(step)).copied(), ..self }
    }
}

/// Reads a decimal number that makes up the whole text: `51.47`, `-3`, `9.5e-05`.
///
/// `inf`, `nan`, hexadecimal numbers, thousands separators and anything after the number yield `None`.
pub(crate) fn number(text: &str) -> Option<Number> {
    let bytes = text.as_bytes();
    if bytes.len() > LONGEST {
        return None;
    }
    let unsigned = match bytes {
        [b'-' | b'+', rest @ ..] => rest,
        _ => bytes,
    };
    let whole = digits(unsigned);
    let mut rest = &unsigned[whole..];
    let mut fraction = 0;
    if let [b'.', after @ ..] = rest {
        fraction = digits(after);
        rest = &after[fraction..];
    }
    if whole + fraction == 0 {
        return None;
    }
    let mut exponent = 0;
    if let [b'e' | b'E', after @ ..] = rest {
        let (negative, power) = match after {
            [b'-', power @ ..] => (true, power),
            [b'+', power @ ..] => (false, power),
            _ => (false, after),
        };
        if power.is_empty() || power.len() > 4 || digits(power) != power.len() {
            return None;
        }
        let size = power.iter().fold(0, |size, digit| size * 10 + i32::from(digit - b'0'));
        exponent = if negative { -size } else { size };
        rest = &[];
    }
    if !rest.is_empty() {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let step = exponent + 24 - i32::try_from(fraction).ok()?;
    let resolution = usize::try_from(step).ok().and_then(|step| POWERS.get(step)).copied();
    value.is_finite().then_some(Number { value, resolution })
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Reads a count that makes up the whole text.
pub(crate) fn count<T: std::str::FromStr>(text: &str) -> Option<T> {
    (!text.is_empty() && digits(text.as_bytes()) == text.len()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_printed_step() {
        for (text, value, step) in [
            ("51.47", 51.47, 0.01),
            ("0", 0.0, 1.0),
            ("-3", -3.0, 1.0),
            ("4.176e+05", 4.176e5, 100.0),
            ("9.5e-05", 9.5e-5, 1e-6),
            ("1E3", 1000.0, 1000.0),
            (".5", 0.5, 0.1),
            ("5.", 5.0, 1.0),
        ] {
            assert_eq!(number(text), Some(Number { value, resolution: Some(step) }), "{text}");
        }
        assert_eq!(number("1e-40").unwrap().resolution, None);
    }

    #[test]
    fn other_text_is_no_number() {
        for text in [
            "", "-", ".", "e5", "1e", "1e+", "1 ", " 1", "1,5", "0x10", "inf", "nan", "NaN", "1e400",
            "1.2.3", "１",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number(&"1".repeat(65)), None);
        assert_eq!(count::<u32>("7"), Some(7));
        assert_eq!([count::<u32>("+7"), count("-7"), count(""), count("4294967296")], [None; 4]);
    }
}
