//! Functions of doubles that strict native code calls, under the names of `tir_native::mlir`: those that the interpreter
//! calls, so that results are the same to the bit on every machine.

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
