//! Which calls of the admission port are believed: those whose path carries the token of the install.

use std::path::Path;

use anyhow::{Context, anyhow};
use hyper::Uri;
use hyper::http::request::Parts;
use jiff::Timestamp;

use crate::cluster::keys::KeyReader;
use crate::core::webhook_token::{WebhookToken, WebhookTokens};

/// Where the token comes from.
#[derive(Clone)]
pub(super) enum TokenSource {
    /// Nowhere: every caller is answered.
    None,
    File(WebhookTokens),
    Secret(KeyReader),
}

impl TokenSource {
    pub(super) async fn read(file: &Path) -> anyhow::Result<Self> {
        let text = tokio::fs::read_to_string(file).await.with_context(|| format!("reading {}", file.display()))?;
        let current = WebhookToken::parse(text.trim());
        let current = current.ok_or_else(|| anyhow!("{} must hold 64 hexadecimal digits", file.display()))?;
        Ok(Self::File(WebhookTokens { current, since: Timestamp::UNIX_EPOCH, previous: None }))
    }

    /// Whether a call is believed. Its path then goes on without the token.
    pub(super) fn accepts(&self, head: &mut Parts) -> bool {
        let path = head.uri.path();
        let base = match self {
            Self::None => return true,
            Self::File(tokens) => tokens.base_path(path).map(Uri::try_from),
            Self::Secret(keys) => keys.current().and_then(|keys| keys.tokens.base_path(path).map(Uri::try_from)),
        };
        match base {
            Some(Ok(base)) => head.uri = base,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(source: &TokenSource, path: &str) -> Option<String> {
        let mut head = hyper::Request::builder().uri(path).body(()).expect("a request").into_parts().0;
        source.accepts(&mut head).then(|| head.uri.path().to_owned())
    }

    #[tokio::test]
    async fn only_paths_with_the_token_lead_anywhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        let token = "0123456789abcdef".repeat(4);
        std::fs::write(&file, format!("{token}\n")).expect("a file");
        let source = TokenSource::read(&file).await.expect("a token");
        assert_eq!(
            accepted(&source, &format!("/validate/resources/{token}?timeout=5s")),
            Some("/validate/resources".into())
        );
        for path in
            ["/validate", "/", &format!("/{token}"), &format!("/validate/{token}/"), &format!("/validate/{token}0")]
        {
            assert_eq!(accepted(&source, path), None, "{path}");
        }
        assert_eq!(accepted(&TokenSource::None, "/validate"), Some("/validate".into()));
        std::fs::write(&file, "short").expect("a file");
        assert!(TokenSource::read(&file).await.is_err());
    }
}
