//! Strides, pads and dilations of convolutions and pools.

use tir_onnx::Node;

use super::import::{LARGEST, Outcome};

/// The windows of a node, in so many dimensions as its input has behind the first two.
#[derive(Clone)]
pub(super) struct Windows {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    /// All that are before, then all that are behind.
    pub pads: Vec<i64>,
    pub dilations: Vec<i64>,
}

impl Windows {
    /// Reads them for an input and a kernel of these sizes.
    pub(super) fn read(node: &Node, input: &[i64], kernel: &[i64]) -> Outcome<Self> {
        let rank = input.len();
        let list = |name: &str, count: usize, value: i64| -> Outcome<Vec<i64>> {
            let list = node.ints(name).map_err(Some)?;
            let list = list.map_or_else(|| vec![value; count], <[i64]>::to_vec);
            if let Some(n) = list.iter().find(|n| n.unsigned_abs() > LARGEST as u64) {
                return Err(Some(node.error(format!(
                    "attribute '{name}' has {n}, expected {LARGEST} at most"
                ))));
            }
            if list.len() == count {
                return Ok(list);
            }
            let found = list.len();
            Err(Some(node.error(format!(
                "attribute '{name}' has {found} numbers, expected {count}"
            ))))
        };
        if let Some(n) = kernel.iter().find(|n| n.unsigned_abs() > LARGEST as u64) {
            return Err(Some(
                node.error(format!("has a kernel of {n}, expected {LARGEST} at most")),
            ));
        }
        if kernel.len() != rank {
            let found = kernel.len();
            return Err(Some(node.error(format!("has a kernel of rank {found} for an input of rank {rank} behind the first two dimensions"))));
        }
        let mut windows = Self {
            kernel: kernel.to_vec(),
            strides: list("strides", rank, 1)?,
            pads: list("pads", 2 * rank, 0)?,
            dilations: list("dilations", rank, 1)?,
        };
        let auto = node.string("auto_pad").map_err(Some)?.unwrap_or("NOTSET");
        let upper = match auto {
            "NOTSET" | "" => return Ok(windows),
            "VALID" => {
                windows.pads.fill(0);
                return Ok(windows);
            }
            "SAME_UPPER" => true,
            "SAME_LOWER" => false,
            other => return Err(Some(node.error(format!("attribute 'auto_pad' is '{other}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")))),
        };
        for (d, size) in input.iter().enumerate() {
            let (kernel, stride, dilation) = (kernel[d], windows.strides[d], windows.dilations[d]);
            let total = same_padding(*size, kernel, stride, dilation);
            let total = total.ok_or_else(|| {
                Some(node.error(format!(
                    "has stride {stride} and dilation {dilation} in dimension {d}"
                )))
            })?;
            let less = total / 2;
            let (low, high) = if upper {
                (less, total - less)
            } else {
                (total - less, less)
            };
            windows.pads[d] = low;
            windows.pads[rank + d] = high;
        }
        Ok(windows)
    }

    /// The same with a unit dimension before the only one.
    pub(super) fn two_dimensional(mut self) -> Self {
        if let ([kernel], [stride], [low, high], [dilation]) = (
            &self.kernel[..],
            &self.strides[..],
            &self.pads[..],
            &self.dilations[..],
        ) {
            self = Self {
                kernel: vec![1, *kernel],
                strides: vec![1, *stride],
                pads: vec![0, *low, 0, *high],
                dilations: vec![1, *dilation],
            };
        }
        self
    }
}

/// The padding with which there are as many windows as strides begin in the input.
fn same_padding(size: i64, kernel: i64, stride: i64, dilation: i64) -> Option<i64> {
    if size < 1 || kernel < 1 || stride < 1 || dilation < 1 {
        return None;
    }
    let count = (size - 1) / stride + 1;
    let span = (kernel - 1).checked_mul(dilation)?.checked_add(1)?;
    let reach = (count - 1).checked_mul(stride)?.checked_add(span)?;
    Some((reach - size).max(0))
}
