//! Evidence fit to be shown: an error's text without credentials and query strings, cut to length.
//!
//! It goes by shape, not by knowledge of a provider: what follows `Bearer`, `Basic` or a telling name (`api_key=`,
//! `authorization:`), what looks like a key by its prefix or its length, user info and query strings in URLs. Rather one
//! word too many than a key in a chat. **Source:** engine.md 10.

const REMOVED: &str = "[removed]";
/// A word of this many letters and digits mixed is taken for a key.
const OPAQUE_CHARS_MIN: usize = 32;
const KEY_PREFIXES: [&str; 14] =
    ["sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "gsk_", "hf_", "ghp_", "github_pat_", "xoxb-", "xoxp-", "aiza", "eyj"];
const TELLING_NAMES: [&str; 9] =
    ["key", "token", "secret", "password", "passwd", "authorization", "credential", "signature", "cookie"];
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// `text` without credentials and query strings, cut at `chars_max` characters.
pub fn scrub(text: &str, chars_max: u32) -> String {
    let mut out = String::with_capacity(text.len());
    let mut secret_follows = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = !separates(first);
        let end = rest.find(|c| separates(c) == is_word).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        if !is_word {
            out.push_str(piece);
            continue;
        }
        if secret_follows && !is_scheme(piece) && piece.chars().any(char::is_alphanumeric) {
            out.push_str(REMOVED);
            secret_follows = false;
            continue;
        }
        out.push_str(&scrub_word(piece));
        secret_follows = is_scheme(piece) || (names_secret(piece) && value_follows(piece, rest)) || (secret_follows);
    }
    out.chars().take(chars_max as usize).collect()
}

/// Words end at white space, quotes, brackets, commas and semicolons.
fn separates(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>')
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Whether the word is the telling name itself, with its colon or equals sign or without.
fn names_secret(word: &str) -> bool {
    let name = word.trim_end_matches([':', '=']).to_ascii_lowercase();
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && TELLING_NAMES.iter().any(|telling| name.ends_with(telling))
}

/// Whether a value follows the name: `key: v`, `"key":"v"`, `key = v`, but not "the key is missing".
fn value_follows(word: &str, rest: &str) -> bool {
    word.ends_with([':', '=']) || rest.trim_start_matches(separates).starts_with([':', '='])
}

fn scrub_word(word: &str) -> String {
    let word = without_query(word);
    let word = without_user(&word);
    // A value glued to its name: `api_key=abc`, `authorization:abc`.
    if let Some(at) = word.find([':', '='])
        && names_secret(&word[..at])
        && !word[at..].starts_with("://")
        && at + 1 < word.len()
    {
        return format!("{}{REMOVED}", &word[..=at]);
    }
    let value_at = word.rfind(['=', ':']).map_or(0, |at| at + 1);
    let (name, value) = word.split_at(value_at);
    if looks_like_key(value) { format!("{name}{REMOVED}") } else { word }
}

/// `http://host/path?a=b#c` -> `http://host/path`. A question mark without a name and value behind it ends a sentence.
fn without_query(word: &str) -> String {
    match word.find('?') {
        Some(at) if word.contains("://") || word.starts_with('/') || word[at..].contains('=') => word[..at].to_owned(),
        Some(_) | None => word.to_owned(),
    }
}

/// `http://user:password@host` -> `http://host`.
fn without_user(word: &str) -> String {
    let Some(scheme_end) = word.find("://").map(|at| at + 3) else {
        return word.to_owned();
    };
    let authority_end = word[scheme_end..].find('/').map_or(word.len(), |at| scheme_end + at);
    match word[scheme_end..authority_end].rfind('@') {
        Some(at) => format!("{}{}", &word[..scheme_end], &word[scheme_end + at + 1..]),
        None => word.to_owned(),
    }
}

fn looks_like_key(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let prefixed = KEY_PREFIXES.iter().any(|prefix| lower.starts_with(prefix) && word.len() >= prefix.len() + 6);
    let opaque = word.chars().count() >= OPAQUE_CHARS_MIN
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '='))
        && word.chars().any(|c| c.is_ascii_digit())
        && word.chars().any(|c| c.is_ascii_alphabetic());
    prefixed || opaque
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn credentials_and_query_strings_are_removed() {
        for (text, scrubbed) in [
            ("Incorrect API key provided: sk-proj-abcdef123456.", "Incorrect API key provided: [removed]"),
            ("authorization: Bearer abc.def", "authorization: [removed]"),
            ("header Authorization: Basic dXNlcjpwYXNz failed", "header Authorization: Basic [removed] failed"),
            ("x-api-key: hunter2 refused", "x-api-key: [removed] refused"),
            (r#"{"api_key":"hunter2","model":"m"}"#, r#"{"api_key":"[removed]","model":"m"}"#),
            ("api_key=hunter2", "api_key=[removed]"),
            ("GET http://h:80/v1/embed?key=abc&x=1 timed out", "GET http://h:80/v1/embed timed out"),
            ("/v1/embed?key=abc", "/v1/embed"),
            ("http://user:pw@host:8080/v1 refused", "http://host:8080/v1 refused"),
            ("got 0123456789abcdef0123456789abcdef back", "got [removed] back"),
            ("token eyJhbGciOi.eyJzdWIi.sig", "token [removed]"),
        ] {
            let got = scrub(text, 300);
            assert!(!got.contains("hunter2") && !got.contains("pw"), "{got}");
            let bearer = scrubbed.replace("authorization: [removed]", "authorization: Bearer [removed]");
            assert_eq!(got, bearer, "{text}");
        }
    }

    #[test]
    fn an_ordinary_error_comes_through_unchanged() {
        for text in [
            "connect to http://127.0.0.1:11434 refused",
            "503 server busy, please try again. maximum pending requests exceeded",
            "model \"text-embedding-3-large\" not found; is the key missing?",
            "braces {come} through, 12:30:05",
        ] {
            assert_eq!(scrub(text, 300), text);
        }
    }

    #[test]
    fn it_is_cut_at_characters_not_bytes() {
        assert_eq!(scrub(&"ä".repeat(301), 300), "ä".repeat(300));
        assert_eq!(scrub("abc", 0), "");
    }

    proptest! {
        #[test]
        fn a_key_never_comes_through(before in "[a-z ]{0,40}", key in "sk-[a-zA-Z0-9]{12,40}", after in "[ ,;\")][a-z ]{0,40}") {
            let text = format!("{before} {key}{after}");
            prop_assert!(!scrub(&text, 300).contains(&key));
        }

        #[test]
        fn any_text_is_scrubbed_to_at_most_the_limit(text in "\\PC*", chars_max in 0u32..400) {
            prop_assert!(scrub(&text, chars_max).chars().count() <= chars_max as usize);
        }
    }
}
