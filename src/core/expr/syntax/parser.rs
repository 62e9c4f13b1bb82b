//! Tokens to a tree, by binding powers.

use super::lexer::{Token, tokens};
use super::tree::{Comparator, Kind, Node, Projection, Slice};
use super::{MAX_DEPTH, MAX_TEXT, SyntaxError};

/// The power of a projection's own right side, and the one below which a token ends it.
const PROJECTION_STOP: u8 = 10;

pub(in crate::core::expr) fn parse(text: &str) -> Result<Node, SyntaxError> {
    if text.len() > MAX_TEXT {
        return Err(SyntaxError::at(text, 0, format!("longer than {MAX_TEXT} bytes")));
    }
    if text.trim().is_empty() {
        return Err(SyntaxError::at(text, 0, "the expression is empty"));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let tree = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok(tree),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    /// Levels of `expression` that are open.
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + count).min(last)].0
    }

    /// Steps over a token; the last one, the end, is never left.
    fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn error(&self, reason: impl Into<String>) -> SyntaxError {
        SyntaxError::at(self.text, self.tokens[self.at].1, reason)
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        self.error(format!("expected {wanted}, found {}", self.peek().describe()))
    }

    fn expect(&mut self, token: &Token) -> Result<(), SyntaxError> {
        if self.peek() == token {
            self.next();
            return Ok(());
        }
        Err(self.unexpected(&token.describe()))
    }

    fn node(&self, kind: Kind) -> Result<Node, SyntaxError> {
        let node = Node::new(kind);
        if node.depth > MAX_DEPTH { Err(self.too_deep()) } else { Ok(node) }
    }

    fn too_deep(&self) -> SyntaxError {
        self.error(format!("nested deeper than {MAX_DEPTH} levels"))
    }

    fn expression(&mut self, power: u8) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let mut left = self.prefix()?;
        while power < self.peek().binding_power() {
            left = self.infix(left)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn boxed(&mut self, power: u8) -> Result<Box<Node>, SyntaxError> {
        self.expression(power).map(Box::new)
    }

    fn prefix(&mut self) -> Result<Node, SyntaxError> {
        match self.peek() {
            Token::Identifier(_) | Token::Quoted(_) => self.name(),
            Token::Literal(value) => {
                let literal = Kind::Literal(value.clone());
                self.next();
                self.node(literal)
            }
            Token::Current => {
                self.next();
                self.node(Kind::Current)
            }
            Token::Star => {
                self.next();
                let each = self.projected(Token::Star.binding_power())?;
                self.project(Node::new(Kind::Current), Projection::Values, each)
            }
            Token::OpenBracket => {
                if matches!(
                    (self.ahead(1), self.ahead(2)),
                    (Token::Number(_) | Token::Colon, _) | (Token::Star, Token::CloseBracket)
                ) {
                    return self.infix(Node::new(Kind::Current));
                }
                self.next();
                self.list()
            }
            Token::Flatten | Token::Filter => self.infix(Node::new(Kind::Current)),
            Token::OpenBrace => {
                self.next();
                self.object()
            }
            Token::Not => {
                self.next();
                let inner = self.boxed(Token::Not.binding_power())?;
                self.node(Kind::Not(inner))
            }
            Token::Reference => {
                self.next();
                let inner = self.boxed(0)?;
                self.node(Kind::Reference(inner))
            }
            Token::OpenParen => {
                self.next();
                let inner = self.expression(0)?;
                self.expect(&Token::CloseParen)?;
                Ok(inner)
            }
            Token::Number(number) => {
                let hint = format!("a bare number; write `{number}` in backticks");
                Err(self.error(hint))
            }
            _ => Err(self.unexpected("an expression")),
        }
    }

    /// A field, or a call if a parenthesis follows.
    fn name(&mut self) -> Result<Node, SyntaxError> {
        let calls = *self.ahead(1) == Token::OpenParen;
        if calls && matches!(self.peek(), Token::Quoted(_)) {
            return Err(self.error("a function name is written without quotes"));
        }
        let name = self.take_name("a name")?;
        if calls { self.call(name) } else { self.node(Kind::Field(name)) }
    }

    fn take_name(&mut self, wanted: &str) -> Result<String, SyntaxError> {
        let (Token::Identifier(name) | Token::Quoted(name)) = self.peek() else {
            return Err(self.unexpected(wanted));
        };
        let name = name.clone();
        self.next();
        Ok(name)
    }

    fn call(&mut self, name: String) -> Result<Node, SyntaxError> {
        self.expect(&Token::OpenParen)?;
        let mut arguments = Vec::new();
        // A comma before the closing parenthesis is tolerated, because people write it.
        while *self.peek() != Token::CloseParen {
            arguments.push(self.expression(0)?);
            match self.peek() {
                Token::Comma => {
                    self.next();
                }
                Token::CloseParen => {}
                _ => return Err(self.unexpected("`,` or `)`")),
            }
        }
        self.next();
        self.node(Node::call(name, arguments))
    }

    fn infix(&mut self, left: Node) -> Result<Node, SyntaxError> {
        let power = self.peek().binding_power();
        match self.peek() {
            Token::Dot => {
                self.next();
                if *self.peek() == Token::Star {
                    self.next();
                    let each = self.projected(Token::Dot.binding_power())?;
                    return self.project(left, Projection::Values, each);
                }
                let right = self.after_dot(Token::Dot.binding_power())?;
                self.node(Kind::Sub(Box::new(left), Box::new(right)))
            }
            Token::Pipe => {
                self.next();
                let right = self.boxed(power)?;
                self.node(Kind::Pipe(Box::new(left), right))
            }
            Token::Or => {
                self.next();
                let right = self.boxed(power)?;
                self.node(Kind::Or(Box::new(left), right))
            }
            Token::And => {
                self.next();
                let right = self.boxed(power)?;
                self.node(Kind::And(Box::new(left), right))
            }
            Token::Flatten => {
                self.next();
                let each = self.projected(power)?;
                self.project(left, Projection::Flatten, each)
            }
            Token::Filter => {
                self.next();
                let condition = self.boxed(0)?;
                self.expect(&Token::CloseBracket)?;
                let each = self.projected(power)?;
                self.project(left, Projection::Filter(condition), each)
            }
            Token::OpenBracket => {
                self.next();
                match self.peek() {
                    Token::Number(_) | Token::Colon => self.index(left),
                    Token::Star => {
                        self.next();
                        self.expect(&Token::CloseBracket)?;
                        let each = self.projected(Token::Star.binding_power())?;
                        self.project(left, Projection::Elements, each)
                    }
                    _ => Err(self.unexpected("an index, a slice or `*`")),
                }
            }
            _ => {
                let Some(comparator) = self.comparator() else {
                    return Err(self.unexpected("an operator"));
                };
                self.next();
                let right = self.boxed(power)?;
                self.node(Kind::Compare(comparator, Box::new(left), right))
            }
        }
    }

    fn comparator(&self) -> Option<Comparator> {
        Some(match self.peek() {
            Token::Equal => Comparator::Equal,
            Token::NotEqual => Comparator::NotEqual,
            Token::Less => Comparator::Less,
            Token::LessOrEqual => Comparator::LessOrEqual,
            Token::Greater => Comparator::Greater,
            Token::GreaterOrEqual => Comparator::GreaterOrEqual,
            _ => return None,
        })
    }

    fn project(&self, source: Node, projection: Projection, each: Node) -> Result<Node, SyntaxError> {
        self.node(Kind::Project { source: Box::new(source), projection, each: Box::new(each) })
    }

    /// What a projection does with each element: everything up to a token that binds less than a projection.
    fn projected(&mut self, power: u8) -> Result<Node, SyntaxError> {
        match self.peek() {
            token if token.binding_power() < PROJECTION_STOP => self.node(Kind::Current),
            Token::OpenBracket | Token::Filter => self.expression(power),
            Token::Dot => {
                self.next();
                self.after_dot(power)
            }
            _ => Err(self.unexpected("`.`, `[` or an operator")),
        }
    }

    fn after_dot(&mut self, power: u8) -> Result<Node, SyntaxError> {
        match self.peek() {
            Token::Identifier(_) | Token::Quoted(_) | Token::Star => self.expression(power),
            Token::OpenBracket => {
                self.next();
                self.list()
            }
            Token::OpenBrace => {
                self.next();
                self.object()
            }
            _ => Err(self.unexpected("a name, `*`, `[` or `{` after `.`")),
        }
    }

    /// The rest of `left[`: `2]`, `1:2]`, `::-1]`.
    fn index(&mut self, left: Node) -> Result<Node, SyntaxError> {
        let mut parts = [None; 3];
        let mut colons = 0;
        loop {
            match self.peek() {
                Token::Number(number) if parts[colons].is_none() => {
                    parts[colons] = Some(*number);
                    self.next();
                }
                Token::Colon if colons < 2 => {
                    colons += 1;
                    self.next();
                }
                Token::CloseBracket => break,
                _ => return Err(self.unexpected("a number, `:` or `]`")),
            }
        }
        self.next();
        let [start, stop, step] = parts;
        match (colons, start) {
            (0, Some(index)) => self.node(Kind::Index(Box::new(left), index)),
            _ => {
                let each = self.projected(Token::Star.binding_power())?;
                self.project(left, Projection::Slice(Slice { start, stop, step }), each)
            }
        }
    }

    /// The rest of `[`: `a, b]`.
    fn list(&mut self) -> Result<Node, SyntaxError> {
        let mut members = Vec::new();
        loop {
            members.push(self.expression(0)?);
            if self.comma_or(&Token::CloseBracket)? {
                return self.node(Kind::List(members));
            }
        }
    }

    /// The rest of `{`: `key: a, "other key": b}`.
    fn object(&mut self) -> Result<Node, SyntaxError> {
        let mut members = Vec::new();
        loop {
            let key = self.take_name("a key")?;
            self.expect(&Token::Colon)?;
            members.push((key, self.expression(0)?));
            if self.comma_or(&Token::CloseBrace)? {
                return self.node(Kind::Object(members));
            }
        }
    }

    /// Steps over a comma (false) or the closing token (true).
    fn comma_or(&mut self, close: &Token) -> Result<bool, SyntaxError> {
        match self.peek() {
            Token::Comma => {
                self.next();
                Ok(false)
            }
            token if token == close => {
                self.next();
                Ok(true)
            }
            _ => Err(self.unexpected(&format!("`,` or {}", close.describe()))),
        }
    }
}
