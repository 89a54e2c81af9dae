//! What processors may lack, by LLVM's names: this file is a part of `tir-native`, which writes into a library what it needs,
//! and of each library, which asks the processor for it.
//!
//! They are the sets of instructions that LLVM makes code of by itself. Beyond x86 there are none in the list.

macro_rules! known {
    ($($name:literal = $rust:tt,)*) => {
        /// LLVM's names of what can be asked for.
        pub const KNOWN: &[&str] = &[$($name),*];

        /// Whether this processor, and the system that runs on it, has what LLVM calls by a name of [`KNOWN`].
        #[cfg(target_arch = "x86_64")]
        pub fn has(name: &[u8]) -> bool {
            $(if name == $name.as_bytes() {
                return std::arch::is_x86_feature_detected!($rust);
            })*
            false
        }
    };
}

#[cfg(target_arch = "x86_64")]
known! {
    "sse3" = "sse3",
    "ssse3" = "ssse3",
    "sse4.1" = "sse4.1",
    "sse4.2" = "sse4.2",
    "sse4a" = "sse4a",
    "popcnt" = "popcnt",
    "lzcnt" = "lzcnt",
    "bmi" = "bmi1",
    "bmi2" = "bmi2",
    "movbe" = "movbe",
    "tbm" = "tbm",
    "avx" = "avx",
    "f16c" = "f16c",
    "fma" = "fma",
    "avx2" = "avx2",
    "avxvnni" = "avxvnni",
    "avxvnniint8" = "avxvnniint8",
    "avxvnniint16" = "avxvnniint16",
    "avxifma" = "avxifma",
    "avxneconvert" = "avxneconvert",
    "gfni" = "gfni",
    "avx512f" = "avx512f",
    "avx512cd" = "avx512cd",
    "avx512bw" = "avx512bw",
    "avx512dq" = "avx512dq",
    "avx512vl" = "avx512vl",
    "avx512ifma" = "avx512ifma",
    "avx512vbmi" = "avx512vbmi",
    "avx512vbmi2" = "avx512vbmi2",
    "avx512vnni" = "avx512vnni",
    "avx512bitalg" = "avx512bitalg",
    "avx512vpopcntdq" = "avx512vpopcntdq",
    "avx512bf16" = "avx512bf16",
    "avx512vp2intersect" = "avx512vp2intersect",
    "avx512fp16" = "avx512fp16",
}
#[cfg(not(target_arch = "x86_64"))]
known! {}

#[cfg(not(target_arch = "x86_64"))]
pub fn has(_: &[u8]) -> bool {
    false
}
