//! Integer arithmetic on indices.

use tir::Name;

/// Integer arithmetic on indices; what is not known gives 0 (and never reaches an address: loads
/// are the only source of what is not known).
pub(super) fn int(op: Name, a: i64, b: i64, c: i64, predicate: i64) -> i64 {
    let unsigned = |a: i64| a as u64;
    match op.as_str() {
        "arith.addi" => a.wrapping_add(b),
        "arith.subi" => a.wrapping_sub(b),
        "arith.muli" => a.wrapping_mul(b),
        "arith.divsi" => a.checked_div(b).unwrap_or(0),
        "arith.divui" => unsigned(a).checked_div(unsigned(b)).unwrap_or(0) as i64,
        "arith.floordivsi" => floor_div(a, b).unwrap_or(0),
        // The quotient rounded up is minus that of -a, rounded down.
        "arith.ceildivsi" => floor_div(a.wrapping_neg(), b).unwrap_or(0).wrapping_neg(),
        "arith.remsi" => a.checked_rem(b).unwrap_or(0),
        "arith.remui" => unsigned(a).checked_rem(unsigned(b)).unwrap_or(0) as i64,
        "arith.andi" => a & b,
        "arith.ori" => a | b,
        "arith.xori" => a ^ b,
        "arith.minsi" => a.min(b),
        "arith.maxsi" => a.max(b),
        "arith.minui" => unsigned(a).min(unsigned(b)) as i64,
        "arith.maxui" => unsigned(a).max(unsigned(b)) as i64,
        "arith.select" => {
            if a & 1 != 0 {
                b
            } else {
                c
            }
        }
        "arith.cmpi" => i64::from(match predicate {
            0 => a == b,
            1 => a != b,
            2 => a < b,
            3 => a <= b,
            4 => a > b,
            5 => a >= b,
            6 => unsigned(a) < unsigned(b),
            7 => unsigned(a) <= unsigned(b),
            8 => unsigned(a) > unsigned(b),
            _ => unsigned(a) >= unsigned(b),
        }),
        "arith.index_cast" | "arith.index_castui" | "arith.extsi" | "arith.extui"
        | "arith.trunci" => a,
        _ => 0,
    }
}

/// The quotient rounded down.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    Some(quotient - i64::from(rest != 0 && (rest < 0) != (b < 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_round_as_they_say() {
        let of = |op: &str, a, b| int(Name::new(op), a, b, 0, 0);
        for (a, b, floor, ceil) in [
            (7, 2, 3, 4),
            (-7, 2, -4, -3),
            (7, -2, -4, -3),
            (-7, -2, 3, 4),
            (6, -2, -3, -3),
            (7, 0, 0, 0),
        ] {
            assert_eq!(of("arith.floordivsi", a, b), floor, "{a} / {b}");
            assert_eq!(of("arith.ceildivsi", a, b), ceil, "{a} / {b}");
        }
    }
}
