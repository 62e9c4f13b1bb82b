//! Text to tokens. Each token carries the byte offset where it starts.

use serde_json::Value;

use super::SyntaxError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// `name`
    Identifier(String),
    /// `"any key"`
    Quoted(String),
    /// `'text'` or `` `json` ``
    Literal(Value),
    /// Digits: only indices and slices have bare numbers.
    Number(i64),
    Dot,
    Star,
    Comma,
    Colon,
    OpenBracket,
    CloseBracket,
    /// `[]`
    Flatten,
    /// `[?`
    Filter,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Pipe,
    Or,
    And,
    Not,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `@`
    Current,
    /// `&`
    Reference,
    End,
}

pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, SyntaxError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::with_capacity(text.len() / 3 + 2);
    loop {
        let rest = lexer.rest();
        lexer.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        let start = lexer.at;
        let token = lexer.token()?;
        let done = token == Token::End;
        tokens.push((token, start));
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, length: usize) -> &'t str {
        let taken = &self.text[self.at..self.at + length];
        self.at += length;
        taken
    }

    fn error(&self, offset: usize, reason: impl Into<String>) -> SyntaxError {
        SyntaxError::at(self.text, offset, reason)
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        let second = rest[first.len_utf8()..].chars().next();
        let (length, token) = match (first, second) {
            ('|', Some('|')) => (2, Token::Or),
            ('|', _) => (1, Token::Pipe),
            ('&', Some('&')) => (2, Token::And),
            ('&', _) => (1, Token::Reference),
            ('=', Some('=')) => (2, Token::Equal),
            ('=', _) => return Err(self.error(self.at, "a single `=`; equality is written `==`")),
            ('!', Some('=')) => (2, Token::NotEqual),
            ('!', _) => (1, Token::Not),
            ('<', Some('=')) => (2, Token::LessOrEqual),
            ('<', _) => (1, Token::Less),
            ('>', Some('=')) => (2, Token::GreaterOrEqual),
            ('>', _) => (1, Token::Greater),
            ('[', Some(']')) => (2, Token::Flatten),
            ('[', Some('?')) => (2, Token::Filter),
            ('[', _) => (1, Token::OpenBracket),
            (']', _) => (1, Token::CloseBracket),
            ('{', _) => (1, Token::OpenBrace),
            ('}', _) => (1, Token::CloseBrace),
            ('(', _) => (1, Token::OpenParen),
            (')', _) => (1, Token::CloseParen),
            ('.', _) => (1, Token::Dot),
            ('*', _) => (1, Token::Star),
            (',', _) => (1, Token::Comma),
            (':', _) => (1, Token::Colon),
            ('@', _) => (1, Token::Current),
            ('\'', _) => return self.raw_text(),
            ('`', _) => return self.literal(),
            ('"', _) => return self.quoted(),
            ('-' | '0'..='9', _) => return self.number(),
            ('a'..='z' | 'A'..='Z' | '_', _) => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                return Ok(Token::Identifier(self.take(end).to_owned()));
            }
            _ => {
                let hint = if first == '$' { "; JMESPath has no `$`" } else { "" };
                return Err(self.error(self.at, format!("unexpected character `{first}`{hint}")));
            }
        };
        self.take(length);
        Ok(token)
    }

    /// The text between here and the next `delimiter` that no backslash precedes, without either delimiter.
    fn delimited(&mut self, delimiter: char, what: &str) -> Result<&'t str, SyntaxError> {
        let start = self.at;
        let mut escaped = false;
        for (offset, character) in self.text[start + 1..].char_indices() {
            if character == delimiter && !escaped {
                self.at = start + 1 + offset + 1;
                return Ok(&self.text[start + 1..start + 1 + offset]);
            }
            // In raw text `'a\\'` the second backslash escapes too: only `\'` is an escape, and it always is one.
            escaped = character == '\\' && (!escaped || delimiter == '\'');
        }
        Err(self.error(start, format!("this {what} has no end")))
    }

    fn raw_text(&mut self) -> Result<Token, SyntaxError> {
        let inside = self.delimited('\'', "text")?;
        Ok(Token::Literal(Value::String(inside.replace("\\'", "'"))))
    }

    fn literal(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let inside = self.delimited('`', "literal")?.replace("\\`", "`");
        match serde_json::from_str(&inside) {
            Ok(value) => Ok(Token::Literal(value)),
            Err(error) => Err(self.error(start, format!("a literal in backticks must be JSON: {error}"))),
        }
    }

    fn quoted(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        self.delimited('"', "quoted name")?;
        match serde_json::from_str(&self.text[start..self.at]) {
            Ok(name) => Ok(Token::Quoted(name)),
            Err(error) => Err(self.error(start, format!("a quoted name must be a JSON string: {error}"))),
        }
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let sign = rest.len() - digits.len();
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = self.take(sign + length);
        if length == 0 {
            return Err(self.error(start, "`-` without a number; names with a dash are written in double quotes"));
        }
        if sign == 1 && digits.starts_with('0') {
            return Err(self.error(start, format!("`{number}` is no index")));
        }
        number.parse().map(Token::Number).map_err(|_| self.error(start, format!("the index {number} is too large")))
    }
}

impl Token {
    /// How tightly the token holds on to what stands left of it; 0 ends an expression.
    pub(super) fn binding_power(&self) -> u8 {
        match self {
            Self::Pipe => 1,
            Self::Or => 2,
            Self::And => 3,
            Self::Equal | Self::NotEqual | Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => 5,
            Self::Flatten => 9,
            Self::Star => 20,
            Self::Filter => 21,
            Self::Dot => 40,
            Self::Not => 45,
            Self::OpenBrace => 50,
            Self::OpenBracket => 55,
            Self::OpenParen => 60,
            _ => 0,
        }
    }

    /// The token as a message shows it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Identifier(name) | Self::Quoted(name) => format!("name `{name}`"),
            Self::Literal(_) => "a literal".to_owned(),
            Self::Number(number) => format!("number `{number}`"),
            Self::End => "the end".to_owned(),
            other => format!("`{}`", other.symbol()),
        }
    }

    fn symbol(&self) -> &'static str {
        match self {
            Self::Dot => ".",
            Self::Star => "*",
            Self::Comma => ",",
            Self::Colon => ":",
            Self::OpenBracket => "[",
            Self::CloseBracket => "]",
            Self::Flatten => "[]",
            Self::Filter => "[?",
            Self::OpenBrace => "{",
            Self::CloseBrace => "}",
            Self::OpenParen => "(",
            Self::CloseParen => ")",
            Self::Pipe => "|",
            Self::Or => "||",
            Self::And => "&&",
            Self::Not => "!",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Current => "@",
            Self::Reference => "&",
            Self::Identifier(_) | Self::Quoted(_) | Self::Literal(_) | Self::Number(_) | Self::End => "",
        }
    }
}
