//! The Common Expression Language as Kubernetes uses it.
//!
//! An [`Environment`] holds the variables, types and libraries of expressions. It compiles an expression into an
//! [`Ast`], which has a type and a cost estimate, and an [`Ast`] into a [`Program`]. Programs are evaluated with an
//! [`Activation`], which holds the values of the variables; these borrow from object trees. Evaluation counts the cost
//! like kube-apiserver, and stops at the limit.
//!
//! ```
//! use binnacle_cel::{DeclType, Environment, PER_CALL_LIMIT, Shape, Type, Val, Version};
//!
//! let request = DeclType::object("example.Request", [("namespace", DeclType::new(Shape::String))]);
//! let env = Environment::new(Version::STORED).with_data("request", &request);
//! assert_eq!(
//!     env.compile("request.name == 'x'").unwrap_err().to_string(),
//!     "ERROR: <input>:1:8: undefined field 'name'\n | request.name == 'x'\n | .......^"
//! );
//!
//! let ast = env.compile("request.namespace == 'kube-system'").unwrap();
//! assert_eq!(*ast.output_type(), Type::Bool);
//! let program = ast.program().unwrap();
//! let object = binnacle_schema::value!({"namespace": "kube-system"});
//! let activation = env.activation().with(0, Val::typed(&object, &request).unwrap());
//! assert_eq!(program.eval(&activation, PER_CALL_LIMIT).unwrap().as_bool(), Some(true));
//! ```
//!
//! This crate is independent of kinds, requests and policies.

mod ast;
mod check;
mod compile;
mod cost;
mod decl_type;
mod environment;
mod error;
mod eval;
mod functions;
mod lexer;
mod library;
mod meter;
mod parser;
mod plan;
mod regexp;
mod source;
mod syntax;
mod types;
mod validate;
mod value;
mod version;

pub use compile::Ast;
pub use cost::Estimate;
pub use decl_type::{DeclField, DeclType, ListKind, ObjectType, Shape, escape, is_keyword};
pub use environment::Environment;
pub use error::Error;
pub use eval::{Activation, Evaluation, PER_CALL_LIMIT};
pub use library::authz::{
    Authorizer, Check, CheckTarget, Decision, ResourceCheck, authorizer_type, authorizer_value, resource_check_type,
    resource_check_value,
};
pub use plan::Program;
pub use regexp::GoRegex;
pub use source::{CompileErrors, Issue, Location};
pub use syntax::Syntax;
pub use types::Type;
pub use value::{Fields, List, Map, Message, Opaque, Str, Timestamp, Val, go_double};
pub use version::Version;
