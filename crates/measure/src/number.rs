//! Numbers exactly as printed.

/// Powers of ten as literals, because computed powers may differ from the nearest floating-point numbers.
const POWERS: [f64; 49] = [
    1e-24, 1e-23, 1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10,
    1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24,
];
/// Powers of ten up to eight digits.
const INTEGER_POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// Maximum length of a number, bytes; the programs print at most 40.
const LONGEST: usize = 64;

/// A finite number and the smallest difference between two printed values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PrintedNumber {
    pub(crate) value: f64,
    pub(crate) resolution: Option<f64>,
}

impl PrintedNumber {
    /// The number, with the resolution of a text that has `digits` significant digits and omits trailing zeros.
    pub(crate) fn with_digits(self, digits: i32) -> Self {
        let magnitude = if self.value == 0.0 { 0.0 } else { self.value.abs().log10().floor() };
        // The exponent of a finite number fits into `i32`.
        let step = usize::try_from(magnitude as i32 + 1 - digits + 24).ok();
        Self { resolution: step.and_then(|step| POWERS.get(step)).copied(), ..self }
    }
}

/// Reads a decimal number that makes up the whole text: `51.47`, `-3`, `9.5e-05`.
///
/// `inf`, `nan`, hexadecimal numbers, thousands separators and anything after the number yield `None`.
pub(crate) fn number(text: &str) -> Option<PrintedNumber> {
    let bytes = text.as_bytes();
    if bytes.len() > LONGEST {
        return None;
    }
    let unsigned = match bytes {
        [b'-' | b'+', rest @ ..] => rest,
        _ => bytes,
    };
    let (integer, mut rest) = digits(unsigned, 0);
    let whole = unsigned.len() - rest.len();
    let (mut integer, mut fraction) = (integer, 0);
    if let [b'.', after @ ..] = rest {
        (integer, rest) = digits(after, integer);
        fraction = after.len() - rest.len();
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
        let (size, after) = digits(power, 0);
        if power.is_empty() || power.len() > 4 || !after.is_empty() {
            return None;
        }
        exponent = if negative { -(size as i32) } else { size as i32 };
        rest = after;
    }
    if !rest.is_empty() {
        return None;
    }
    // The text has at most `LONGEST` bytes, so the number of digits fits into `i32`.
    let step = exponent - fraction as i32;
    let power = |exponent: i32| POWERS.get(usize::try_from(exponent + 24).ok()?).copied();
    // More digits may have overflowed the integer.
    let exact = if whole + fraction <= 19 { exact(integer, step) } else { None };
    let value = match exact {
        Some(value) if bytes[0] == b'-' => -value,
        Some(value) => value,
        None => text.parse().ok().filter(|value: &f64| value.is_finite())?,
    };
    Some(PrintedNumber { value, resolution: power(step) })
}

/// An integer times ten to the power `step`; `None` unless one operation on exact operands yields the result, because only then the result
/// is the nearest floating-point number.
fn exact(integer: u64, step: i32) -> Option<f64> {
    // Integers are exact up to 2^53, powers of ten up to 10^22.
    if integer > 1 << 53 || !(-22..=22).contains(&step) {
        return None;
    }
    let (integer, power) = (integer as f64, POWERS[24 + step.unsigned_abs() as usize]);
    Some(if step < 0 { integer / power } else { integer * power })
}

/// Appends the digits at the start of a text to an integer; returns it with the rest of the text. More than 19 digits
/// may overflow.
fn digits(text: &[u8], mut integer: u64) -> (u64, &[u8]) {
    let mut rest = text;
    while let Some(word) = rest.first_chunk::<8>() {
        let (number, count) = leading_digits(u64::from_le_bytes(*word));
        integer = integer.wrapping_mul(INTEGER_POWERS[count]).wrapping_add(number);
        rest = &rest[count..];
        if count < 8 {
            return (integer, rest);
        }
    }
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        integer = integer.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        rest = after;
    }
    (integer, rest)
}

/// Value and number of the leading digits of an eight-byte word. The first byte of the text is the lowest byte of the word. Three steps
/// combine the digits into pairs, fours and the value.
#[inline]
fn leading_digits(word: u64) -> (u64, usize) {
    const EACH: u64 = u64::MAX / 255;
    // Digits become 0 to 9; adding 0x76 to other bytes sets their highest bit, or it is set already.
    let digits = word ^ (EACH * 0x30);
    let others = (((digits & (EACH * 0x7f)) + EACH * 0x76) | digits) & (EACH << 7);
    let count = others.trailing_zeros() / 8;
    // The digits move to the end of the word, behind zeros. A shift by 64 bits, for no digit, yields zero.
    let digits = digits.checked_shl(u64::BITS - 8 * count).unwrap_or(0);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff, count as usize)
}

/// Reads a count that makes up the whole text.
pub(crate) fn count<T: std::str::FromStr>(text: &str) -> Option<T> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolution_is_one_unit_of_the_last_printed_digit() {
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
            assert_eq!(number(text), Some(PrintedNumber { value, resolution: Some(step) }), "{text}");
        }
        assert_eq!(number("1e-40").unwrap().resolution, None);
    }

    #[test]
    fn a_value_is_the_float_nearest_to_its_text() {
        let mut random = 1_u64;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (digits, point, exponent) = (random >> 32 >> (random % 32), random % 12, random >> 20 & 63);
            for text in [
                digits.to_string(),
                format!("-{digits}.{point}"),
                format!("{point}.{digits:012}"),
                format!("{point}.{digits}e{}", exponent as i64 - 32),
            ] {
                assert_eq!(
                    number(&text).unwrap().value.to_bits(),
                    text.parse::<f64>().unwrap().to_bits(),
                    "{text}"
                );
            }
        }
        assert!(number("-0").unwrap().value.is_sign_negative());
    }

    #[test]
    fn eight_digits_are_read_at_once() {
        let read = |text: &[u8; 8]| leading_digits(u64::from_le_bytes(*text));
        for number in (0..100_000_000).step_by(997).chain([99_999_999]) {
            assert_eq!(read(format!("{number:08}").as_bytes().try_into().unwrap()), (number, 8));
        }
        for (at, number) in [0, 9, 91, 918, 9182, 91827, 918_273, 9_182_736].into_iter().enumerate() {
            for byte in (0..=255_u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut text = *b"91827364";
                text[at] = byte;
                assert_eq!(read(&text), (number, at), "{byte}");
            }
        }
    }

    #[test]
    fn other_text_is_not_a_number() {
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
