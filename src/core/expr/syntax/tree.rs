//! What an expression is made of, and a readable outline of it.

use std::fmt::Write;

use serde_json::Value;

use crate::core::expr::functions::{self, Function};

#[derive(Clone, Debug)]
pub(in crate::core::expr) struct Node {
    pub(in crate::core::expr) kind: Kind,
    /// Levels of nodes, this one included: at most `MAX_DEPTH`.
    pub(super) depth: usize,
}

#[derive(Clone, Debug)]
pub(in crate::core::expr) enum Kind {
    /// `@`, and the implied left side of `[0]`, `*`, `[?x]`.
    Current,
    Literal(Value),
    /// `name`
    Field(String),
    /// `left.right`
    Sub(Box<Node>, Box<Node>),
    /// `left[2]`
    Index(Box<Node>, i64),
    /// `source[*].each` and its relatives
    Project {
        source: Box<Node>,
        projection: Projection,
        each: Box<Node>,
    },
    /// `[a, b]`
    List(Vec<Node>),
    /// `{key: a}`
    Object(Vec<(String, Node)>),
    /// `name(a, b)`. Names are resolved here; an unknown one is an error only when it is called.
    Call {
        name: String,
        function: Option<&'static Function>,
        arguments: Vec<Node>,
    },
    /// `&expression`
    Reference(Box<Node>),
    /// `left | right`
    Pipe(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Compare(Comparator, Box<Node>, Box<Node>),
}

/// What a projection runs over.
#[derive(Clone, Debug)]
pub(in crate::core::expr) enum Projection {
    /// `[*]`
    Elements,
    /// `*`
    Values,
    /// `[]`
    Flatten,
    /// `[a:b:c]`
    Slice(Slice),
    /// `[?condition]`
    Filter(Box<Node>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core::expr) struct Slice {
    pub(in crate::core::expr) start: Option<i64>,
    pub(in crate::core::expr) stop: Option<i64>,
    pub(in crate::core::expr) step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::expr) enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Node {
    pub(super) fn new(kind: Kind) -> Self {
        let mut depth = 0;
        kind.each_child(|child| depth = depth.max(child.depth));
        Self { kind, depth: depth + 1 }
    }

    pub(in crate::core::expr) fn call(name: String, arguments: Vec<Node>) -> Kind {
        Kind::Call { function: functions::find(&name), name, arguments }
    }

    fn title(&self) -> String {
        match &self.kind {
            Kind::Current => "current".to_owned(),
            Kind::Literal(value) => format!("literal {value}"),
            Kind::Field(name) => format!("field {name:?}"),
            Kind::Sub(..) => "subexpression".to_owned(),
            Kind::Index(_, index) => format!("index {index}"),
            Kind::Project { projection, .. } => match projection {
                Projection::Elements => "project elements".to_owned(),
                Projection::Values => "project values".to_owned(),
                Projection::Flatten => "project flattened".to_owned(),
                Projection::Slice(slice) => format!("project slice {slice}"),
                Projection::Filter(_) => "project filtered".to_owned(),
            },
            Kind::List(_) => "list".to_owned(),
            Kind::Object(members) => {
                let keys: Vec<String> = members.iter().map(|(key, _)| format!("{key:?}")).collect();
                format!("object {}", keys.join(", "))
            }
            Kind::Call { name, .. } => format!("call {name}"),
            Kind::Reference(_) => "reference".to_owned(),
            Kind::Pipe(..) => "pipe".to_owned(),
            Kind::Or(..) => "or".to_owned(),
            Kind::And(..) => "and".to_owned(),
            Kind::Not(_) => "not".to_owned(),
            Kind::Compare(comparator, ..) => format!("compare {}", comparator.symbol()),
        }
    }
}

impl Kind {
    pub(in crate::core::expr) fn each_child<'n>(&'n self, mut visit: impl FnMut(&'n Node)) {
        match self {
            Self::Current | Self::Literal(_) | Self::Field(_) => {}
            Self::Index(child, _) | Self::Reference(child) | Self::Not(child) => visit(child),
            Self::Sub(left, right)
            | Self::Pipe(left, right)
            | Self::Or(left, right)
            | Self::And(left, right)
            | Self::Compare(_, left, right) => {
                visit(left);
                visit(right);
            }
            Self::Project { source, projection, each } => {
                visit(source);
                if let Projection::Filter(condition) = projection {
                    visit(condition);
                }
                visit(each);
            }
            Self::List(members) | Self::Call { arguments: members, .. } => members.iter().for_each(visit),
            Self::Object(members) => members.iter().for_each(|(_, member)| visit(member)),
        }
    }
}

impl Comparator {
    fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl std::fmt::Display for Slice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |part: Option<i64>| part.map(|number| number.to_string()).unwrap_or_default();
        write!(f, "{}:{}:{}", part(self.start), part(self.stop), part(self.step))
    }
}

/// One node per line, children indented below their parent.
pub(in crate::core::expr) fn outline(root: &Node) -> String {
    let mut text = String::new();
    let mut waiting = vec![(0, root)];
    while let Some((level, node)) = waiting.pop() {
        let _ = writeln!(text, "{:indent$}{}", "", node.title(), indent = level * 2);
        let first = waiting.len();
        node.kind.each_child(|child| waiting.push((level + 1, child)));
        waiting[first..].reverse();
    }
    text
}
