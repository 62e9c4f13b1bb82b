//! Kubernetes quantities: `500m`, `12Ki`, `1.5Gi`, `1e3`. Exact decimal arithmetic, printed in the format they came in.
//!
//! A value is an integer of up to 38 digits times a power of ten. Whatever would not fit is refused, never rounded; the
//! only rounding is the one that Kubernetes does, up to a billionth.

mod text;

use std::cmp::Ordering;

/// An exact decimal number with the notation it was written in. Equality and order look at the number alone.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    mantissa: i128,
    /// Decimals: the value is `mantissa × 10^-scale`. Kept as written, because division rounds to the written decimals.
    scale: i32,
    format: Format,
}

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `500m`, `12`, `3k`
    Decimal,
    /// `12Ki`
    Binary,
    /// `12e3`
    Exponent,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    #[error("`{text}` is not a quantity such as 500m, 2, 12Ki or 1e3")]
    Syntax { text: String },
    #[error("the quantity needs more than 38 digits")]
    Overflow,
    #[error("a quantity cannot be divided by zero")]
    DivisionByZero,
    #[error("modulo needs whole quantities")]
    NotWhole,
}

impl QuantityError {
    /// The message without the text that was read, which may be the content of a Secret.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "is not a quantity such as 500m, 2, 12Ki or 1e3",
            Self::Overflow => "the quantity needs more than 38 digits",
            Self::DivisionByZero => "a quantity cannot be divided by zero",
            Self::NotWhole => "modulo needs whole quantities",
        }
    }
}

/// The finest scale: a billionth.
const NANO: i32 = 9;
impl Quantity {
    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        // Printing and reading rounds correctly once; scaling by powers of ten would round twice.
        format!("{}e{}", self.mantissa, -self.scale).parse().unwrap_or(f64::INFINITY)
    }

    /// The sum, in this quantity's format (the other's if this one is zero).
    pub fn checked_add(self, other: Self) -> Result<Self, QuantityError> {
        let (a, b, scale) = align(&self, &other).ok_or(QuantityError::Overflow)?;
        let mantissa = a.checked_add(b).ok_or(QuantityError::Overflow)?;
        Ok(Self { mantissa, scale, format: if self.is_zero() { other.format } else { self.format } })
    }

    /// The difference, in this quantity's format (the other's if this one is zero).
    pub fn checked_sub(self, other: Self) -> Result<Self, QuantityError> {
        let mantissa = other.mantissa.checked_neg().ok_or(QuantityError::Overflow)?;
        self.checked_add(Self { mantissa, ..other })
    }

    pub fn checked_mul(self, factor: f64) -> Result<Self, QuantityError> {
        let factor = Self::from_scalar(factor)?;
        let mantissa = self.mantissa.checked_mul(factor.mantissa).ok_or(QuantityError::Overflow)?;
        Ok(Self { mantissa, scale: self.scale + factor.scale, format: self.format }.round_up_to_nano())
    }

    /// Divides and truncates toward zero at the decimals that either operand was written with.
    pub fn checked_div(self, divisor: f64) -> Result<Self, QuantityError> {
        let divisor = Self::from_scalar(divisor)?;
        if divisor.is_zero() {
            return Err(QuantityError::DivisionByZero);
        }
        let scale = self.scale.max(divisor.scale).max(0);
        // self / divisor × 10^scale = mantissa / mantissa × 10^shift
        let shift = scale - self.scale + divisor.scale;
        let (mut a, mut b) = (self.mantissa, divisor.mantissa);
        if shift >= 0 {
            a = shift_left(a, shift).ok_or(QuantityError::Overflow)?;
        } else {
            b = shift_left(b, -shift).ok_or(QuantityError::Overflow)?;
        }
        Ok(Self { mantissa: a / b, scale, format: self.format })
    }

    /// How often `other` fits into this quantity.
    pub fn ratio(self, other: Self) -> Result<f64, QuantityError> {
        if other.is_zero() {
            return Err(QuantityError::DivisionByZero);
        }
        Ok(self.to_f64() / other.to_f64())
    }

    /// What remains of a whole quantity after taking the other out as often as possible; the sign is this quantity's.
    pub fn checked_rem(self, other: Self) -> Result<Self, QuantityError> {
        if other.is_zero() {
            return Err(QuantityError::DivisionByZero);
        }
        let (a, b) = (self.whole()?, other.whole()?);
        Ok(Self { mantissa: a.wrapping_rem(b), scale: 0, format: self.format })
    }

    fn whole(&self) -> Result<i128, QuantityError> {
        let (mantissa, scale) = strip_zeros(self.mantissa, self.scale);
        if scale > 0 {
            return Err(QuantityError::NotWhole);
        }
        shift_left(mantissa, -scale).ok_or(QuantityError::Overflow)
    }

    fn from_scalar(scalar: f64) -> Result<Self, QuantityError> {
        super::number::format(scalar).parse()
    }

    /// The same value with nine decimals, if there is room for them.
    fn at_nano(self) -> Self {
        match shift_left(self.mantissa, NANO - self.scale) {
            Some(mantissa) => Self { mantissa, scale: NANO, ..self },
            None => self,
        }
    }

    fn round_up_to_nano(self) -> Self {
        if self.scale <= NANO {
            return self;
        }
        let mantissa = match self.scale - NANO {
            excess @ ..=38 => {
                let unit = 10_i128.pow(excess as u32);
                self.mantissa / unit + (self.mantissa % unit).signum()
            }
            _ => self.mantissa.signum(),
        };
        Self { mantissa, scale: NANO, ..self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if let Some((a, b, _)) = align(self, other) {
            return a.cmp(&b);
        }
        // They differ by more digits than fit: the sign decides, then the one that had to be enlarged.
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        let larger = if self.scale < other.scale { Ordering::Greater } else { Ordering::Less };
        signs.then(if self.mantissa < 0 { larger.reverse() } else { larger })
    }
}

/// Both mantissas at the finer of the two scales.
fn align(a: &Quantity, b: &Quantity) -> Option<(i128, i128, i32)> {
    let (am, a_scale) = if a.is_zero() { (0, b.scale) } else { (a.mantissa, a.scale) };
    let (bm, b_scale) = if b.is_zero() { (0, a.scale) } else { (b.mantissa, b.scale) };
    let scale = a_scale.max(b_scale);
    if let (Some(a), Some(b)) = (shift_left(am, scale - a_scale), shift_left(bm, scale - b_scale)) {
        return Some((a, b, scale));
    }
    // Trailing zeros may have taken the room.
    let (am, a_scale) = strip_zeros(am, a_scale);
    let (bm, b_scale) = strip_zeros(bm, b_scale);
    let scale = a_scale.max(b_scale);
    Some((shift_left(am, scale - a_scale)?, shift_left(bm, scale - b_scale)?, scale))
}

fn shift_left(mantissa: i128, places: i32) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    10_i128.checked_pow(u32::try_from(places).ok()?)?.checked_mul(mantissa)
}

fn strip_zeros(mut mantissa: i128, mut scale: i32) -> (i128, i32) {
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale -= 1;
    }
    (mantissa, scale)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn sums_and_differences() {
        #[track_caller]
        fn check(a: &str, b: &str, sum: &str, difference: &str) {
            let (a, b) = (quantity(a), quantity(b));
            let results = (a.checked_add(b).unwrap().to_string(), a.checked_sub(b).unwrap().to_string());
            assert_eq!((results.0.as_str(), results.1.as_str()), (sum, difference));
        }
        check("12Ki", "13Ki", "25Ki", "-1Ki");
        check("12Ki", "13", "12301", "12275");
        check("16Ei", "0", "9223372036854775807", "9223372036854775807");
        check("12E", "0", "12E", "12E");
        check("9E", "9E", "18E", "0");
        check("8Ei", "8Ei", "18446744073709551614", "0");
        check("1Ki", "0.5", "1024500m", "1023500m");
        check("0", "2Ki", "2Ki", "-2Ki");
        check("500m", "500m", "1", "0");
        check("1e30", "0", "1e30", "1e30");
        assert_eq!(quantity("1e100").checked_add(quantity("1n")), Err(QuantityError::Overflow));
    }

    #[test]
    fn products_quotients_and_remainders() {
        let text = |result: Result<Quantity, QuantityError>| result.unwrap().to_string();
        assert_eq!(text(quantity("12Ki").checked_mul(2.0)), "24Ki");
        assert_eq!(text(quantity("12Ki").checked_mul(2.5)), "30Ki");
        assert_eq!(text(quantity("12").checked_mul(2.5)), "30");
        assert_eq!(text(quantity("1n").checked_mul(0.5)), "1n");
        assert_eq!(text(quantity("1").checked_mul(1e30)), "1000000000000E");
        assert_eq!(text(quantity("12Ki").checked_div(3.0)), "4Ki");
        assert_eq!(text(quantity("1").checked_div(3.0)), "0");
        assert_eq!(text(quantity("1.00").checked_div(3.0)), "330m");
        assert_eq!(text(quantity("-7").checked_div(2.0)), "-3");
        assert_eq!(text(quantity("5k").checked_div(2.0)), "2500");
        assert_eq!(text(quantity("1M").checked_div(1e6)), "1");
        assert_eq!(text(quantity("9.7Gi").checked_div(3.0)), "3471765230933333333n");
        assert_eq!(text(quantity("569Ti").checked_div(7.0)), "89374588029220571428571n");
        assert_eq!(quantity("12Ki").ratio(quantity("200")), Ok(61.44));
        assert_eq!(quantity("8").ratio(quantity("3")), Ok(8.0 / 3.0));
        assert_eq!(text(quantity("12Ki").checked_rem(quantity("5Ki"))), "2Ki");
        assert_eq!(text(quantity("-7").checked_rem(quantity("2.0"))), "-1");
        assert_eq!(quantity("4").checked_rem(quantity("1.5")), Err(QuantityError::NotWhole));
        assert_eq!(quantity("4").checked_rem(quantity("0")), Err(QuantityError::DivisionByZero));
        assert_eq!(quantity("4").checked_div(0.0), Err(QuantityError::DivisionByZero));
        assert_eq!(quantity("4").ratio(quantity("0m")), Err(QuantityError::DivisionByZero));
    }

    #[test]
    fn order_is_by_value() {
        assert_eq!(quantity("1024"), quantity("1Ki"));
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert_eq!(quantity("500m"), quantity("0.5"));
        assert!(quantity("1025") > quantity("1Ki"));
        assert!(quantity("100") > quantity("10"));
        assert!(quantity("1e900") > quantity("99E"));
        assert!(quantity("-1e900") < quantity("1n"));
        assert!(quantity("-1e900") < quantity("-1n"));
        assert!(quantity("0") < quantity("1e900"));
    }

    proptest! {
        #[test]
        fn subtraction_undoes_addition(a in any::<i64>(), b in any::<i64>(), m in 0_i32..9) {
            let a = Quantity { mantissa: a.into(), scale: m, format: Format::Decimal };
            let b = Quantity { mantissa: b.into(), scale: 2, format: Format::Decimal };
            prop_assert_eq!(a.checked_add(b).unwrap().checked_sub(b).unwrap(), a);
        }
    }
}
