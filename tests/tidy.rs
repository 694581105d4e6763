//! The rules of the house that a compiler does not keep: who may import whom (the table in README), how long a file may
//! be, and what must not stand in it at all.
//!
//! **Source:** architecture.md "Who may import whom", style.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Rust file, with comments and the contents of texts blanked out, so that only code is left.
struct Source {
    /// From the project's root.
    name: String,
    /// `squall` or `squall-sim`.
    package: &'static str,
    /// Path below `src/`, without `.rs` and `mod`: `["axis", "flap"]`.
    module: Vec<String>,
    text: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let mut all = Vec::new();
    for (package, folder) in [("squall", "src"), ("squall-sim", "sim/src")] {
        for path in files(&root().join(folder), "rs") {
            let below = path.strip_prefix(root().join(folder)).unwrap().with_extension("");
            let mut module: Vec<String> =
                below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = code_of(&text);
            all.push(Source { name: name_of(&path), package, module, text, code });
        }
    }
    assert!(all.len() > 50, "only {} sources found: the folders are other ones now", all.len());
    all
}

fn name_of(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Blanks comments and the contents of string and char literals; line breaks stay, so lines keep their numbers.
fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut i = 0;
    let blank = |code: &mut String, c: char| code.push(if c == '\n' { '\n' } else { ' ' });
    while i < chars.len() {
        let next = chars.get(i + 1).copied();
        let after_word = i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_');
        let raw = raw_string(&chars[i..]).filter(|_| !after_word);
        if chars[i] == '/' && next == Some('/') {
            while i < chars.len() && chars[i] != '\n' {
                code.push(' ');
                i += 1;
            }
        } else if chars[i] == '/' && next == Some('*') {
            let mut depth = 0;
            loop {
                let pair = (chars.get(i).copied(), chars.get(i + 1).copied());
                match pair {
                    (Some('/'), Some('*')) => depth += 1,
                    (Some('*'), Some('/')) => depth -= 1,
                    (None, _) => break,
                    _ => {
                        blank(&mut code, chars[i]);
                        i += 1;
                        continue;
                    }
                }
                code.push_str("  ");
                i += 2;
                if depth == 0 {
                    break;
                }
            }
        } else if let Some((start, hashes)) = raw {
            let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let close: Vec<char> = close.chars().collect();
            let body = i + start;
            let end = (body..chars.len()).find(|at| chars[*at..].starts_with(&close)).unwrap_or(chars.len());
            for c in &chars[i..(end + close.len()).min(chars.len())] {
                blank(&mut code, *c);
            }
            i = end + close.len();
        } else if chars[i] == '"' {
            code.push('"');
            i += 1;
            while i < chars.len() && chars[i] != '"' {
                let step = if chars[i] == '\\' { 2 } else { 1 };
                for c in chars.iter().skip(i).take(step) {
                    blank(&mut code, *c);
                }
                i += step;
            }
            code.push('"');
            i += 1;
        } else if chars[i] == '\'' && (next == Some('\\') || chars.get(i + 2) == Some(&'\'')) {
            let from = if next == Some('\\') { i + 3 } else { i + 2 };
            let end = (from..chars.len()).find(|at| chars[*at] == '\'').unwrap_or(chars.len() - 1);
            for c in &chars[i..=end] {
                blank(&mut code, *c);
            }
            i = end + 1;
        } else {
            code.push(chars[i]);
            i += 1;
        }
    }
    code
}

/// `r"`, `r#"`, `br#"`: how many characters before the text begins, and how many hashes close it.
fn raw_string(chars: &[char]) -> Option<(usize, usize)> {
    let prefix = match chars {
        ['b', 'r', ..] => 2,
        ['r', ..] => 1,
        _ => return None,
    };
    let hashes = chars[prefix..].iter().take_while(|c| **c == '#').count();
    (chars.get(prefix + hashes) == Some(&'"')).then_some((prefix + hashes + 1, hashes))
}

/// A row of README's table.
struct Rule {
    package: String,
    folder: String,
    /// `None`: everything.
    may: Option<BTreeSet<String>>,
    never: Vec<String>,
}

fn rules() -> Vec<Rule> {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md is there");
    let rows = readme.lines().skip_while(|line| !line.starts_with("| Package | Folder |")).skip(2);
    let rules: Vec<Rule> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 4, "README's import table: {line}");
            let list = |cell: &str| {
                cell.split(", ").filter(|word| !word.is_empty() && *word != "–").map(str::to_owned).collect::<Vec<_>>()
            };
            let may = (cells[2] != "everything").then(|| list(cells[2]).into_iter().collect());
            Rule { package: cells[0].into(), folder: cells[1].into(), may, never: list(cells[3]) }
        })
        .collect();
    assert!(rules.len() > 20, "README's import table was not found, or has lost most of its rows");
    rules
}

/// Every path in the code that leaves the source's own top module, as in the table, with the line it stands on.
fn imports(source: &Source, tops: &BTreeSet<String>) -> Vec<(usize, String)> {
    let own = source.module.first().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (at, head, prefix) in heads(&source.code, source) {
        let line = source.code[..at].matches('\n').count() + 1;
        for name in first_names(&source.code[at + head..]) {
            let foreign = format!("{prefix}{name}");
            // `crate::` of the other package's modules keep their prefix; own modules stand bare.
            if prefix.is_empty() && (name == own || !tops.contains(&name)) {
                continue;
            }
            found.push((line, foreign));
        }
    }
    found
}

/// Places where a path begins at the root of a package: (place, length of the beginning, prefix in the table).
fn heads(code: &str, source: &Source) -> Vec<(usize, usize, &'static str)> {
    let mut found = Vec::new();
    let word_before = |at: usize| code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    for (at, _) in code.match_indices("crate::") {
        if !word_before(at) && !code[..at].ends_with('$') {
            found.push((at, "crate::".len(), ""));
        }
    }
    if source.package == "squall-sim" {
        for (at, _) in code.match_indices("squall::") {
            if !word_before(at) {
                found.push((at, "squall::".len(), "squall::"));
            }
        }
    }
    // As many `super::` as the module is deep lead to the root.
    let depth = source.module.len();
    if depth > 0 {
        let chain = "super::".repeat(depth);
        for (at, _) in code.match_indices(&chain) {
            let rest = &code[at + chain.len()..];
            if !word_before(at) && !code[..at].ends_with("super::") && !rest.starts_with("super::") {
                found.push((at, chain.len(), ""));
            }
        }
    }
    found
}

/// The first name of what follows, or of each branch: `a::b` -> a; `{a::{b, c}, d}` -> a, d.
fn first_names(rest: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    if !rest.starts_with('{') {
        return vec![word(rest)].into_iter().filter(|name| !name.is_empty()).collect();
    }
    let mut names = Vec::new();
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && (c == '{' || c == ',') {
            names.push(word(rest[at + 1..].trim_start()));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn every_import_is_one_that_the_table_in_readme_allows() {
    let rules = rules();
    let mut wrong = Vec::new();
    let sources = sources();
    let mut tops: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for source in &sources {
        tops.entry(source.package).or_default().extend(source.module.first().cloned());
    }
    for source in sources.iter().filter(|source| source.module != ["lib"]) {
        let folder = &source.module[0];
        let Some(rule) = rules.iter().find(|rule| rule.package == source.package && rule.folder == *folder) else {
            wrong.push(format!("{}:1: {}/{folder} has no row in README's import table", source.name, source.package));
            continue;
        };
        if let Some(may) = &rule.may {
            for (line, import) in imports(source, &tops[source.package]) {
                if !may.contains(&import) {
                    wrong.push(format!("{}:{line}: {folder} may not import {import}", source.name));
                }
            }
        }
        for word in &rule.never {
            for (line, _) in words(&source.code, word) {
                wrong.push(format!("{}:{line}: {word} has no place in {folder}", source.name));
            }
        }
    }
    assert!(wrong.is_empty(), "see \"Who may import whom\" in README.md\n{}", wrong.join("\n"));
}

#[test]
fn every_row_of_the_table_is_about_code_that_exists() {
    let sources = sources();
    for rule in rules() {
        let there = sources.iter().any(|source| source.package == rule.package && source.module[0] == rule.folder);
        assert!(there, "README's import table has a row for {}/{}, which is not there", rule.package, rule.folder);
    }
}

/// Where `word` stands as a word of the code: (line, place).
fn words(code: &str, word: &str) -> Vec<(usize, usize)> {
    let plain = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    code.match_indices(word)
        .filter(|(at, _)| plain(code[..*at].chars().next_back()) && plain(code[at + word.len()..].chars().next()))
        .map(|(at, _)| (code[..at].matches('\n').count() + 1, at))
        .collect()
}

#[test]
fn no_file_is_longer_than_anyone_reads_and_every_one_says_what_it_is_for() {
    let mut wrong = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{}: {lines} lines; split it by kind at {LINES_MAX}", source.name));
        }
        // A file of tests is about the file it stands beside.
        let tests = source.module.last().is_some_and(|last| last.ends_with("tests"));
        if !tests && !source.text.starts_with("//!") {
            wrong.push(format!("{}:1: begins without a module doc", source.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_open_and_no_test_is_skipped() {
    let mut wrong = Vec::new();
    for source in sources() {
        for word in ["todo!", "unimplemented!", "dbg!", "#[ignore"] {
            for (at, _) in source.code.match_indices(word) {
                let line = source.code[..at].matches('\n').count() + 1;
                wrong.push(format!("{}:{line}: {word}", source.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_names_a_folder_of_some_machine() {
    // Put together here, for this file is read too.
    let places = ["home", "root", "work", "Users"].map(|place| format!("/{place}/"));
    let mut wrong = Vec::new();
    let mut all = Vec::new();
    for (folder, extension) in [
        ("src", "rs"),
        ("src", "sql"),
        ("sim", "rs"),
        ("tests", "rs"),
        ("benches", "rs"),
        ("scenarios", "toml"),
        ("scenarios", "json"),
    ] {
        all.extend(files(&root().join(folder), extension));
    }
    let single = ["README.md", "Cargo.toml", "sim/Cargo.toml", "clippy.toml", ".ci/run", ".cargo/config.toml"];
    all.extend(single.map(|name| root().join(name)));
    for path in all {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (number, line) in text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place.as_str())) {
                wrong.push(format!("{}:{}: {}", name_of(&path), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn readme_tells_a_newcomer_what_to_type_and_what_the_codes_mean() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for part in [
        "cargo run --release --bin squall -- run",
        "cargo test",
        "| 70 | internal error |",
        "scenarios/smoke",
        "## Recipes",
        "## Choices made",
    ] {
        assert!(readme.contains(part), "README.md lacks {part:?}");
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE", ".ci/run", "clippy.toml"] {
        assert!(root().join(name).is_file(), "{name} is missing");
    }
}

#[test]
fn what_readme_says_lies_somewhere_lies_there() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut wrong = Vec::new();
    let places = ["src/", "sim/src/", "scenarios/", "tests/", ".ci/"];
    // Without the blocks of code, what stands between backticks is every other piece.
    let prose: String = readme.split("```").step_by(2).collect();
    // Examples of one's own are called `mine` or `my-…`.
    for piece in prose.split('`').skip(1).step_by(2) {
        for word in piece.split_whitespace().filter(|word| places.iter().any(|place| word.starts_with(place))) {
            let own = word.contains("mine") || word.contains("my-");
            if !own && !root().join(word).exists() {
                wrong.push(word.to_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "README.md names what is not there: {wrong:?}");
}

#[test]
fn code_is_told_from_comments_and_texts() {
    let code = code_of(
        "let a = \"crate::x // no\"; // crate::y\n/* crate::z /* deep */ */ let b = r#\"\"crate::\"#; '\\'' 'a' c::d",
    );
    assert!(!code.contains("crate"), "{code}");
    assert!(code.contains("let b =") && code.contains("c::d") && code.matches('\n').count() == 1, "{code}");
    let lifetime = code_of("fn f<'a>(x: &'a str) {} // gone");
    assert!(lifetime.contains("fn f<'a>(x: &'a str) {}"), "{lifetime}");
}

#[test]
fn an_import_is_found_in_each_of_its_forms() {
    let code =
        "use crate::store::X; use crate::{base::{A, B}, wire}; fn f() { super::super::queue::g(); crate::axis::h() }";
    let source = Source {
        name: "t".into(),
        package: "squall",
        module: vec!["axis".into(), "flap".into()],
        text: String::new(),
        code: code.into(),
    };
    let tops = ["store", "base", "wire", "queue", "axis"].map(str::to_owned).into();
    let mut names: Vec<String> = imports(&source, &tops).into_iter().map(|(_, name)| name).collect();
    names.sort();
    assert_eq!(names, ["base", "queue", "store", "wire"]);
}
