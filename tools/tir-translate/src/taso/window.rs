//! Windows of convolutions and pools, as TASO says them.

/// Strides and pads in the order of graph's ops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// Vertical, horizontal.
    pub strides: Vec<i64>,
    /// Top, left, bottom, right.
    pub pads: Vec<i64>,
}

impl Windows {
    /// Windows of a size over an input. `mode` 0 is SAME: as many windows as strides begin in the
    /// input, an odd line of padding behind it; 1 is VALID. `pads` says the padding before the
    /// input once more.
    pub(super) fn new(
        input: [i64; 2],
        kernel: [i64; 2],
        strides: [i64; 2],
        mode: i64,
        pads: [i64; 2],
    ) -> Result<Windows, String> {
        let mut all = vec![0; 4];
        for d in 0..2 {
            let (size, window, stride) = (input[d], kernel[d], strides[d]);
            if window < 1 || stride < 1 || size < 1 {
                return Err(format!(
                    "has windows of {window} at distance {stride} over {size}"
                ));
            }
            let total = match mode {
                0 => (size - 1) / stride * stride + window - size,
                1 => 0,
                mode => return Err(format!("has padding mode {mode}, expected 0 or 1")),
            };
            let total = total.max(0);
            if pads[d] != total / 2 && pads[d] != total - total / 2 {
                let found = pads[d];
                return Err(format!(
                    "has padding {found}, its mode makes {total} in all"
                ));
            }
            (all[d], all[d + 2]) = (total / 2, total - total / 2);
        }
        Ok(Windows {
            strides: strides.to_vec(),
            pads: all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_and_valid() {
        let windows = |size, kernel, stride, mode, pad| {
            let two = |n| [n, n];
            Windows::new(two(size), two(kernel), two(stride), mode, two(pad))
        };
        assert_eq!(
            windows(224, 3, 1, 0, 1).map(|w| w.pads),
            Ok(vec![1, 1, 1, 1])
        );
        assert_eq!(
            windows(224, 3, 2, 0, 1).map(|w| w.pads),
            Ok(vec![0, 0, 1, 1])
        );
        assert_eq!(windows(55, 1, 1, 0, 0).map(|w| w.pads), Ok(vec![0; 4]));
        assert_eq!(windows(224, 3, 2, 1, 0).map(|w| w.pads), Ok(vec![0; 4]));
        assert!(windows(224, 3, 1, 1, 1).is_err());
        assert!(windows(224, 3, 1, 2, 0).is_err());
        assert!(windows(224, 3, 0, 1, 0).is_err());
    }
}
