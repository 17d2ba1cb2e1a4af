//! Numbers as printed by a C program, parsed without allocation or double rounding.

/// A decimal number: `digits` times ten to the `exponent`, exactly as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    negative: bool,
    digits: u64,
    exponent: i32,
    /// Number of digits before the decimal point.
    whole_digits: u8,
    /// Whether a decimal point was printed.
    point: bool,
    /// Whether an exponent was printed.
    scientific: bool,
}

/// Maximum length of a number, bytes: a sign, nineteen digits, a point, and an exponent.
const LONGEST: usize = 40;

/// Powers of ten that a double represents exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

impl Number {
    /// The whole token must be a number of at most 19 digits; no program prints a longer number.
    #[inline]
    pub(crate) fn parse(token: &[u8]) -> Option<Number> {
        if token.len() > LONGEST {
            return None;
        }
        let negative = token.first() == Some(&b'-');
        let mut digits = 0;
        let whole = run(token, usize::from(negative), &mut digits);
        let whole_digits = whole - usize::from(negative);
        let mut end = whole;
        let point = token.get(end) == Some(&b'.');
        if point {
            end = run(token, whole + 1, &mut digits);
        }
        let decimals = end - whole - usize::from(point);
        // Nineteen digits cannot overflow.
        if whole_digits == 0 || whole_digits + decimals > 19 {
            return None;
        }
        let mut number = Number {
            negative,
            digits,
            exponent: -(decimals as i32),
            whole_digits: whole_digits as u8,
            point,
            scientific: false,
        };
        if end < token.len() {
            number.exponent += power(&token[end..])?;
            number.scientific = true;
        }
        Some(number)
    }

    /// The value times ten to the `shift`, correctly rounded; may be infinite for extreme exponents.
    pub(crate) fn scaled(self, shift: i32) -> f64 {
        let exponent = self.exponent + shift;
        let magnitude = if self.digits <= 1 << 53 && exponent.unsigned_abs() < 23 {
            let power = EXACT[exponent.unsigned_abs() as usize];
            // Both operands are exact, so a single rounding occurs.
            if exponent < 0 { self.digits as f64 / power } else { self.digits as f64 * power }
        } else {
            parse_slowly(self.digits, exponent)
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// The value, if finite and non-negative, as all measurements are.
    pub(crate) fn measured(self, shift: i32) -> Option<f64> {
        let value = self.scaled(shift);
        (value.is_finite() && (!self.negative || self.digits == 0)).then_some(value.abs())
    }

    /// The value as a count: `0`, `0.000000` and `1.07374e+09` are valid; `0.5` and `-1` are not.
    pub(crate) fn count(self) -> Option<u64> {
        if self.negative && self.digits != 0 {
            return None;
        }
        let power = 10u64.checked_pow(self.exponent.unsigned_abs());
        match self.exponent {
            _ if self.digits == 0 => Some(0),
            0.. => self.digits.checked_mul(power?),
            _ => power.filter(|power| self.digits.is_multiple_of(*power)).map(|power| self.digits / power),
        }
    }

    /// Half a unit of the last printed digit, times ten to the `shift`: the maximum rounding error.
    pub(crate) fn rounding(self, shift: i32) -> f64 {
        0.5 * 10f64.powi((self.exponent + shift).clamp(-300, 300))
    }

    /// Whether the number has decimals, or is too large to show them: true for times and bandwidths,
    /// but not for counts.
    pub(crate) fn looks_measured(self) -> bool {
        self.point || self.scientific || self.whole_digits >= 4
    }

    /// Number of digits after the decimal point.
    pub(crate) fn decimals(self) -> i32 {
        if self.scientific { 0 } else { -self.exponent }
    }

    /// Number of significant digits, without leading zeros.
    pub(crate) fn significant(self) -> u32 {
        self.digits.checked_ilog10().map_or(0, |log| log + 1)
    }

    /// A plain integer, such as a root.
    pub(crate) fn integer(self) -> Option<i64> {
        let magnitude = i64::try_from(self.digits).ok().filter(|_| !self.point && !self.scientific)?;
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

/// Parses digits starting at `at`, and returns their end.
#[inline]
fn run(token: &[u8], mut at: usize, digits: &mut u64) -> usize {
    while let Some(digit @ 0..=9) = token.get(at).map(|byte| byte.wrapping_sub(b'0')) {
        *digits = digits.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    at
}

/// Parses an exponent such as `e+06`, which must be the whole rest.
fn power(token: &[u8]) -> Option<i32> {
    let [b'e' | b'E', unsigned @ ..] = token else { return None };
    let (negative, digits) = match unsigned {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let power = i32::try_from(self::unsigned(digits)?).ok().filter(|&power| power < 10_000)?;
    Some(if negative { -power } else { power })
}

/// Converts values with exponents outside `EXACT` through text: they are rare, so speed does not matter.
#[cold]
fn parse_slowly(digits: u64, exponent: i32) -> f64 {
    format!("{digits}e{exponent}").parse().unwrap_or(f64::NAN)
}

/// A size or an element count: only digits.
pub(crate) fn unsigned(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_equal_those_of_the_standard_library() {
        for text in
            ["0", "0.00", "46.48", "1e+06", "1.6e+07", "1.07374e+09", "5e-07", "175356", "187.866134", "-1"]
        {
            let number = Number::parse(text.as_bytes()).unwrap();
            assert_eq!(number.scaled(0), text.parse::<f64>().unwrap(), "{text}");
        }
        // Conversion from milliseconds to microseconds must be exact: 0.069 * 1000.0 is not.
        assert_eq!(Number::parse(b"0.069").unwrap().scaled(3), 69.0);
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        for text in ["", "-", ".5", "1e", "1.2.3", "0x10", "N/A", "inf", "nan", "46.48us", "1e99999", "+1"] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Number::parse(&[b'9'; 1000]), None);
        assert_eq!(Number::parse(b"1e400").unwrap().measured(0), None);
        assert_eq!(Number::parse(b"-1").unwrap().measured(0), None);
    }

    #[test]
    fn counts_are_whole_numbers() {
        let count = |text: &str| Number::parse(text.as_bytes()).unwrap().count();
        assert_eq!(count("1.07374e+09"), Some(1_073_740_000));
        assert_eq!(count("12.000000"), Some(12));
        assert_eq!(count("0e+00"), Some(0));
        assert_eq!(count("0.5"), None);
        assert_eq!(count("-1"), None);
        assert_eq!(count("1e400"), None);
    }
}
