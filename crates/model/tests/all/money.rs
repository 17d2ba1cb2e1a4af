//! Amounts and costs.

use model::{Money, Span};

#[test]
fn amounts_are_exact_and_costs_round_up() {
    let price: Money = "98.32".parse().unwrap();
    assert_eq!(price.to_string(), "98.32");
    assert_eq!(price.for_hours_of(2, Span::from_secs(3600)).to_string(), "196.64");
    assert_eq!(price.for_hours_of(1, Span::from_secs(1)).to_string(), "0.027312");
    assert_eq!(Money::from_micros(1).for_hours_of(1, Span::from_secs(1)), Money::from_micros(1));
    assert_eq!("10".parse::<Money>().unwrap().pays_for(2, "5".parse().unwrap()), Some(Span::from_secs(3600)));
    assert_eq!("10".parse::<Money>().unwrap().pays_for(2, Money::default()), None);
    for wrong in ["", ".5", "1.2345678", "-1", "1e3", "1,5", "99999999999999999999", "nan"] {
        assert!(wrong.parse::<Money>().is_err(), "{wrong}");
    }
}
