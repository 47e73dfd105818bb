//! The cost of rules in time: `cargo run --release -p binnacle-cel --example rates`.

use std::hint::black_box;
use std::time::Instant;

use binnacle_cel::{DeclType, Environment, PER_CALL_LIMIT, Shape, Type, Val, Version};
use binnacle_schema::{Object, Value};

fn main() {
    let item = |i: i64| -> Value {
        Value::Object(Object::from_iter([
            ("name", Value::from(format!("item-{i}"))),
            ("image", Value::from("registry.example.com/team/app:v1")),
            ("replicas", Value::from(i)),
        ]))
    };
    let items = Value::List((0..10).map(item).collect());
    let object = Value::Object(Object::from_iter([("items", items), ("max", Value::from(100))]));
    let element = DeclType::object(
        "rates.Item",
        [
            ("name", DeclType::new(Shape::String)),
            ("image", DeclType::new(Shape::String)),
            ("replicas", DeclType::new(Shape::Int)),
        ],
    );
    let ty = DeclType::object("rates.Object", [("items", DeclType::list(element)), ("max", DeclType::new(Shape::Int))]);
    let dynamic = Environment::new(Version::STORED).with_variable("self", Type::Dyn);
    let typed = Environment::new(Version::STORED).with_data("self", &ty);
    for expression in [
        "self.max > 1",
        "self.items.all(x, x.replicas < self.max)",
        "self.items.all(x, x.image.startsWith('registry.example.com/'))",
        "self.items.exists(x, x.name == 'item-9')",
        "self.items.map(x, x.replicas).sum() < 1000",
        "self.items.all(x, x.image.matches('^[a-z.]+/'))",
    ] {
        let start = Instant::now();
        let rounds = 200;
        for _ in 0..rounds {
            black_box(dynamic.program(expression).expect("the expression compiles"));
        }
        let compile = start.elapsed() / rounds;
        let mut took = Vec::new();
        for (env, value) in
            [(&dynamic, Val::of(&object)), (&typed, Val::typed(&object, &ty).expect("the object is of the type"))]
        {
            let program = env.program(expression).expect("the expression compiles");
            let activation = env.activation().with(0, value);
            let start = Instant::now();
            let rounds = 100_000;
            for _ in 0..rounds {
                black_box(program.eval(&activation, PER_CALL_LIMIT).expect("the rule can be evaluated"));
            }
            took.push(start.elapsed() / rounds);
        }
        println!("{expression}: compile {compile:?}, untyped {:?}, typed {:?}", took[0], took[1]);
    }
}
