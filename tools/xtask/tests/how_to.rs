//! The how-to pages work as they are written: each is applied to a copy of the repository, touches
//! at most three files, builds, and its test passes.
//!
//! The info string of a code block says what becomes of it: `new=PATH` is a new file,
//! `append=PATH` goes to the end of one, and in `edit=PATH` each run of lines that begin with `-`
//! is text to be found, and the run of `+` behind it what replaces it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

const MOST_FILES: usize = 3;

/// A code block that says what becomes of it.
#[derive(Debug, PartialEq)]
struct Step {
    what: String,
    path: String,
    text: String,
}

/// The code blocks of a page that change a file.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut open: Option<Option<Step>> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let said = info.split_whitespace().find_map(|w| w.split_once('='));
                open = Some(said.map(|(what, path)| Step {
                    what: what.to_string(),
                    path: path.to_string(),
                    text: String::new(),
                }));
            }
            (Some(_), Some(_)) => steps.extend(open.take().flatten()),
            (None, Some(Some(step))) => step.text += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "a code block is not closed");
    steps
}

/// Pairs of what is found and what replaces it.
fn edits(text: &str) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut after = true;
    for line in text.lines() {
        if let Some(old) = line.strip_prefix('-') {
            if after {
                pairs.push(Default::default());
            }
            after = false;
            let pair = pairs.last_mut().expect("a pair was begun");
            pair.0 += &format!("{old}\n");
        } else if let Some(new) = line.strip_prefix('+') {
            after = true;
            let pair = pairs.last_mut().expect("`+` stands behind `-`");
            pair.1 += &format!("{new}\n");
        } else {
            panic!("a line of an edit begins with `-` or `+`: {line}");
        }
    }
    let cut = |text: String| text.trim_end_matches('\n').to_string();
    let pairs = pairs.into_iter().map(|(old, new)| (cut(old), cut(new)));
    pairs.collect()
}

/// The content of a file after a step.
fn applied(step: &Step, before: Option<String>) -> String {
    let there = || {
        let path = &step.path;
        before
            .clone()
            .unwrap_or_else(|| panic!("{path} is not there"))
    };
    match step.what.as_str() {
        "new" => {
            assert!(before.is_none(), "{} is there already", step.path);
            step.text.clone()
        }
        "append" => there() + &step.text,
        "edit" => edits(&step.text).iter().fold(there(), |text, (old, new)| {
            let found = text.matches(old.as_str()).count();
            assert_eq!(found, 1, "{} has `{old}` {found} times", step.path);
            text.replacen(old.as_str(), new, 1)
        }),
        other => panic!("`{other}=` is none of new, append, edit"),
    }
}

/// Writes a file unless it is as it should be, so that cargo sees only what changed.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
    fs::write(path, content)
}

/// The files of the repository that git knows, or would know if they were added.
fn tracked(root: &Path) -> BTreeSet<String> {
    let mut command = Command::new("git");
    command.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let output = command.current_dir(root).output().expect("git can be run");
    assert!(output.status.success(), "git ls-files fails");
    let text = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let paths = text.split('\0').filter(|path| root.join(path).is_file());
    paths.map(str::to_string).collect()
}

/// All files below a folder.
fn files(folder: &Path, out: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files(&path, out)?,
            false => out.push(path),
        }
    }
    Ok(())
}

/// Makes `copy` the repository with a page applied; gives the files that the page touches.
fn prepare(root: &Path, copy: &Path, steps: &[Step]) -> io::Result<BTreeSet<String>> {
    let tracked = tracked(root);
    let touched: BTreeSet<String> = steps.iter().map(|step| step.path.clone()).collect();
    for path in &tracked {
        if !touched.contains(path) {
            write(&copy.join(path), &fs::read(root.join(path))?)?;
        }
    }
    for path in &touched {
        let before = tracked.contains(path);
        let mut text = before.then(|| fs::read_to_string(root.join(path)).expect("it is text"));
        for step in steps.iter().filter(|step| step.path == *path) {
            text = Some(applied(step, text));
        }
        write(&copy.join(path), text.unwrap_or_default().as_bytes())?;
    }
    // What an earlier page, or an earlier state of the repository, left behind.
    let mut all = Vec::new();
    files(copy, &mut all)?;
    for file in all {
        let path = file.strip_prefix(copy).expect("it lies below");
        let path = path.to_string_lossy().into_owned();
        if !tracked.contains(&path) && !touched.contains(&path) {
            fs::remove_file(file)?;
        }
    }
    Ok(touched)
}

fn run(what: &str, command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{what}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{what} fails:\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn pages_work_as_written() {
    let root = xtask::root();
    let home = root.join("target/how-to");
    let copy = home.join("copy");
    fs::create_dir_all(&copy).expect("the scratch folder can be made");
    for page in ["add-an-op", "add-a-pass"] {
        let file = root.join(format!("docs/how-to/{page}.md"));
        let text = fs::read_to_string(file).expect("the page can be read");
        let steps = steps(&text);
        let touched = prepare(&root, &copy, &steps).expect("the copy can be written");
        let count = touched.len();
        assert!(
            count <= MOST_FILES,
            "{page} touches {count} files: {touched:?}"
        );
        let tests: Vec<&String> = touched.iter().filter(|p| p.starts_with("test/")).collect();
        assert!(!tests.is_empty(), "{page} adds no test");
        for test in &tests {
            let folder = test.rsplit_once('/').map_or("", |(folder, _)| folder);
            let named = |path: &str| text.contains(&format!("`cargo lit {path}`"));
            assert!(named(test) || named(folder), "{page} runs {test} nowhere");
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--offline", "--quiet", "--target-dir"]);
        build.arg(&home).current_dir(&copy);
        for package in ["tir-opt", "tir-filecheck", "tir-lit"] {
            build.args(["--package", package]);
        }
        run(&format!("{page}: cargo build"), &mut build);
        let mut lit = Command::new(home.join("debug/cargo-lit"));
        lit.args(["--no-build", "--root"]).arg(&copy);
        lit.arg("--tools").arg(home.join("debug")).args(tests);
        lit.current_dir(&copy);
        run(&format!("{page}: cargo lit"), &mut lit);
    }
}

#[test]
fn pages_are_read() {
    let page = "x\n```rust edit=a/b.rs\n-one\n-two\n+1\n-x\n+y\n+z\n```\n```\nnew=c\n```\n```tir new=t\nq\n```";
    let steps = steps(page);
    let [edit, new] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!((new.what.as_str(), new.path.as_str()), ("new", "t"));
    assert_eq!(applied(new, None), "q\n");
    assert_eq!(edit.path, "a/b.rs");
    let before = Some("zero\none\ntwo\nx\n".to_string());
    assert_eq!(applied(edit, before), "zero\n1\ny\nz\n");
    let append = Step {
        what: "append".to_string(),
        ..Step {
            path: String::new(),
            what: String::new(),
            text: "b\n".to_string(),
        }
    };
    assert_eq!(applied(&append, Some("a\n".to_string())), "a\nb\n");
}

#[test]
#[should_panic(expected = "has `one` 2 times")]
fn an_edit_names_one_place() {
    let step = Step {
        what: "edit".to_string(),
        path: "f".to_string(),
        text: "-one\n+two\n".to_string(),
    };
    applied(&step, Some("one one".to_string()));
}
