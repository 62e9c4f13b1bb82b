//! Which names of the root document an expression reads, for checks before it ever runs.

use std::collections::BTreeSet;

use super::syntax::{Kind, Node};

/// The names, sorted. A use of the whole document (`@` at the top) adds none.
pub(super) fn collect(root: &Node) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    visit(root, &mut names);
    names
}

/// Visits a node whose current value is the root document; says whether the node's own value is the root document again.
fn visit<'n>(node: &'n Node, names: &mut BTreeSet<&'n str>) -> bool {
    match &node.kind {
        Kind::Current => return true,
        Kind::Literal(_) | Kind::Reference(_) => {}
        Kind::Field(name) => {
            names.insert(name);
        }
        Kind::Sub(left, right) | Kind::Pipe(left, right) => return visit(left, names) && visit(right, names),
        Kind::Index(source, _) | Kind::Project { source, .. } => {
            visit(source, names);
        }
        Kind::Not(inner) => {
            visit(inner, names);
        }
        Kind::Or(left, right) | Kind::And(left, right) | Kind::Compare(_, left, right) => {
            visit(left, names);
            visit(right, names);
        }
        Kind::List(members) => members.iter().for_each(|member| {
            visit(member, names);
        }),
        Kind::Object(members) => members.iter().for_each(|(_, member)| {
            visit(member, names);
        }),
        Kind::Call { arguments, .. } => arguments.iter().for_each(|argument| {
            visit(argument, names);
        }),
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::core::expr::Expression;

    #[test]
    fn only_names_of_the_root_count() {
        #[track_caller]
        fn check(expression: &str, expected: &[&str]) {
            let compiled = Expression::compile(expression).expect(expression);
            assert_eq!(compiled.names().into_iter().collect::<Vec<_>>(), expected, "{expression}");
        }
        check("a.b.c", &["a"]);
        check("a[0].b || c", &["a", "c"]);
        check("a[?b == c].d", &["a"]);
        check("map(&b, a)", &["a"]);
        check("{x: a, y: [b, `1`, 'd']}", &["a", "b"]);
        check("@.a | b", &["a"]);
        check("@ | a.b", &["a"]);
        check("f(a, b.c) && !d", &["a", "b", "d"]);
        check("`1`", &[]);
    }
}
