//! Checks addresses of servers before anything is sent there.

use super::diagnostic::Complaint;
use hyper::Uri;

/// An `http` or `https` address without credentials in it.
pub fn check_url(text: &str) -> Result<(), Complaint> {
    let bad = |why: &str| Complaint::new(format!("bad URL {text:?}: {why}"));
    let uri: Uri = text.parse().map_err(|error| bad(&format!("{error}")))?;
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "http" && scheme != "https" {
        return Err(bad("it must begin with http:// or https://"));
    }
    let authority = uri.authority().ok_or_else(|| bad("it has no host"))?;
    if authority.host().is_empty() {
        return Err(bad("it has no host"));
    }
    if authority.as_str().contains('@') {
        return Err(bad("credentials don't belong into it").help("name the key's environment variable in key_env"));
    }
    // `Uri` reads an unusable port as none.
    let after_host = &authority.as_str()[authority.host().len()..];
    if !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(bad("its port is no port"));
    }
    if text.contains('#') {
        return Err(bad("a fragment is never sent"));
    }
    Ok(())
}

/// As [`check_url`], for an address that paths are appended to.
pub fn check_base_url(text: &str) -> Result<(), Complaint> {
    check_url(text)?;
    let bad = |why: &str| Complaint::new(format!("bad base_url {text:?}: {why}"));
    if text.contains('?') {
        return Err(bad("paths are appended to it, so it can't have a query"));
    }
    if text.ends_with('/') {
        return Err(bad("paths are appended to it, so it ends without a slash"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_a_scheme_and_a_host_and_nothing_that_paths_cannot_follow() {
        for good in [
            "http://openai",
            "http://127.0.0.1:11434",
            "https://api.openai.com",
            "https://x.example/prefix",
            "http://[::1]:80",
        ] {
            assert_eq!(check_base_url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "openai",
            "ftp://x",
            "http://",
            "http:///v1",
            "http://x/",
            "http://x?a=b",
            "http://x#y",
            "http://a b",
            "http://user:secret@x",
            "http://x:99999",
            "http://x:",
            "//x",
            "http//x",
            "localhost:80",
            "https://ünicode.example",
        ] {
            assert!(check_base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_channel_url_may_have_a_path_and_a_query() {
        assert_eq!(check_url("http://chat/"), Ok(()));
        assert_eq!(check_url("https://hooks.example/a?b=c"), Ok(()));
    }
}
