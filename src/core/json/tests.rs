use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Values of every sort, with everything in their texts and names that means something in JSON.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Short enough to be read back exactly.
        any::<i32>().prop_map(|number| json!(f64::from(number) / 8.0)),
        "[a\"\\\\{}\\[\\],: \n\u{1}\u{e9}\u{1f600}]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\\\\}:\u{e9}]{0,3}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Both readers say the same of a text, good or bad.
fn agree(text: &str) -> Result<(), TestCaseError> {
    let (ours, theirs) = (Document::read(text), serde_json::from_str::<Value>(text));
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => {
            prop_assert_eq!(&ours.root().to_value(), theirs, "{}", text);
            prop_assert!(ours.root().equals(theirs), "{}", text);
        }
        (Err(_), Err(_)) => {}
        _ => prop_assert!(false, "{text:?}: {ours:?} and {theirs:?}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_is_read(value in value(), indent in any::<bool>()) {
        let text = if indent { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        agree(&text.unwrap())?;
        prop_assert_eq!(Document::from(&value).root().to_value(), value);
    }

    /// Fields in any order, some of them more than once.
    #[test]
    fn the_last_of_two_fields_counts(fields in prop::collection::vec(("[a-c]{0,2}", value()), 0..8)) {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        agree(&format!("{{{}}}", fields.join(",")))?;
        agree(&format!(r#"[{{"z":{{{}}},"a":1}}]"#, fields.join(",")))?;
    }

    #[test]
    fn mistakes_are_noticed(text in r#"[{}\[\]",:\\ntruefals \t0-9eE.+\-\u{1}\u{e9}]{0,30}"#) {
        agree(&text)?;
    }

    /// A good text with one character changed is seldom far from good.
    #[test]
    fn small_mistakes_are_noticed(value in value(), at in any::<prop::sample::Index>(), other in r#"[{}\[\]",:\\x0-9.\-\n]"#) {
        let mut letters: Vec<char> = value.to_string().chars().collect();
        let at = at.index(letters.len());
        letters[at] = other.chars().next().unwrap();
        agree(&letters.iter().collect::<String>())?;
    }
}

#[test]
fn numbers() {
    for text in [
        "0",
        "-0",
        "00",
        "01",
        "-1",
        "+1",
        "1.",
        ".5",
        "1.0",
        "1e3",
        "1e999",
        "18446744073709551616",
        "999999999999999999",
        "9223372036854775808",
        "-9223372036854775809",
        "NaN",
        "0x1",
    ] {
        agree(text).unwrap();
    }
}

#[test]
fn depth_is_bounded_as_elsewhere() {
    for depth in [126, 127, 128, 129, 100_000] {
        agree(&("[".repeat(depth) + &"]".repeat(depth))).unwrap();
        agree(&(r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth))).unwrap();
    }
}

/// Objects out of order, one in the other: each is sorted with all that is in it.
#[test]
fn disorder_at_every_level_takes_no_long_time() {
    let ballast = format!("[{}]", vec!["\"x\""; 50_000].join(","));
    let text = r#"{"b":1,"a":"#.repeat(120) + &ballast + &"}".repeat(120);
    agree(&text).unwrap();
}

#[test]
fn values_are_looked_at() {
    let value = json!({"a": [1, {"b": null}], "c": "text", "d": {}});
    let text = value.to_string();
    let document = Document::read(&text).unwrap();
    let root = document.root();
    assert_eq!(root.get("c").and_then(Tree::as_text), Some("text"));
    assert!(root.get("b").is_none() && root.get("a").is_some_and(|a| a.get("b").is_none()));
    assert_eq!(root.get("a").map(Tree::count), Some(2));
    assert_eq!(root.fields().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "c", "d"]);
    assert!(root.get("a").and_then(|a| a.items().nth(1)).and_then(|item| item.get("b")).is_some_and(Tree::is_null));
    assert!(root.at(&["d"]).is_some_and(|d| d.is_object() && d.count() == 0));
    assert_eq!((&value).at(&["a"]).map(Tree::to_value), root.at(&["a"]).map(Tree::to_value));
}
