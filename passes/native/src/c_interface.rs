//! What a C program needs to call a library: a header, and an example that reads and writes files.

use std::fmt::Write;

use tir::{FloatType, IntType, Type};

use crate::mlir::{Argument, Function, Module, Role};

/// The C type of an element: of floats of 16 bits it is that of their bits, of conditions a byte.
fn c_type(elem: Type) -> String {
    let elem = elem.storage();
    match (elem.get::<FloatType>(), elem.get::<IntType>()) {
        (Some(FloatType::F32), _) => "float".to_string(),
        (Some(FloatType::F64), _) => "double".to_string(),
        (Some(_), _) => "uint16_t".to_string(),
        (None, Some(int)) => {
            let unsigned = if int.is_unsigned() || int.width == 1 {
                "u"
            } else {
                ""
            };
            let bits = elem.bytes().unwrap_or(1) * 8;
            format!("{unsigned}int{bits}_t")
        }
        (None, None) => "int64_t".to_string(),
    }
}

/// A name in C for any text.
fn identifier(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = text.chars().map(plain).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    }
}

fn reads(argument: &Argument) -> bool {
    matches!(argument.role, Role::Input(_))
}

/// The names of a function's arguments.
fn names(function: &Function) -> Vec<String> {
    let arguments = function.arguments.iter().enumerate();
    arguments
        .map(|(k, argument)| match reads(argument) {
            true => format!("in{k}"),
            false => format!("out{k}"),
        })
        .collect()
}

fn declaration(function: &Function) -> String {
    let mut all = Vec::new();
    for (argument, name) in function.arguments.iter().zip(names(function)) {
        let constant = if reads(argument) { "const " } else { "" };
        all.push(format!("{constant}{} *{name}", c_type(argument.elem)));
    }
    all.push("const void *constants".to_string());
    all.push("void *arena".to_string());
    all.push("const tir_threads *threads".to_string());
    format!("void {}({})", function.symbol, all.join(", "))
}

/// The header of a library that is called `name`.
pub fn header(module: &Module, name: &str) -> String {
    let guard = format!("{}_H", identifier(name).to_uppercase());
    let upper = identifier(name).to_uppercase();
    let mut text = format!(
        "/* Functions of {name}, compiled by tir. Pointers are to dense elements in row-major order, which do not\n   \
         overlap; constants and arena begin at multiples of 64 bytes. The arena has the bytes of X_ARENA, and those of\n   \
         X_ARENA_THREAD for each thread after the first. */\n\
         #ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
         #ifndef TIR_THREADS\n#define TIR_THREADS\n\
         /* How work is shared: parallel_for calls function(argument, k) for each k from 0 to below count, in any order, at the\n   \
         same time if it likes, and returns when all are done. Results do not depend on the number of threads. A null\n   \
         pointer in place of this: the thread that calls does all. */\n\
         typedef struct tir_threads {{\n  int64_t count;\n  \
         void (*parallel_for)(void *context, void (*function)(void *argument, int64_t k), int64_t count, void *argument);\n  \
         void *context;\n}} tir_threads;\n#endif\n\n\
         /* Bytes of the file of constants, which all functions take. */\n\
         #define {upper}_CONSTANTS {}\n\n\
         /* What a processor must have that runs the functions: names as LLVM has them, each ending in zero, an empty one\n   \
         behind them. Then the first of them that this processor has not, or null: ask before all else. */\n\
         extern const char tirlib_requires[];\n\
         const char *tirlib_lacks(void);\n",
        module.bytes
    );
    for function in &module.functions {
        let symbol = identifier(&function.symbol).to_uppercase();
        let _ = write!(text, "\n/* @{}", function.name);
        for (argument, name) in function.arguments.iter().zip(names(function)) {
            let shape: Vec<String> = argument.shape.iter().map(|n| n.to_string()).collect();
            let (shape, ty) = (shape.join("x"), argument.elem);
            let _ = match shape.is_empty() {
                true => write!(text, "\n   {name}: {ty}"),
                false => write!(text, "\n   {name}: {shape}x{ty}"),
            };
        }
        let _ = write!(
            text,
            " */\n#define {symbol}_ARENA {}\n#define {symbol}_ARENA_THREAD {}\n{};\n",
            function.arena,
            function.further,
            declaration(function)
        );
    }
    text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    text
}

/// A program that calls a function of a library that is called `name` on files.
pub fn example(function: &Function, name: &str) -> String {
    let upper = identifier(name).to_uppercase();
    let symbol = identifier(&function.symbol).to_uppercase();
    let own = names(function);
    let usage: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut text = format!(
        "/* Calls {}: the arguments are the file of constants, then a file of raw elements for each argument of the\n   \
         function, which is read or written. */\n\
         #include <stdio.h>\n#include <stdlib.h>\n\n#include \"{name}.h\"\n\n\
         /* Memory for so many bytes, at a multiple of 64. */\n\
         static void *memory(size_t bytes) {{\n  \
         void *made = aligned_alloc(64, (bytes / 64 + 1) * 64);\n  \
         if (!made) {{ fprintf(stderr, \"out of memory\\n\"); exit(1); }}\n  return made;\n}}\n\n\
         static void *load(const char *path, size_t bytes) {{\n  \
         void *made = memory(bytes);\n  FILE *file = fopen(path, \"rb\");\n  \
         if (!file || fread(made, 1, bytes, file) != bytes) {{\n    \
         fprintf(stderr, \"%s: cannot be read, or has fewer than %zu bytes\\n\", path, bytes);\n    exit(1);\n  }}\n  \
         fclose(file);\n  return made;\n}}\n\n\
         static void save(const char *path, const void *from, size_t bytes) {{\n  \
         FILE *file = fopen(path, \"wb\");\n  \
         if (!file || fwrite(from, 1, bytes, file) != bytes || fclose(file)) {{\n    \
         fprintf(stderr, \"%s: cannot be written\\n\", path);\n    exit(1);\n  }}\n}}\n\n\
         int main(int argc, char **argv) {{\n  if (argc != {}) {{\n    \
         fprintf(stderr, \"usage: %s constants {}\\n\", argv[0]);\n    return 2;\n  }}\n  \
         if (tirlib_lacks()) {{\n    \
         fprintf(stderr, \"{name} is for a processor with %s, which this one has not\\n\", tirlib_lacks());\n    \
         return 1;\n  }}\n  \
         void *constants = load(argv[1], {upper}_CONSTANTS);\n  void *arena = memory({symbol}_ARENA);\n",
        function.symbol,
        own.len() + 2,
        usage.join(" "),
    );
    for (k, (argument, name)) in function.arguments.iter().zip(&own).enumerate() {
        let (ty, bytes) = (c_type(argument.elem), argument.bytes());
        let _ = match reads(argument) {
            true => writeln!(text, "  {ty} *{name} = load(argv[{}], {bytes});", k + 2),
            false => writeln!(text, "  {ty} *{name} = memory({bytes});"),
        };
    }
    let mut all = own.clone();
    all.extend(["constants", "arena", "NULL"].map(str::to_string));
    let _ = writeln!(text, "  {}({});", function.symbol, all.join(", "));
    for (k, (argument, name)) in function.arguments.iter().zip(&own).enumerate() {
        if !reads(argument) {
            let bytes = argument.bytes();
            let _ = writeln!(text, "  save(argv[{}], {name}, {bytes});", k + 2);
        }
    }
    text += "  return 0;\n}\n";
    text
}
