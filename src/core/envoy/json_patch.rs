//! Operations of RFC 6902 as modifications take them: an index may count from the end, `add` makes the way to its place, and
//! the removal of what is not there is no error.

use serde_json::{Map, Value};

use super::modification::JsonPatch;

/// How much `add` may fill up a list that it makes.
const MOST_PADDING: usize = 1024;

/// Applies the operations in their order; the first that is impossible ends it, with its position and the reason.
pub(super) fn apply(document: &mut Value, patches: &[JsonPatch]) -> Result<(), (usize, String)> {
    for (position, patch) in patches.iter().enumerate() {
        apply_one(document, patch).map_err(|reason| (position, reason))?;
    }
    Ok(())
}

fn apply_one(document: &mut Value, patch: &JsonPatch) -> Result<(), String> {
    match patch {
        JsonPatch::Add { path, value } => {
            let tokens = tokens(path)?;
            make_way(document, &tokens, path)?;
            add(document, &tokens, path, value.clone())
        }
        JsonPatch::Replace { path, value } => {
            let place = find_mut(document, &tokens(path)?).ok_or_else(|| missing(path))?;
            *place = value.clone();
            Ok(())
        }
        JsonPatch::Remove { path } => {
            take(document, &tokens(path)?);
            Ok(())
        }
        JsonPatch::Copy { from, path } => {
            let value = find_mut(document, &tokens(from)?).ok_or_else(|| missing(from))?.clone();
            add(document, &tokens(path)?, path, value)
        }
        JsonPatch::Move { from, path } => {
            let value = take(document, &tokens(from)?).ok_or_else(|| missing(from))?;
            add(document, &tokens(path)?, path, value)
        }
    }
}

fn missing(path: &str) -> String {
    format!("there is nothing at `{path}`")
}

/// The steps of a pointer, from the root.
fn tokens(path: &str) -> Result<Vec<String>, String> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = path.strip_prefix('/').ok_or_else(|| format!("`{path}` must begin with a slash"))?;
    Ok(path.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn find_mut<'v>(document: &'v mut Value, tokens: &[String]) -> Option<&'v mut Value> {
    tokens.iter().try_fold(document, |value, token| match value {
        Value::Object(entries) => entries.get_mut(token),
        Value::Array(items) => {
            let index = element(items.len(), token)?;
            items.get_mut(index)
        }
        _ => None,
    })
}

fn take(document: &mut Value, tokens: &[String]) -> Option<Value> {
    let (last, way) = tokens.split_last()?;
    match find_mut(document, way)? {
        Value::Object(entries) => entries.remove(last),
        Value::Array(items) => {
            let index = element(items.len(), last).filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

fn add(document: &mut Value, tokens: &[String], path: &str, value: Value) -> Result<(), String> {
    let Some((last, way)) = tokens.split_last() else {
        *document = value;
        return Ok(());
    };
    match find_mut(document, way) {
        Some(Value::Object(entries)) => {
            entries.insert(last.clone(), value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index = if last == "-" { Some(items.len()) } else { element(items.len() + 1, last) };
            let index = index.filter(|index| *index <= items.len());
            items.insert(index.ok_or_else(|| format!("`{path}` is outside of its list of {}", items.len()))?, value);
            Ok(())
        }
        Some(_) => Err(format!("`{path}` leads through a value that has nothing below it")),
        None => Err(missing(&path[..path.rfind('/').unwrap_or_default()])),
    }
}

/// Makes what is missing on the way to the last step: a list where an index comes next, otherwise an object.
fn make_way(document: &mut Value, tokens: &[String], path: &str) -> Result<(), String> {
    let mut value = document;
    for pair in tokens.windows(2) {
        let [token, next] = pair else { continue };
        value = match value {
            Value::Object(entries) => entries.entry(token.clone()).or_insert(Value::Null),
            Value::Array(items) => {
                // The last of none is the first.
                let length = items.len().max(1);
                let index = element(length, token).ok_or_else(|| format!("`{token}` in `{path}` is no index"))?;
                pad(items, index, path)?;
                if index == items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(index).ok_or_else(|| missing(path))?
            }
            _ => return Err(format!("`{path}` leads through a value that has nothing below it")),
        };
        if value.is_null() {
            *value = match next.parse::<i64>() {
                Ok(index) => {
                    let mut items = Vec::new();
                    // Nothing is before the end of what is empty.
                    pad(&mut items, usize::try_from(index).unwrap_or_default(), path)?;
                    Value::Array(items)
                }
                Err(_) if next == "-" => Value::Array(Vec::new()),
                Err(_) => Value::Object(Map::new()),
            };
        }
    }
    Ok(())
}

fn pad(items: &mut Vec<Value>, length: usize, path: &str) -> Result<(), String> {
    if length > items.len() + MOST_PADDING {
        return Err(format!("`{path}` is too far beyond the end of its list"));
    }
    while items.len() < length {
        items.push(Value::Object(Map::new()));
    }
    Ok(())
}

/// The index that a step means in a list of that length: below zero it counts from the end.
fn element(length: usize, token: &str) -> Option<usize> {
    let index: i64 = token.parse().ok()?;
    if index >= 0 {
        usize::try_from(index).ok()
    } else {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(document: Value, patch: Value, expected: Result<Value, &str>) {
        let text = |key: &str| patch[key].as_str().unwrap_or_default().to_owned();
        let (path, from, value) = (text("path"), text("from"), patch["value"].clone());
        let operation = match patch["op"].as_str() {
            Some("add") => JsonPatch::Add { path, value },
            Some("replace") => JsonPatch::Replace { path, value },
            Some("remove") => JsonPatch::Remove { path },
            Some("move") => JsonPatch::Move { from, path },
            _ => JsonPatch::Copy { from, path },
        };
        let mut patched = document.clone();
        match (apply(&mut patched, &[operation]), expected) {
            (Ok(()), Ok(expected)) => assert_eq!(patched, expected, "{patch} on {document}"),
            (Err((0, reason)), Err(expected)) => assert!(reason.contains(expected), "{patch} on {document}: {reason}"),
            (found, expected) => panic!("{patch} on {document}: {found:?} ({patched}), not {expected:?}"),
        }
    }

    #[test]
    fn add() {
        check(json!({"a": 1}), json!({"op": "add", "path": "/b", "value": 2}), Ok(json!({"a": 1, "b": 2})));
        check(json!({"a": [1, 3]}), json!({"op": "add", "path": "/a/1", "value": 2}), Ok(json!({"a": [1, 2, 3]})));
        check(json!({"a": [1]}), json!({"op": "add", "path": "/a/-", "value": 2}), Ok(json!({"a": [1, 2]})));
        check(json!({"a": [1]}), json!({"op": "add", "path": "/a/-1", "value": 2}), Ok(json!({"a": [1, 2]})));
        check(json!({"a": [1]}), json!({"op": "add", "path": "/a/-2", "value": 0}), Ok(json!({"a": [0, 1]})));
        check(json!({"a": [1]}), json!({"op": "add", "path": "/a/2", "value": 2}), Err("outside"));
        check(json!({"a": 1}), json!({"op": "add", "path": "/a/b", "value": 2}), Err("nothing below"));
        check(json!({"a": [1]}), json!({"op": "add", "path": "/a/-/b", "value": 2}), Err("no index"));
        check(json!({"a~b/c": 1}), json!({"op": "add", "path": "/a~0b~1c", "value": 2}), Ok(json!({"a~b/c": 2})));
        check(json!({"a": 1}), json!({"op": "add", "path": "", "value": {"b": 1}}), Ok(json!({"b": 1})));
        check(json!({}), json!({"op": "add", "path": "a", "value": 1}), Err("slash"));
    }

    #[test]
    fn add_makes_the_way() {
        check(json!({}), json!({"op": "add", "path": "/a/b", "value": 1}), Ok(json!({"a": {"b": 1}})));
        check(json!({}), json!({"op": "add", "path": "/a/-", "value": 1}), Ok(json!({"a": [1]})));
        check(json!({}), json!({"op": "add", "path": "/a/-1", "value": 1}), Ok(json!({"a": [1]})));
        check(json!({}), json!({"op": "add", "path": "/a/-1/b", "value": 1}), Ok(json!({"a": [{"b": 1}]})));
        check(json!({}), json!({"op": "add", "path": "/a/-2", "value": 1}), Err("outside"));
        check(json!({}), json!({"op": "add", "path": "/a/1", "value": 1}), Ok(json!({"a": [{}, 1]})));
        check(json!({"a": []}), json!({"op": "add", "path": "/a/1/b", "value": 1}), Ok(json!({"a": [{}, {"b": 1}]})));
        check(json!({}), json!({"op": "add", "path": "/a/9999999/b", "value": 1}), Err("too far"));
    }

    #[test]
    fn an_index_beyond_the_end_is_refused() {
        for path in ["/a/1000000000/b", "/a/9223372036854775807/b", "/a/99999999999999999999/b", "/x/1000000000/b"] {
            let patch = json!({"op": "add", "path": path, "value": 1});
            let mut document = json!({"a": []});
            let path = patch["path"].as_str().unwrap_or_default().to_owned();
            assert!(apply(&mut document, &[JsonPatch::Add { path, value: json!(1) }]).is_err(), "{document}");
        }
    }

    #[test]
    fn replace_and_remove() {
        check(json!({"a": [1, 2]}), json!({"op": "replace", "path": "/a/-1", "value": 3}), Ok(json!({"a": [1, 3]})));
        check(json!({"a": [1]}), json!({"op": "replace", "path": "/a/-", "value": 3}), Err("nothing at"));
        check(json!({}), json!({"op": "replace", "path": "/a", "value": 3}), Err("nothing at"));
        check(json!({"a": [1, 2]}), json!({"op": "remove", "path": "/a/-1"}), Ok(json!({"a": [1]})));
        check(json!({"a": 1}), json!({"op": "remove", "path": "/b/c"}), Ok(json!({"a": 1})));
    }

    #[test]
    fn move_and_copy() {
        check(json!({"a": 1}), json!({"op": "move", "from": "/a", "path": "/b"}), Ok(json!({"b": 1})));
        check(json!({"a": 1}), json!({"op": "copy", "from": "/a", "path": "/b"}), Ok(json!({"a": 1, "b": 1})));
        check(json!({"a": 1}), json!({"op": "copy", "from": "/a", "path": "/b/c"}), Err("nothing at `/b`"));
        check(json!({"a": 1}), json!({"op": "move", "from": "/x", "path": "/b"}), Err("nothing at `/x`"));
    }
}
