//! The book is true: its commands print what it shows, its programs parse and verify, its Rust is
//! included from files that are compiled, and its links lead somewhere.
//!
//! `cargo test -p book-examples` checks all chapters; with `-- trycmd=NAME` only commands of chapters
//! whose path has NAME in it. `cargo xtask docs` (that is, `TRYCMD=overwrite`) writes what commands
//! print into the chapters, and the reference pages; read the difference before you commit it.
//!
//! Commands run in a scratch folder that links to `machines` and `programs` of this crate. The
//! tools are this very executable, called by their names, so that what is tested is never older
//! than the sources.

mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

type Main = fn() -> ExitCode;

/// The stock tools, by the name they are called by.
const TOOLS: [(&str, Main); 5] = [
    ("tir", tir_cli::main),
    ("tir-opt", || tir_opt::main(tir_opt::stock())),
    ("tir-plan", tir_plan::main),
    ("tir-run", || tir_run::main("tir-run", tir_opt::DIALECTS)),
    ("tir-translate", tir_translate::main),
];

/// The drivers of this crate.
const DRIVERS: [(&str, &str); 2] = [
    ("toy-opt", env!("CARGO_BIN_EXE_toy-opt")),
    ("toy-run", env!("CARGO_BIN_EXE_toy-run")),
];

fn main() -> ExitCode {
    let called = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let tool = TOOLS.iter().find(|(name, _)| called.ends_with(name));
    if let Some((_, main)) = tool {
        return main();
    }
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let book = crate_root
        .parent()
        .expect("the crate lies in the book")
        .join("src");
    let overwrite = env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite");
    let mut problems = Vec::new();
    reference::check(&book, overwrite, &mut problems).expect("the book can be written");
    let pages = pages(&book);
    for page in pages.values() {
        page.check(&book, &pages, &mut problems);
    }
    check_summary(&pages, &mut problems);
    check_decisions(crate_root, &mut problems);
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    commands(crate_root, &book).expect("the scratch folder can be made");
    println!("book: {} pages, {} problems", pages.len(), problems.len());
    ExitCode::from(u8::from(!problems.is_empty()))
}

/// Runs the commands of all chapters; panics if one prints something else than the book shows.
fn commands(crate_root: &Path, book: &Path) -> io::Result<()> {
    let scratch = tempfile::tempdir()?;
    let (run, bin) = (scratch.path().join("run"), scratch.path().join("bin"));
    fs::create_dir_all(&run)?;
    fs::create_dir_all(&bin)?;
    for folder in ["machines", "programs"] {
        symlink(crate_root.join(folder), run.join(folder))?;
    }
    let repository = crate_root.ancestors().nth(3).expect("the repository");
    symlink(repository.join("test"), run.join("test"))?;
    let cases = trycmd::TestCases::new();
    let own = env::current_exe()?;
    for (name, _) in TOOLS {
        symlink(&own, bin.join(name))?;
        cases.register_bin(name, bin.join(name));
    }
    for (name, path) in DRIVERS {
        cases.register_bin(name, PathBuf::from(path));
    }
    // What a reader has anyway.
    cases.register_bin("cat", PathBuf::from("/bin/cat"));
    env::set_current_dir(&run)?;
    cases.case(book.join("*.md"));
    cases.case(book.join("*/*.md"));
    cases.run();
    Ok(())
}

/// A page of the book.
struct Page {
    /// Its path from `src`.
    path: PathBuf,
    links: Vec<String>,
    anchors: BTreeSet<String>,
    /// Info string and text of each code block.
    blocks: Vec<(String, String)>,
}

/// All pages, by path.
fn pages(book: &Path) -> BTreeMap<PathBuf, Page> {
    let mut folders = vec![book.to_path_buf()];
    let mut pages = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the book can be read") {
            let path = entry.expect("the book can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let text = fs::read_to_string(&path).expect("a page is text");
                let path = path
                    .strip_prefix(book)
                    .expect("it lies below")
                    .to_path_buf();
                let whole = included(&text, &book.join(&path)).unwrap_or_default();
                pages.insert(path.clone(), Page::new(path, &text, &whole));
            }
        }
    }
    pages
}

impl Page {
    /// A page of this text; `whole` is the text with what it includes, whose headings count.
    fn new(path: PathBuf, text: &str, whole: &str) -> Page {
        let (mut links, mut blocks, mut block) = (Vec::new(), Vec::new(), None::<(String, String)>);
        for event in Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.to_string());
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.to_string(),
                        CodeBlockKind::Indented => "indented".to_string(),
                    };
                    block = Some((info, String::new()));
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(block.take()),
                Event::Text(text) => {
                    if let Some((_, block)) = &mut block {
                        *block += &text;
                    }
                }
                _ => {}
            }
        }
        Page {
            path,
            links,
            anchors: anchors(whole),
            blocks,
        }
    }

    fn check(&self, book: &Path, pages: &BTreeMap<PathBuf, Page>, problems: &mut Vec<String>) {
        let name = self.path.display();
        for link in &self.links {
            if let Err(problem) = self.follow(link, book, pages) {
                problems.push(format!("{name}: link to {link}: {problem}"));
            }
        }
        for (info, text) in &self.blocks {
            if let Err(problem) = check_block(info, text, &book.join(&self.path)) {
                problems.push(format!("{name}: a block `{info}`: {problem}\n{text}"));
            }
        }
    }

    /// Whether a link leads somewhere. Addresses on the web are not looked at.
    fn follow(
        &self,
        link: &str,
        book: &Path,
        pages: &BTreeMap<PathBuf, Page>,
    ) -> Result<(), String> {
        if link.contains("://") {
            return Ok(());
        }
        let (file, fragment) = link
            .split_once('#')
            .map_or((link, None), |(f, a)| (f, Some(a)));
        let path = match file {
            "" => self.path.clone(),
            _ => normal(&self.path.parent().unwrap_or(Path::new("")).join(file)),
        };
        match (pages.get(&path), fragment) {
            (Some(page), Some(anchor)) if !page.anchors.contains(anchor) => {
                Err(format!("no heading #{anchor}"))
            }
            (Some(_), _) => Ok(()),
            (None, None) if !path.starts_with("..") && book.join(&path).exists() => Ok(()),
            (None, _) => Err("no such page of the book".to_string()),
        }
    }
}

/// A path without `..`, as far as it can be told from its text.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." && out.file_name().is_some_and(|name| name != "..") {
            out.pop();
        } else {
            out.push(part);
        }
    }
    out
}

/// The anchors of the headings of a text: those that they say, or that are made of their words.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut heading) = (BTreeSet::new(), None::<String>);
    for event in Parser::new_ext(text, pulldown_cmark::Options::ENABLE_HEADING_ATTRIBUTES) {
        match event {
            Event::Start(Tag::Heading { id: Some(id), .. }) => {
                anchors.insert(id.to_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                anchors.extend(heading.take().map(|text| anchor(&text)));
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    *heading += &text;
                }
            }
            _ => {}
        }
    }
    anchors
}

/// The anchor that mdBook gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// What a block is by its info string, and whether it is right. `console` blocks are run by
/// trycmd; `text` is for what is neither run nor read.
fn check_block(info: &str, text: &str, page: &Path) -> Result<(), String> {
    match info {
        "console" | "text" | "toml" | "sh" | "ebnf" => Ok(()),
        "tir" => {
            let text = included(text, page)?;
            tir_opt::DIALECTS.iter().for_each(|dialect| dialect.load());
            let shown = |errors: Vec<tir::Diagnostic>| {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                lines.join("\n")
            };
            let file = tir::Name::new("block");
            let module = tir::text::parse(&text, file, &Default::default()).map_err(shown)?;
            tir::verify(&module).map_err(shown)
        }
        "rust" => match text.contains("{{#include ") {
            true => included(text, page).map(|_| ()),
            false => Err("Rust is included from a file that is compiled".to_string()),
        },
        _ => Err("none of console, tir, rust, text, toml, sh, ebnf".to_string()),
    }
}

/// A block with what it includes, as mdBook does it: whole files and parts between
/// `ANCHOR: name` and `ANCHOR_END: name`.
fn included(text: &str, page: &Path) -> Result<String, String> {
    let mut out = String::new();
    for line in text.lines() {
        let Some(path) = line
            .trim()
            .strip_prefix("{{#include ")
            .and_then(|l| l.strip_suffix("}}"))
        else {
            out += &format!("{line}\n");
            continue;
        };
        let (file, part) = path
            .split_once(':')
            .map_or((path, None), |(f, p)| (f, Some(p)));
        let file = page.parent().unwrap_or(Path::new("")).join(file);
        let whole = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let Some(part) = part else {
            out += &whole;
            continue;
        };
        let marks = |mark: &str, line: &str| line.trim_end().ends_with(&format!("{mark}: {part}"));
        let from = whole
            .lines()
            .skip_while(|line| !marks("ANCHOR", line))
            .skip(1);
        let inside: Vec<&str> = from.take_while(|line| !marks("ANCHOR_END", line)).collect();
        if inside.is_empty() {
            return Err(format!("{} has no anchor {part}", file.display()));
        }
        out += &inside.join("\n");
        out.push('\n');
    }
    Ok(out)
}

/// Every page is in SUMMARY.md.
fn check_summary(pages: &BTreeMap<PathBuf, Page>, problems: &mut Vec<String>) {
    let summary = &pages[Path::new("SUMMARY.md")];
    let listed: BTreeSet<&str> = summary.links.iter().map(String::as_str).collect();
    for path in pages.keys().filter(|path| !path.ends_with("SUMMARY.md")) {
        if !listed.contains(&*path.to_string_lossy()) {
            problems.push(format!("{} is not listed in SUMMARY.md", path.display()));
        }
    }
}

/// Every decision is in the index of decisions, and in the book.
fn check_decisions(crate_root: &Path, problems: &mut Vec<String>) {
    let folder = crate_root
        .ancestors()
        .nth(2)
        .expect("docs")
        .join("decisions");
    let index = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let page = crate_root
        .parent()
        .expect("the book")
        .join("src/decisions.md");
    let page = fs::read_to_string(page).unwrap_or_default();
    for entry in fs::read_dir(&folder).expect("docs/decisions can be read") {
        let name = entry.expect("it can be read").file_name();
        let name = name.to_string_lossy();
        if name == "README.md" {
            continue;
        }
        if !index.contains(&format!("({name})")) {
            problems.push(format!("docs/decisions/README.md does not list {name}"));
        }
        if !page.contains(&format!("/{name}}}}}")) {
            problems.push(format!(
                "docs/book/src/decisions.md does not include {name}"
            ));
        }
    }
}
