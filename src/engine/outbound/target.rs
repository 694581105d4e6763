//! Where a provider lives: the parts of its `base_url`.

use hyper::Uri;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    pub port: u16,
    pub tls: bool,
    /// Goes before every path; empty, or starting with `/` and not ending so.
    pub prefix: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("{url:?} is no URL")]
    Shape { url: String },
    #[error("{url:?} must begin with http:// or https://")]
    Scheme { url: String },
    #[error("{url:?} must name a host")]
    Host { url: String },
    #[error("a base URL holds no user and no query: {what}")]
    Extra { what: &'static str },
}

impl Target {
    /// Reads `http://host:port`, `https://host`, with an optional path as prefix.
    pub fn parse(base_url: &str) -> Result<Target, TargetError> {
        let shape = || TargetError::Shape { url: base_url.to_owned() };
        if base_url.contains('#') {
            return Err(TargetError::Extra { what: "it has a fragment" });
        }
        let uri: Uri = base_url.trim().parse().map_err(|_| shape())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(TargetError::Scheme { url: base_url.to_owned() }),
        };
        let authority = uri.authority().ok_or_else(shape)?;
        if authority.as_str().contains('@') {
            // Not repeated in the error: it may be a secret.
            return Err(TargetError::Extra { what: "it has a user" });
        }
        if uri.query().is_some() {
            return Err(TargetError::Extra { what: "it has a query" });
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(TargetError::Host { url: base_url.to_owned() });
        }
        let usual = if tls { 443 } else { 80 };
        let port = match authority.as_str()[authority.host().len()..].strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| shape())?,
            None => usual,
        };
        Ok(Target { host, port, tls, prefix: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Reads an address that is asked as it stands: where it is, and the path with its query.
    pub fn parse_whole(url: &str) -> Result<(Target, String), TargetError> {
        let (place, query) =
            url.trim().split_once('?').map_or((url.trim(), None), |(place, query)| (place, Some(query)));
        let target = Target::parse(place)?;
        let shape = || TargetError::Shape { url: place.to_owned() };
        let path = place.parse::<Uri>().map_err(|_| shape())?.path().to_owned();
        let path = match query {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        Ok((Target { prefix: String::new(), ..target }, path))
    }

    /// As the `host` header has it: the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let Target { host, port, tls, prefix: _ } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let is_usual = *port == if *tls { 443 } else { 80 };
        if is_usual { host } else { format!("{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> (String, u16, bool, String, String) {
        let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let authority = target.authority();
        (target.host, target.port, target.tls, target.prefix, authority)
    }

    #[test]
    fn a_base_url_gives_host_port_and_prefix() {
        let expect = |host: &str, port, tls, prefix: &str, authority: &str| {
            (host.to_owned(), port, tls, prefix.to_owned(), authority.to_owned())
        };
        assert_eq!(target("https://api.openai.com"), expect("api.openai.com", 443, true, "", "api.openai.com"));
        assert_eq!(target("http://openai:80/"), expect("openai", 80, false, "", "openai"));
        assert_eq!(target("https://openrouter.ai/api/"), expect("openrouter.ai", 443, true, "/api", "openrouter.ai"));
        assert_eq!(target("http://[::1]:11434"), expect("::1", 11434, false, "", "[::1]:11434"));
        assert_eq!(target("http://LocalHost:8080/a/b"), expect("localhost", 8080, false, "/a/b", "localhost:8080"));
    }

    #[test]
    fn an_address_that_is_asked_as_it_stands_keeps_its_path_and_query() {
        let path = |url: &str| {
            let (target, path) = Target::parse_whole(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((target.host.as_str(), target.prefix.as_str()), ("hook", ""));
            path
        };
        assert_eq!(path("http://hook"), "/");
        assert_eq!(path("http://hook/"), "/");
        assert_eq!(path("http://hook/a/b"), "/a/b");
        assert_eq!(path("https://hook/a/?token=x&y=/"), "/a/?token=x&y=/");
        assert_eq!(path("https://hook?a=b"), "/?a=b");
        assert!(Target::parse_whole("hook/a").is_err());
    }

    #[test]
    fn what_is_no_base_url_is_refused() {
        for url in ["", "api.openai.com", "ftp://x", "/v1", "http://", "http://x:99999", "http://x:", "http://a b"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
        for url in ["https://user:secret@x", "http://x/?a=b", "http://x/#a"] {
            let error = Target::parse(url).expect_err("more than a base URL");
            assert!(matches!(error, TargetError::Extra { .. }), "{url}: {error}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
