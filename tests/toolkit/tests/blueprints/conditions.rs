//! Evaluates the conditions of Terraform modules.

use hcl::{
    Expression, Value,
    eval::{Context, Evaluate, FuncArgs, FuncDef, ParamType},
    expr::{BinaryOp, FuncCall, Operation, UnaryOp},
};

/// Whether a condition holds; `None` if it depends on values that only a deployment has, or on an unsupported function.
pub fn holds(condition: &str, known: &[(&str, serde_json::Value)]) -> Option<bool> {
    let expression: Expression = condition.parse().ok()?;
    let mut context = Context::new();
    for (name, value) in known {
        context.declare_var(hcl::Identifier::sanitized(name), hcl::to_value(value).ok()?);
    }
    declare(&mut context);
    match without_can(expression, &context).evaluate(&context) {
        Ok(Value::Bool(holds)) => Some(holds),
        _ => None,
    }
}

/// Replaces `can(x)` with its value: true if `x` can be evaluated. With a missing variable `can(x)` is unchanged.
fn without_can(expression: Expression, context: &Context<'_>) -> Expression {
    let inside = |expression| without_can(expression, context);
    match expression {
        Expression::FuncCall(call) if call.name.name.as_str() == "can" => match call.args.first() {
            Some(of) => match of.evaluate(context) {
                Ok(_) => Expression::Bool(true),
                Err(error) if error.to_string().contains("undefined variable") => Expression::FuncCall(call),
                Err(_) => Expression::Bool(false),
            },
            None => Expression::FuncCall(call),
        },
        Expression::FuncCall(call) => {
            let FuncCall { name, args, expand_final } = *call;
            let args = args.into_iter().map(inside).collect();
            Expression::FuncCall(Box::new(FuncCall { name, args, expand_final }))
        }
        Expression::Parenthesis(of) => Expression::Parenthesis(Box::new(inside(*of))),
        Expression::Operation(operation) => Expression::Operation(Box::new(match *operation {
            Operation::Unary(UnaryOp { operator, expr }) => {
                Operation::Unary(UnaryOp { operator, expr: inside(expr) })
            }
            Operation::Binary(BinaryOp { lhs_expr, operator, rhs_expr }) => Operation::Binary(BinaryOp {
                lhs_expr: inside(lhs_expr),
                operator,
                rhs_expr: inside(rhs_expr),
            }),
        })),
        other => other,
    }
}

fn declare(context: &mut Context<'_>) {
    let any = ParamType::Any;
    let two = |function: fn(FuncArgs) -> Result<Value, String>| {
        FuncDef::builder().params([any.clone(), any.clone()]).build(function)
    };
    let one = |function: fn(FuncArgs) -> Result<Value, String>| {
        FuncDef::builder().params([any.clone()]).build(function)
    };
    context.declare_func(
        "length",
        one(|args| match &args[0] {
            Value::Array(items) => Ok(items.len().into()),
            Value::Object(items) => Ok(items.len().into()),
            Value::String(text) => Ok(text.chars().count().into()),
            other => Err(format!("length of {other}")),
        }),
    );
    context.declare_func(
        "contains",
        two(|args| match &args[0] {
            Value::Array(items) => Ok(items.contains(&args[1]).into()),
            other => Err(format!("{other} is not a list")),
        }),
    );
    context.declare_func(
        "coalesce",
        one(|args| match &args[0] {
            Value::Null => Err("null".to_owned()),
            Value::String(text) if text.is_empty() => Err("empty".to_owned()),
            other => Ok(other.clone()),
        }),
    );
    context.declare_func(
        "lookup",
        FuncDef::builder().params([any.clone(), any.clone(), any.clone()]).build(|args| {
            match (&args[0], args[1].as_str()) {
                (Value::Object(of), Some(key)) => Ok(of.get(key).unwrap_or(&args[2]).clone()),
                _ => Err("lookup".to_owned()),
            }
        }),
    );
    context.declare_func(
        "alltrue",
        one(|args| match &args[0] {
            Value::Array(items) => Ok(items.iter().all(|item| *item == Value::Bool(true)).into()),
            _ => Err("alltrue".to_owned()),
        }),
    );
    context.declare_func(
        "distinct",
        one(|args| match &args[0] {
            Value::Array(items) => {
                let mut distinct: Vec<Value> = Vec::new();
                for item in items {
                    if !distinct.contains(item) {
                        distinct.push(item.clone());
                    }
                }
                Ok(distinct.into())
            }
            _ => Err("distinct".to_owned()),
        }),
    );
    context.declare_func(
        "keys",
        one(|args| match &args[0] {
            Value::Object(of) => {
                Ok(of.keys().map(|key| Value::from(key.as_str())).collect::<Vec<_>>().into())
            }
            _ => Err("keys".to_owned()),
        }),
    );
    context.declare_func(
        "startswith",
        two(|args| match (args[0].as_str(), args[1].as_str()) {
            (Some(text), Some(start)) => Ok(text.starts_with(start).into()),
            _ => Err("startswith".to_owned()),
        }),
    );
    context.declare_func(
        "split",
        two(|args| match (args[0].as_str(), args[1].as_str()) {
            (Some(by), Some(text)) => Ok(text.split(by).map(Value::from).collect::<Vec<_>>().into()),
            _ => Err("split".to_owned()),
        }),
    );
    context.declare_func(
        "substr",
        FuncDef::builder().params([any.clone(), any.clone(), any.clone()]).build(|args| {
            match (args[0].as_str(), args[1].as_u64(), args[2].as_u64()) {
                (Some(text), Some(from), Some(count)) => {
                    Ok(text.chars().skip(from as usize).take(count as usize).collect::<String>().into())
                }
                _ => Err("substr".to_owned()),
            }
        }),
    );
    context.declare_func(
        "regexall",
        FuncDef::builder()
            .params([ParamType::Any, ParamType::Any])
            .build(|args| matches(&args).map(Value::from)),
    );
    context.declare_func(
        "regex",
        FuncDef::builder()
            .params([ParamType::Any, ParamType::Any])
            .build(|args| matches(&args)?.into_iter().next().ok_or_else(|| "no match".to_owned())),
    );
    context.declare_func(
        "cidrhost",
        two(|args| {
            let (range, host) = (args[0].as_str().unwrap_or_default(), args[1].as_u64().unwrap_or_default());
            let (address, length) = range.split_once('/').ok_or("no prefix")?;
            address.parse::<std::net::Ipv4Addr>().map_err(|error| error.to_string())?;
            let length: u32 = length.parse().map_err(|_| "no length")?;
            if length <= 32 && host < 1 << (32 - length) {
                Ok(range.into())
            } else {
                Err("no such host".to_owned())
            }
        }),
    );
}

/// Every match of a pattern in a text.
fn matches(args: &FuncArgs) -> Result<Vec<Value>, String> {
    let (Some(pattern), Some(text)) = (args[0].as_str(), args[1].as_str()) else {
        return Err("regex".to_owned());
    };
    let pattern = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
    Ok(pattern.find_iter(text).map(|found| Value::from(found.as_str())).collect())
}

#[test]
fn conditions_are_evaluated() {
    let var = serde_json::json!({"reservation_name": "r", "enable_placement": true, "image": {"name": null, "family": "f"}});
    let known = [("var", var)];
    for (condition, expected) in [
        (r#"var.reservation_name == "" || !var.enable_placement"#, Some(false)),
        (r#"var.reservation_name == "r" && var.enable_placement"#, Some(true)),
        ("can(coalesce(var.image.name)) != can(coalesce(var.image.family))", Some(true)),
        ("can(coalesce(var.image.name))", Some(false)),
        (r#"length(regexall("^[a-z]+$", var.reservation_name)) > 0"#, Some(true)),
        ("var.unknown == null", None),
        ("local.zones == null", None),
        ("nosuchfunction(var.reservation_name)", None),
    ] {
        assert_eq!(holds(condition, &known), expected, "{condition}");
    }
}
