//! Random programs of the accel level: buffers of two near memories, views, branches, loops, buffers that loops hand on,
//! asynchronous transfers and calls, and what waits for them. They are right as they are written, and the machine finds no fault in the unplanned program: nothing is read that was not
//! written before, and each conflict with work that may still run is behind a wait for it, by the thread or by its queue.

use std::fmt::Write;

use tir::data::Random;

use crate::common::with_unit;
use crate::machine::{MACHINE, ROWS};

/// Where freed bytes are overwritten in the poisoned twin of a program.
const FREED: &str = "//freed ";

/// A buffer of the program.
#[derive(Clone)]
struct Buffer {
    name: String,
    /// Its rows; one row alone is a memref of one dimension.
    rows: usize,
    near: bool,
    /// Whether all of it has been written on every way that leads here.
    full: bool,
    /// The block that ends it, by depth.
    depth: usize,
}

impl Buffer {
    fn ty(&self) -> String {
        let space = if self.near { "spm" } else { "acc" };
        match self.rows {
            1 => format!("memref<16xf32, \"{space}\">"),
            rows => format!("memref<{rows}x16xf32, \"{space}\">"),
        }
    }

    /// The map of a transfer of all of it.
    fn access(&self) -> &'static str {
        match self.rows {
            1 => "access (c) -> (0, c)",
            _ => "access (r, c) -> (r, c)",
        }
    }
}

/// Work that may still run.
#[derive(Clone, PartialEq)]
struct Pending {
    token: String,
    queue: &'static str,
    buffer: usize,
    write: bool,
}

/// A program that grows.
pub(crate) struct Program {
    random: Random,
    text: String,
    /// Allocations at the begin of the function.
    head: String,
    buffers: Vec<Buffer>,
    /// Those that are there, by number.
    alive: Vec<usize>,
    /// Those whose last use was started and may still run.
    ending: Vec<usize>,
    pending: Vec<Pending>,
    /// All tokens in the order of the text, with their queues and what their work waited for; of blocks that were left
    /// only the queues, as they may not have run.
    tokens: Vec<(String, &'static str, Vec<String>)>,
    /// What the next work waits for itself.
    after: Vec<String>,
    depth: usize,
    /// What the innermost blocks write.
    written: Vec<Vec<usize>>,
    count: usize,
    row: usize,
}

/// Its text, and that of the twin which overwrites bytes as they become free.
pub(crate) struct Texts {
    pub(crate) plain: String,
    pub(crate) poisoned: String,
}

/// The random program of a seed.
pub(crate) fn program(seed: u64) -> Texts {
    let mut program = Program {
        random: Random::new(seed ^ 0x706c_616e),
        text: String::new(),
        head: String::new(),
        buffers: Vec::new(),
        alive: Vec::new(),
        ending: Vec::new(),
        pending: Vec::new(),
        tokens: Vec::new(),
        after: Vec::new(),
        depth: 0,
        written: vec![Vec::new()],
        count: 0,
        row: 0,
    };
    let steps = 6 + program.random.below(18);
    for _ in 0..steps {
        program.step(0, None);
    }
    program.leave(0, None);
    program.finish()
}

impl Program {
    fn fresh(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn chance(&mut self, of_ten: usize) -> bool {
        self.random.below(10) < of_ten
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// One of the buffers that are there.
    fn any(&mut self, which: impl Fn(&Buffer) -> bool) -> Option<usize> {
        let all = self.alive.iter().copied();
        let all: Vec<usize> = all.filter(|b| which(&self.buffers[*b])).collect();
        self.random.pick(&all)
    }

    fn new_buffer(&mut self, rows: usize, near: bool, depth: usize) -> usize {
        let name = format!("%b{}", self.buffers.len());
        let buffer = Buffer {
            name,
            rows,
            near,
            full: false,
            depth,
        };
        let line = format!("{} = memref.alloc() : {}", buffer.name, buffer.ty());
        match self.chance(3) {
            true => _ = writeln!(self.head, "{line}"),
            false => self.line(&line),
        }
        self.buffers.push(buffer);
        self.alive.push(self.buffers.len() - 1);
        self.buffers.len() - 1
    }

    /// The thread waits for a token, and so for all that must end before it; what nothing uses then is free.
    fn wait(&mut self, token: &str) {
        self.line(&format!("accel.dma_wait {token}"));
        let mut ended = vec![false; self.tokens.len()];
        let number = |token: &String| self.tokens.iter().position(|(t, ..)| t == token);
        let mut work: Vec<usize> = number(&token.to_string()).into_iter().collect();
        while let Some(at) = work.pop() {
            if std::mem::replace(&mut ended[at], true) {
                continue;
            }
            let (_, queue, after) = &self.tokens[at];
            work.extend((0..at).filter(|i| self.tokens[*i].1 == *queue));
            work.extend(after.iter().filter_map(number));
        }
        let ended = self.tokens.iter().zip(ended).filter(|(_, ended)| *ended);
        let ended: Vec<&String> = ended.map(|((token, ..), _)| token).collect();
        self.pending.retain(|p| !ended.contains(&&p.token));
        for buffer in self.ending.clone() {
            let runs = self.pending.iter().any(|p| p.buffer == buffer);
            if !runs && self.buffers[buffer].depth == self.depth {
                self.free(buffer);
            }
        }
    }

    fn free(&mut self, buffer: usize) {
        let b = &self.buffers[buffer];
        let line = format!("{FREED}{} {} {}", b.name, b.rows, b.ty());
        self.line(&line);
        self.ending.retain(|other| *other != buffer);
    }

    /// What accesses of the thread, or of a queue, must come behind: waits, and the rest as an `after`.
    fn behind(&mut self, queue: Option<&str>, reads: &[usize], writes: &[usize]) -> String {
        let conflict =
            |p: &Pending| writes.contains(&p.buffer) || p.write && reads.contains(&p.buffer);
        let other = |p: &Pending| Some(p.queue) != queue;
        let found = self.pending.iter().filter(|p| conflict(p) && other(p));
        let mut tokens: Vec<String> = found.map(|p| p.token.clone()).collect();
        tokens.dedup();
        let mut after = Vec::new();
        for token in tokens {
            if queue.is_some() && self.chance(4) {
                after.push(token);
            } else if self.pending.iter().any(|p| p.token == token) {
                self.wait(&token);
            }
        }
        after.sort();
        after.dedup();
        self.after = after.clone();
        match after.len() {
            0 => String::new(),
            _ => format!(" after({})", after.join(", ")),
        }
    }

    fn writes(&mut self, buffer: usize, whole: bool) {
        self.buffers[buffer].full |= whole;
        self.written.iter_mut().for_each(|all| all.push(buffer));
    }

    fn starts(&mut self, queue: &'static str, token: String, reads: &[usize], writes: &[usize]) {
        let one = |buffer: &usize, write| Pending {
            token: token.clone(),
            queue,
            buffer: *buffer,
            write,
        };
        let waited = std::mem::take(&mut self.after);
        self.tokens.push((token.clone(), queue, waited));
        let all = reads.iter().map(|b| one(b, false));
        let all: Vec<Pending> = all.chain(writes.iter().map(|b| one(b, true))).collect();
        self.pending.extend(all);
    }

    /// Brings rows of the argument into all of a buffer.
    fn load(&mut self, buffer: usize, iv: Option<&str>) {
        let b = self.buffers[buffer].clone();
        let queue = if b.near { "load" } else { "fill" };
        let after = self.behind(Some(queue), &[], &[buffer]);
        let row = match iv {
            Some(iv) if self.chance(5) => iv.to_string(),
            _ => format!("%c{}", self.random.below(8)),
        };
        let token = format!("%t{}", self.fresh());
        let (name, access, ty) = (&b.name, b.access(), b.ty());
        self.line(&format!(
            "{token} = accel.dma_start @{queue} read %x[{row}, 0] into {name} {access}{after} : !M to {ty}"
        ));
        self.writes(buffer, true);
        self.starts(queue, token, &[], &[buffer]);
    }

    /// Takes all of a buffer to rows of the result that are its own; gives the token.
    fn store(&mut self, buffer: usize) -> Option<String> {
        let b = self.buffers[buffer].clone();
        if !b.full || self.row + b.rows > ROWS {
            return None;
        }
        let queue = if b.near { "store" } else { "drain" };
        let after = self.behind(Some(queue), &[buffer], &[]);
        let (n, row) = (self.fresh(), self.row);
        self.row += b.rows;
        let (name, access, ty) = (&b.name, b.access(), b.ty());
        self.line(&format!("%y{n} = arith.constant {row} : index"));
        self.line(&format!(
            "%t{n} = accel.dma_start @{queue} write {name} into %y[%y{n}, 0] {access}{after} : {ty} to !M"
        ));
        self.starts(queue, format!("%t{n}"), &[buffer], &[]);
        Some(format!("%t{n}"))
    }

    fn call(&mut self, name: &str, out: usize, input: usize) {
        let (reads, writes) = ([input, out], [out]);
        let reads = if name == "sum" {
            &reads[..]
        } else {
            &reads[..1]
        };
        let after = self.behind(Some("alu"), reads, &writes);
        let (o, a) = (&self.buffers[out], &self.buffers[input]);
        let types = format!("{}, {}", o.ty(), a.ty());
        let line = format!(
            "accel.call @{name}({}, {}){after} : {types}",
            o.name, a.name
        );
        self.line(&line);
        let token = format!("%t{}", self.fresh());
        self.line(&format!("{token} = accel.mark @alu"));
        self.writes(out, name != "sum");
        self.starts("alu", token, reads, &writes);
    }

    /// Starts the last use of a buffer.
    fn last(&mut self, buffer: usize) {
        self.store(buffer);
        self.alive.retain(|other| *other != buffer);
        self.ending.push(buffer);
    }

    /// Waits for all work on a buffer, and its bytes are free.
    fn end(&mut self, buffer: usize) {
        let of = self.pending.iter().filter(|p| p.buffer == buffer);
        let mut tokens: Vec<String> = of.map(|p| p.token.clone()).collect();
        tokens.dedup();
        for token in tokens {
            if self.pending.iter().any(|p| p.token == token) {
                self.wait(&token);
            }
        }
        if self.ending.contains(&buffer) {
            self.free(buffer);
        }
    }

    /// Ends the buffers of a block, and what runs; what a loop may do further is left running, with a token behind it.
    fn leave(&mut self, depth: usize, before: Option<&[Pending]>) {
        let own = |all: &[usize], of: &[Buffer]| -> Vec<usize> {
            let own = all.iter().copied();
            own.filter(|b| of[*b].depth == depth).collect()
        };
        for buffer in own(&self.alive, &self.buffers) {
            self.last(buffer);
            if self.chance(5) {
                self.end(buffer);
            }
        }
        for buffer in own(&self.ending, &self.buffers) {
            self.end(buffer);
        }
        let before = before.unwrap_or_default();
        let pending = self.pending.clone();
        for p in pending.iter().filter(|p| !before.contains(p)) {
            let written = self
                .written
                .last()
                .is_some_and(|all| all.contains(&p.buffer));
            let goes_on = depth > 0 && !written && p.queue != "alu" && self.chance(5);
            if !goes_on && self.pending.contains(p) {
                self.wait(&p.token);
            }
        }
    }

    /// A block in braces, which runs or perhaps not. What it waits for if it runs is not overwritten behind it: others may be there.
    fn block(&mut self, depth: usize, iv: Option<&str>, runs: bool) {
        let (before, alive) = (self.pending.clone(), self.alive.clone());
        let tokens = self.tokens.len();
        let full: Vec<bool> = self.buffers.iter().map(|b| b.full).collect();
        self.written.push(Vec::new());
        self.depth = depth;
        for _ in 0..2 + self.random.below(6) {
            self.step(depth, iv);
        }
        self.leave(depth, Some(&before));
        self.written.pop();
        let inside = self.tokens.iter_mut().skip(tokens);
        inside.for_each(|(.., after)| after.clear());
        self.depth = depth - 1;
        let mut running = self.pending.clone();
        running.retain(|p| !before.contains(p));
        let after = std::mem::replace(&mut self.pending, before);
        self.alive = alive;
        if runs {
            self.pending.retain(|p| after.contains(p));
            let goes_on = |b: &usize| self.pending.iter().any(|p| p.buffer == *b);
            let is_own = |b: &usize| self.buffers[*b].depth == self.depth;
            self.ending.retain(|b| !is_own(b) || goes_on(b));
        }
        let buffers = self.buffers.iter_mut().zip(full);
        buffers.for_each(|(buffer, full)| buffer.full = full);
        self.line("}");
        for queue in ["load", "store", "fill", "drain"] {
            let all: Vec<&Pending> = running.iter().filter(|p| p.queue == queue).collect();
            if !all.is_empty() {
                let token = format!("%t{}", self.fresh());
                self.line(&format!("{token} = accel.mark @{queue}"));
                self.tokens.push((token.clone(), queue, Vec::new()));
                for p in all {
                    let p = Pending {
                        token: token.clone(),
                        ..p.clone()
                    };
                    self.pending.push(p);
                }
            }
        }
    }

    fn step(&mut self, depth: usize, iv: Option<&str>) {
        match self.random.below(if depth < 3 { 20 } else { 15 }) {
            0..=2 => {
                let (rows, near) = ([1, 1, 2, 3, 5][self.random.below(5)], !self.chance(3));
                let buffer = self.new_buffer(rows, near, depth);
                self.load(buffer, iv);
            }
            3..=5 => {
                let Some(input) = self.any(|b| b.full && b.near && b.rows == 1) else {
                    return;
                };
                let out = self.new_buffer(1, true, depth);
                self.call("double", out, input);
            }
            6 => {
                // The thread copies from one near memory to the other, or within one.
                let Some(input) = self.any(|b| b.full) else {
                    return;
                };
                let (rows, near) = (self.buffers[input].rows, self.chance(5));
                let out = self.new_buffer(rows, near, depth);
                self.behind(None, &[input], &[out]);
                let (a, o) = (&self.buffers[input], &self.buffers[out]);
                let types = format!("{} to {}", a.ty(), o.ty());
                let line = format!("memref.copy {}, {} : {types}", a.name, o.name);
                self.line(&line);
                self.writes(out, true);
            }
            7 => {
                let (Some(out), Some(input)) = (
                    self.any(|b| b.full && b.near && b.rows == 1),
                    self.any(|b| b.full && b.near && b.rows == 1),
                ) else {
                    return;
                };
                if out != input {
                    self.call("sum", out, input);
                }
            }
            8 => self.row_of_one(iv),
            9 => self.element(),
            10 => {
                if let Some(buffer) = self.any(|_| true) {
                    self.load(buffer, iv);
                }
            }
            11 => {
                if let Some(buffer) = self.any(|b| b.full) {
                    self.store(buffer);
                }
            }
            12 | 13 => {
                let own = |b: &&usize| self.buffers[**b].depth == depth;
                let ending: Vec<usize> = self.ending.iter().filter(own).copied().collect();
                match self.random.pick(&ending) {
                    Some(buffer) if self.chance(6) => self.end(buffer),
                    _ => {
                        if let Some(buffer) = self.any(|b| b.depth == depth) {
                            self.last(buffer);
                        }
                    }
                }
            }
            14 => self.either(iv),
            15 => self.handed_on(depth),
            16 => {
                let n = self.fresh();
                let left = iv.map_or(format!("%c{}", n % 3), str::to_string);
                self.line(&format!("%q{n} = arith.cmpi slt, {left}, %c1 : index"));
                self.line(&format!("loop.if %q{n} {{"));
                self.block(depth + 1, iv, false);
            }
            _ => {
                let (n, trips) = (self.fresh(), 1 + self.random.below(3));
                self.line(&format!("loop.for %i{n} = 0 to {trips} {{"));
                self.block(depth + 1, Some(&format!("%i{n}")), true);
            }
        }
    }

    /// A transfer into a row of a larger buffer.
    fn row_of_one(&mut self, iv: Option<&str>) {
        let Some(buffer) = self.any(|b| b.full && b.near && b.rows > 1) else {
            return;
        };
        let b = self.buffers[buffer].clone();
        let after = self.behind(Some("load"), &[], &[buffer]);
        let (n, row) = (self.fresh(), self.random.below(b.rows));
        let at = match iv {
            Some(iv) => {
                self.line(&format!(
                    "%r{n} = arith.minui {iv}, %c{} : index",
                    b.rows - 1
                ));
                format!("%r{n}")
            }
            None => format!("%c{row}"),
        };
        let part = "memref<16xf32, strided<[1], offset: ?>, \"spm\">";
        let (name, ty) = (&b.name, b.ty());
        self.line(&format!(
            "%s{n} = memref.subview {name}[{at}, 0] [1, 16] [1, 1] : {ty} to {part}"
        ));
        self.line(&format!(
            "%t{n} = accel.dma_start @load read %x[%c{row}, 0] into %s{n} access (c) -> (0, c){after} : !M to {part}"
        ));
        self.writes(buffer, false);
        self.starts("load", format!("%t{n}"), &[], &[buffer]);
    }

    /// The thread takes an element of one buffer to another.
    fn element(&mut self) {
        let one = |b: &Buffer| b.full && b.rows == 1;
        let (Some(from), Some(to)) = (self.any(one), self.any(one)) else {
            return;
        };
        self.behind(None, &[from], &[to]);
        let n = self.fresh();
        let (a, o) = (self.buffers[from].clone(), self.buffers[to].clone());
        self.line(&format!(
            "%v{n} = memref.load {}[%c{}] : {}",
            a.name,
            n % 8,
            a.ty()
        ));
        self.line(&format!(
            "memref.store %v{n}, {}[%c{}] : {}",
            o.name,
            n % 5,
            o.ty()
        ));
        self.writes(to, false);
    }

    /// One of two buffers, by a branch, is added to a third.
    fn either(&mut self, iv: Option<&str>) {
        let one = |b: &Buffer| b.full && b.near && b.rows == 1;
        let (Some(x), Some(y), Some(out)) = (self.any(one), self.any(one), self.any(one)) else {
            return;
        };
        if out == x || out == y {
            return;
        }
        let after = self.behind(Some("alu"), &[x, y, out], &[out]);
        let n = self.fresh();
        let left = iv.map_or(format!("%c{}", n % 3), str::to_string);
        let ty = self.buffers[x].ty();
        let (x_name, y_name) = (self.buffers[x].name.clone(), self.buffers[y].name.clone());
        self.line(&format!("%q{n} = arith.cmpi slt, {left}, %c1 : index"));
        self.line(&format!(
            "%e{n} = loop.if %q{n} -> ({ty}) {{\nloop.yield {x_name} : {ty}\n}} else {{\nloop.yield {y_name} : {ty}\n}}"
        ));
        let out_name = self.buffers[out].name.clone();
        self.line(&format!(
            "accel.call @sum({out_name}, %e{n}){after} : {ty}, {ty}"
        ));
        self.line(&format!("%t{n} = accel.mark @alu"));
        self.writes(out, false);
        self.starts("alu", format!("%t{n}"), &[x, y, out], &[out]);
    }

    /// Two buffers that change places in each iteration of a loop.
    fn handed_on(&mut self, depth: usize) {
        let one = |b: &Buffer| b.full && b.near && b.rows == 1 && b.depth == depth;
        let (Some(x), Some(y)) = (self.any(one), self.any(one)) else {
            return;
        };
        if x == y {
            return;
        }
        self.behind(None, &[], &[x, y]);
        let (n, trips) = (self.fresh(), 1 + self.random.below(4));
        let ty = self.buffers[x].ty();
        let (a, b) = (self.buffers[x].name.clone(), self.buffers[y].name.clone());
        self.line(&format!(
            "%r{n}:2 = loop.for %i{n} = 0 to {trips} iter_args(%p{n} = {a}, %o{n} = {b}) -> ({ty}, {ty}) {{"
        ));
        self.line(&format!("accel.call @sum(%p{n}, %o{n}) : {ty}, {ty}"));
        self.line(&format!("loop.yield %o{n}, %p{n} : {ty}, {ty}\n}}"));
        self.line(&format!("accel.call @sum(%r{n}#1, %r{n}#0) : {ty}, {ty}"));
        self.line(&format!("%t{n} = accel.mark @alu"));
        for buffer in [x, y] {
            self.writes(buffer, false);
        }
        self.starts("alu", format!("%t{n}"), &[], &[x, y]);
    }

    fn finish(self) -> Texts {
        let mut open = with_unit(MACHINE, 40);
        open += "func.func @f(%x: !M, %y: !M {func.out}) {\n%nan = arith.constant -77777.0 : f32\n";
        for n in 0..8 {
            _ = writeln!(open, "%c{n} = arith.constant {n} : index");
        }
        open += &self.head;
        let (mut plain, mut poisoned) = (open.clone(), open);
        for (n, line) in self.text.lines().enumerate() {
            let Some(freed) = line.strip_prefix(FREED) else {
                plain += &format!("{line}\n");
                poisoned += &format!("{line}\n");
                continue;
            };
            let mut parts = freed.splitn(3, ' ');
            let mut part = || parts.next().unwrap_or_default();
            let (name, rows, ty) = (part(), part(), part());
            poisoned += &match rows {
                "1" => format!(
                    "loop.for %j{n} = 0 to 16 {{\nmemref.store %nan, {name}[%j{n}] : {ty}\n}}\n"
                ),
                rows => format!(
                    "loop.for %k{n} = 0 to {rows} {{ loop.for %j{n} = 0 to 16 {{\nmemref.store %nan, {name}[%k{n}, %j{n}] : {ty}\n}} }}\n"
                ),
            };
        }
        for text in [&mut plain, &mut poisoned] {
            text.push_str("func.return\n}\n");
        }
        Texts { plain, poisoned }
    }
}
