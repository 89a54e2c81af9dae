//! The how-to pages work as they are written: each touches at most three files; all are applied to
//! one copy of the repository, which is built once, and the tests of each pass. The page about
//! dialects makes a folder beside the copy and touches nothing in it; its commands are run as they
//! stand.
//!
//! The info string of a code block says what becomes of it: `new=PATH` is a new file,
//! `append=PATH` goes to the end of one, and in `edit=PATH` each run of lines that begin with `-`
//! is text to be found, and the run of `+` behind it what replaces it.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{fs, io};

const MOST_FILES: usize = 3;
/// Nobody debugs what the pages build.
const DEBUG: &str = "none";

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

/// Makes `copy` the repository with these steps applied.
fn prepare(root: &Path, copy: &Path, steps: &[Step]) -> io::Result<()> {
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
    Ok(())
}

/// Runs a command that must succeed; gives what it printed.
fn run(what: &str, command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{what}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{what} fails:\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn pages_work_as_written() {
    let root = xtask::root();
    let home = root.join("target/how-to");
    let copy = home.join("copy");
    fs::create_dir_all(&copy).expect("the scratch folder can be made");
    let (mut all, mut tests) = (Vec::new(), BTreeSet::new());
    for page in ["add-an-op", "add-a-pass", "add-a-rule"] {
        let file = root.join(format!("docs/how-to/{page}.md"));
        let text = fs::read_to_string(file).expect("the page can be read");
        let steps = steps(&text);
        let touched: BTreeSet<String> = steps.iter().map(|step| step.path.clone()).collect();
        let count = touched.len();
        assert!(
            count <= MOST_FILES,
            "{page} touches {count} files: {touched:?}"
        );
        let added: Vec<String> = { touched.into_iter() }
            .filter(|path| path.starts_with("test/"))
            .collect();
        assert!(!added.is_empty(), "{page} adds no test");
        for test in &added {
            let folder = test.rsplit_once('/').map_or("", |(folder, _)| folder);
            let named = |path: &str| text.contains(&format!("`cargo lit {path}`"));
            assert!(named(test) || named(folder), "{page} runs {test} nowhere");
        }
        all.extend(steps);
        tests.extend(added);
    }
    prepare(&root, &copy, &all).expect("the copy can be written");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--offline", "--quiet", "--target-dir"]);
    build.arg(&home).current_dir(&copy);
    build.env("CARGO_PROFILE_DEV_DEBUG", DEBUG);
    for package in ["tir-opt", "tir-filecheck", "cargo-lit"] {
        build.args(["--package", package]);
    }
    run("cargo build of the pages", &mut build);
    let mut lit = Command::new(home.join("debug/cargo-lit"));
    lit.args(["--no-build", "--root"]).arg(&copy);
    lit.arg("--tools").arg(home.join("debug")).args(&tests);
    lit.current_dir(&copy);
    run("cargo lit of the pages", &mut lit);
    // Behind the others and on the same copy: what is built is shared.
    dialect_from_outside(&root, &home, &copy);
}

/// The lines of the `sh` blocks of a page.
fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    blocks.flat_map(str::lines).collect()
}

/// A folder outside of the repository, the same each time, so that cargo builds only what changed.
fn beside(root: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    let name = format!("tir-how-to-{:016x}", hasher.finish());
    std::env::temp_dir().join(name)
}

/// Follows the page about dialects, which need nothing of the repository but `copy`.
fn dialect_from_outside(root: &Path, home: &Path, copy: &Path) {
    let file = root.join("docs/how-to/add-a-dialect.md");
    let page = fs::read_to_string(file).expect("the page can be read");
    let steps = steps(&page);
    let folder = beside(root);
    let (bits, tir) = (folder.join("bits"), folder.join("tir"));
    // Nothing is there that the page does not say, but the versions of outside crates.
    let _ = fs::remove_dir_all(&bits);
    fs::create_dir_all(&bits).expect("a folder outside can be made");
    let _ = fs::remove_file(&tir);
    std::os::unix::fs::symlink(copy, &tir).expect("a link can be made");
    fs::copy(root.join("Cargo.lock"), bits.join("Cargo.lock")).expect("the lock can be copied");
    for step in &steps {
        let inside = Path::new(&step.path).components();
        let inside = { inside }.all(|part| matches!(part, Component::Normal(_)));
        assert!(
            step.what == "new" && inside,
            "{} is a file of ours",
            step.path
        );
        let text = applied(step, None);
        write(&bits.join(&step.path), text.as_bytes()).expect("the file can be written");
    }
    let commands = commands(&page);
    assert!(!commands.is_empty(), "the page runs nothing");
    for line in commands {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().expect("a line is a command"));
        command.args(words).current_dir(&bits);
        command.env("CARGO_TARGET_DIR", home);
        command.env("CARGO_NET_OFFLINE", "true");
        // As above, so that outside crates need not be built again.
        command.env("CARGO_PROFILE_DEV_DEBUG", DEBUG);
        // Not those that cargo sets for a test.
        command.env_remove("CARGO").env_remove("CARGO_MANIFEST_DIR");
        let shown = run(&format!("add-a-dialect: {line}"), &mut command);
        let tests = steps.iter().filter(|s| s.path.ends_with(".tir")).count();
        let summary = format!("{tests} passed, 0 failed, 0 skipped");
        assert!(shown.contains(&summary), "add-a-dialect: {line}:\n{shown}");
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
