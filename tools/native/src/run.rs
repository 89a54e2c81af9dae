//! `tir-native-run`: calls a function of a library on files.
//!
//! In a program of its own, so that what a library does wrong ends this program alone.

mod pool;

use std::alloc::Layout;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Instant;

use pool::Pool;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

const HELP: &str = "\
Calls a function of a library that tir-native made.

Usage: tir-native-run LIBRARY SYMBOL [--repeat N] [--threads N] ARGUMENT…

Each ARGUMENT is a pointer of the function:
  in:FILE         The bytes of a file
  out:BYTES:FILE  Memory of so many bytes, written to a file at the end
  arena:BYTES     Memory of so many bytes
  arena:BYTES:N   Memory of so many bytes, and N more for each thread after the first
  threads         Threads that share the work; --threads says how many [default: 1]
  each:BYTES:FILE Memory of so many bytes, written to a file after each call, one behind the other

Prints the seconds of each call in a line. A library for a processor that has more than this one is not called: the status
is 3 then, and 1 after any other error.
";

/// The status if a library is for a processor that has more than this one.
const LESSER: u8 = 3;

/// Why there are no results.
enum Error {
    /// The library is for a processor that has more than this one.
    Lesser(String),
    Other(String),
}

impl From<String> for Error {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// Zeros at an address that vectors may be loaded from, in large pages where the system has them: constants are read once
/// in a call, and each page that is new to the processor costs it as much as hundreds of multiplications.
struct Memory {
    start: *mut u8,
    layout: Layout,
    bytes: usize,
}

/// Bytes of a large page.
const PAGE: usize = 1 << 21;

impl Memory {
    fn new(bytes: usize) -> Result<Self, String> {
        let (size, align) = match bytes < PAGE {
            true => (bytes.max(64), 64),
            false => (bytes.next_multiple_of(PAGE), PAGE),
        };
        let layout = Layout::from_size_align(size, align);
        let layout = layout.map_err(|_| format!("{bytes} bytes are too many"))?;
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            return Err(format!("there are no {bytes} bytes of memory"));
        }
        if align == PAGE {
            const HUGE: c_int = 14;
            // What the system makes of the advice is of no matter to what is read.
            // SAFETY: these bytes are ours, and the advice keeps them.
            unsafe { madvise(start.cast(), size, HUGE) };
        }
        // SAFETY: these bytes are ours.
        unsafe { start.write_bytes(0, size) };
        Ok(Self {
            start,
            layout,
            bytes,
        })
    }
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: these bytes are ours, and were set.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated so.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Other(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
        Err(Error::Lesser(why)) => {
            eprintln!("error: {why}");
            ExitCode::from(LESSER)
        }
    }
}

fn run() -> Result<(), Error> {
    let mut words = std::env::args().skip(1).peekable();
    if words
        .peek()
        .is_none_or(|word| word == "-h" || word == "--help")
    {
        print!("{HELP}");
        return Ok(());
    }
    let mut word = |what: &str| {
        words
            .next()
            .ok_or_else(|| format!("no {what} is given; see --help"))
    };
    let (library, symbol) = (word("library")?, word("symbol")?);
    let (mut repeat, mut threads, mut shared) = (1, 1, Vec::new());
    let mut arenas = Vec::new();
    let (mut arguments, mut outputs, mut each) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let number = |text: &str| {
            text.parse::<usize>()
                .map_err(|_| format!("'{text}' is no number"))
        };
        if word == "--repeat" || word == "--threads" {
            let value = words
                .next()
                .ok_or_else(|| format!("{word} needs a value"))?;
            let count = match &word[..] {
                "--repeat" => &mut repeat,
                _ => &mut threads,
            };
            *count = number(&value)?.max(1);
            continue;
        }
        if word == "threads" {
            shared.push(arguments.len());
            arguments.push(Memory::new(0)?);
            continue;
        }
        let (kind, rest) = word
            .split_once(':')
            .ok_or_else(|| format!("'{word}' is no argument"))?;
        match kind {
            "in" => arguments.push(read(rest)?),
            "arena" => {
                let (first, further) = rest.split_once(':').unwrap_or((rest, "0"));
                arenas.push((arguments.len(), number(first)?, number(further)?));
                arguments.push(Memory::new(0)?);
            }
            "out" | "each" => {
                let parts = rest.split_once(':');
                let (bytes, file) =
                    parts.ok_or_else(|| format!("'{word}': expected {kind}:BYTES:FILE"))?;
                let written = (arguments.len(), file.to_string());
                match kind {
                    "out" => outputs.push(written),
                    _ => each.push((written, Vec::new())),
                }
                arguments.push(Memory::new(number(bytes)?)?);
            }
            _ => return Err(format!("'{word}' is no argument").into()),
        }
    }
    let function = function(&library, &format!("{symbol}_packed"))?;
    for (k, first, further) in arenas {
        arguments[k] = Memory::new(first + further * (threads - 1))?;
    }
    let pool = Pool::new(threads);
    let mut given = pool.threads();
    let mut pointers: Vec<*mut u8> = arguments
        .iter_mut()
        .map(|m| m.bytes().as_mut_ptr())
        .collect();
    for k in shared {
        pointers[k] = std::ptr::from_mut(&mut given).cast();
    }
    let mut seconds = String::new();
    for _ in 0..repeat {
        let start = Instant::now();
        // SAFETY: whoever calls this program says what the function takes; memory is as large as was said.
        unsafe { function(pointers.as_mut_ptr()) };
        seconds += &format!("{:e}\n", start.elapsed().as_secs_f64());
        for ((k, _), all) in &mut each {
            all.extend_from_slice(arguments[*k].bytes());
        }
    }
    for (k, file) in outputs {
        write(&file, arguments[k].bytes())?;
    }
    for ((_, file), all) in each {
        write(&file, &all)?;
    }
    print!("{seconds}");
    Ok(())
}

fn write(file: &str, bytes: &[u8]) -> Result<(), String> {
    let written = File::create(file).and_then(|mut f| f.write_all(bytes));
    written.map_err(|e| format!("cannot write '{file}': {e}"))
}

fn read(path: &str) -> Result<Memory, String> {
    let fail = |e: std::io::Error| format!("cannot read '{path}': {e}");
    let mut file = File::open(path).map_err(fail)?;
    let bytes = file.metadata().map_err(fail)?.len() as usize;
    let mut memory = Memory::new(bytes)?;
    file.read_exact(memory.bytes()).map_err(fail)?;
    Ok(memory)
}

/// Takes pointers to the arguments.
type Packed = unsafe extern "C" fn(*mut *mut u8);

/// Gives the name of what the processor lacks, or null.
type Lacks = unsafe extern "C" fn() -> *const c_char;

fn function(library: &str, symbol: &str) -> Result<Packed, Error> {
    let text = |s: &str| CString::new(s).map_err(|_| format!("'{s}' has a zero byte"));
    // Without a slash the system looks elsewhere.
    let path = std::path::absolute(library).map_err(|e| format!("'{library}': {e}"))?;
    let (path, name) = (text(&path.to_string_lossy())?, text(symbol)?);
    // SAFETY: both take texts that end in zero; the library is opened for good.
    unsafe {
        const NOW: c_int = 2;
        let opened = dlopen(path.as_ptr(), NOW);
        if opened.is_null() {
            let why = CStr::from_ptr(dlerror()).to_string_lossy();
            return Err(format!("cannot load '{library}': {why}").into());
        }
        let asks = dlsym(opened, c"tirlib_lacks".as_ptr());
        if asks.is_null() {
            return Err(format!(
                "'{library}' does not say what processor it needs: it has no function 'tirlib_lacks'"
            )
            .into());
        }
        let asks = std::mem::transmute::<*mut c_void, Lacks>(asks);
        let lacks = asks();
        if !lacks.is_null() {
            let lacks = CStr::from_ptr(lacks).to_string_lossy();
            return Err(Error::Lesser(format!(
                "'{library}' is for a processor with {lacks}, which this one has not"
            )));
        }
        let found = dlsym(opened, name.as_ptr());
        if found.is_null() {
            return Err(format!("'{library}' has no function '{symbol}'").into());
        }
        Ok(std::mem::transmute::<*mut c_void, Packed>(found))
    }
}
