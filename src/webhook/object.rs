//! Reading the object of a review without its ballast.
//!
//! `metadata.managedFields` and the copy that `kubectl apply` keeps in an annotation are often most of an object, and no
//! policy is about them; they are skipped unread.

use serde_json::Value;

use crate::core::json::cursor::Cursor;
use crate::core::json::{Builder, Document, Leaf};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Room for what the usual policy holds.
const SLOTS: usize = 192;

/// What becomes of an object of a review.
pub(super) trait ReadObject<'a>: Sized {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String>;
}

/// An object that nobody looks at.
#[derive(Debug)]
pub(super) struct Skipped;

impl<'a> ReadObject<'a> for Skipped {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String> {
        cursor.skip().map(|()| Self)
    }
}

impl<'a> ReadObject<'a> for Document<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String> {
        let mut builder = Builder::with_capacity(SLOTS);
        Level::Object.read(cursor, &mut builder)?;
        Ok(builder.finish())
    }
}

impl<'a> ReadObject<'a> for Value {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String> {
        <Document<'_> as ReadObject>::read(cursor).map(|document| document.to_value())
    }
}

/// How far down the reader is: everything besides these three levels is plain JSON.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    Annotations,
}

impl Level {
    fn read<'a>(self, cursor: &mut Cursor<'a>, builder: &mut Builder<'a>) -> Result<(), String> {
        if cursor.null() {
            builder.leaf(Leaf::Null);
            return Ok(());
        }
        let mut object = builder.open();
        cursor.entries(|key, value| {
            let next = match (self, &*key) {
                (Self::Metadata, "managedFields") | (Self::Annotations, LAST_APPLIED) => return value.skip(),
                (Self::Object, "metadata") => Some(Self::Metadata),
                (Self::Metadata, "annotations") => Some(Self::Annotations),
                _ => None,
            };
            builder.field(&mut object, key);
            match next {
                Some(level) => level.read(value, builder),
                None => value.read_into(builder),
            }
        })?;
        builder.end_object(&object);
        Ok(())
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
        let read = Value::read(&mut Cursor::new(&object.to_string())).unwrap();
        let expected = json!({
            "kind": "Pod", "managedFields": "stays",
            "metadata": {"name": "x", "annotations": {"note": "stays"}},
            "spec": {"metadata": {"managedFields": "stays"}},
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn odd_objects() {
        assert!(Value::read(&mut Cursor::new("\"x\"")).is_err());
        for odd in [json!({"metadata": null}), json!({"metadata": {"annotations": null}}), json!({})] {
            assert_eq!(Value::read(&mut Cursor::new(&odd.to_string())), Ok(odd));
        }
    }
}
