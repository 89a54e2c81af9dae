//! What libraries of native code call: functions of doubles, of strict code, under the names of `tir_native::mlir`, which are
//! those that the interpreter calls, so that results are the same to the bit on every machine; and the question whether
//! this processor has what a library needs.

// The list of names is for tir-native.
#[allow(dead_code)]
mod features;

use std::ffi::{CStr, c_char};

macro_rules! functions {
    ($($name:ident($($arg:ident),*) = $function:path;)*) => {$(
        #[doc = concat!("`", stringify!($function), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: f64),*) -> f64 {
            $function($($arg),*)
        }
    )*};
}
functions! {
    tir_math_exp(x) = libm::exp;
    tir_math_exp2(x) = libm::exp2;
    tir_math_log(x) = libm::log;
    tir_math_log1p(x) = libm::log1p;
    tir_math_tanh(x) = libm::tanh;
    tir_math_erf(x) = libm::erf;
    tir_math_sin(x) = libm::sin;
    tir_math_cos(x) = libm::cos;
    tir_math_pow(x, y) = libm::pow;
}

/// Of LLVM's names of what processors may have, each ending in zero and an empty one behind them, the first one that this
/// processor lacks; null if it has all of them.
///
/// # Safety
/// `names` points to such names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tir_lacks(names: *const c_char) -> *const c_char {
    let mut at = names;
    loop {
        // SAFETY: no name is behind the empty one.
        let name = unsafe { CStr::from_ptr(at) }.to_bytes();
        if name.is_empty() {
            return std::ptr::null();
        }
        if !features::has(name) {
            return at;
        }
        at = unsafe { at.add(name.len() + 1) };
    }
}
