//! Labels of metrics.

use std::collections::BTreeMap;

use model::metric::Labels;

#[test]
fn labels_with_a_number_equal_labels_with_the_number_as_text() {
    let number = Labels::number("repetition", 20);
    let text = Labels::from(BTreeMap::from([("repetition".to_owned(), "20".to_owned())]));
    assert_eq!(
        (&number, serde_json::to_string(&number).unwrap()),
        (&text, r#"{"repetition":"20"}"#.to_owned())
    );
    assert!(number > Labels::default() && number > Labels::number("repetition", 2));
    let mut more = number.clone();
    more.insert("size".to_owned(), "8".to_owned());
    assert_eq!((number.len(), more.len(), &more["repetition"]), (1, 2, &"20".to_owned()));
}
