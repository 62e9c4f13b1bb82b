//! Reading the object of a review without its ballast.
//!
//! `metadata.managedFields` and the copy that `kubectl apply` keeps in an annotation are often most of an object, and no
//! policy is about them; they are skipped unread.

use serde_json::{Map, Value};

use super::cursor::Cursor;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Reads an object, or null.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Value>, String> {
    if cursor.null() {
        return Ok(None);
    }
    Level::Object.read(cursor).map(Some)
}

/// How far down the reader is: everything besides these three levels is plain JSON.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    Annotations,
}

impl Level {
    fn read(self, cursor: &mut Cursor<'_>) -> Result<Value, String> {
        if cursor.null() {
            return Ok(Value::Null);
        }
        let mut object = Map::new();
        cursor.entries(|key, value| {
            let read = match (self, key) {
                (Self::Metadata, "managedFields") | (Self::Annotations, LAST_APPLIED) => return value.skip(),
                (Self::Object, "metadata") => Self::Metadata.read(value)?,
                (Self::Metadata, "annotations") => Self::Annotations.read(value)?,
                _ => value.read()?,
            };
            object.insert(key.to_owned(), read);
            Ok(())
        })?;
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ballast_is_left_behind_and_nothing_else() {
        let object = json!({
            "kind": "Pod", "managedFields": "stays",
            "metadata": {
                "name": "x", "managedFields": [{"manager": "kubectl"}],
                "annotations": {LAST_APPLIED: "{}", "note": "stays"},
            },
            "spec": {"metadata": {"managedFields": "stays"}},
        });
        let read = read(&mut Cursor::new(&object.to_string())).unwrap();
        let expected = json!({
            "kind": "Pod", "managedFields": "stays",
            "metadata": {"name": "x", "annotations": {"note": "stays"}},
            "spec": {"metadata": {"managedFields": "stays"}},
        });
        assert_eq!(read, Some(expected));
    }

    #[test]
    fn null_is_no_object_and_text_is_an_error() {
        assert_eq!(read(&mut Cursor::new("null")).unwrap(), None);
        assert!(read(&mut Cursor::new("\"x\"")).is_err());
        let odd = read(&mut Cursor::new(r#"{"metadata": null}"#)).unwrap();
        assert_eq!(odd, Some(json!({"metadata": null})));
    }
}
