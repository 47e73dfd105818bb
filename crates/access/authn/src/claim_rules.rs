//! CEL expressions over the claims of a token, and over the user that they are mapped to.

use std::sync::LazyLock;

use binnacle_cel::{DeclType, Environment, PER_CALL_LIMIT, Program, Shape, Type, Val, Version};
use binnacle_meta::Text;

use crate::claims::Claims;

const CLAIMS: &str = "claims";

static CLAIMS_ENVIRONMENT: LazyLock<Environment> =
    LazyLock::new(|| Environment::new(Version::STORED).with_data(CLAIMS, &DeclType::map(DeclType::new(Shape::Any))));

static USER_ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let text = || DeclType::new(Shape::String);
    let texts = || DeclType::list(text());
    let fields = [("username", text()), ("uid", text()), ("groups", texts()), ("extra", DeclType::map(texts()))];
    Environment::new(Version::STORED).with_data("user", &DeclType::object("kubernetes.UserInfo", fields))
});

/// The compiled expressions of an issuer.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) username: Option<Expression>,
    pub(crate) groups: Option<Expression>,
    pub(crate) uid: Option<Expression>,
    /// `extra` keys and their expressions.
    pub(crate) extra: Vec<(Text, Expression)>,
    /// The validation rules for claims, each with the message for its failure. `user` are those for the user.
    pub(crate) claims: Vec<(Expression, String)>,
    pub(crate) user: Vec<(Expression, String)>,
}

/// A compiled expression.
pub(crate) struct Expression {
    text: String,
    program: Program,
    environment: &'static Environment,
    uses_email: bool,
    uses_email_verified: bool,
}

impl Rules {
    pub(super) fn uses_claims(&self) -> bool {
        let one = [&self.username, &self.groups, &self.uid].into_iter().any(Option::is_some);
        one || !self.extra.is_empty() || !self.claims.is_empty()
    }

    /// Returns false if the username is an email address and no expression checks `email_verified`.
    pub(crate) fn checks_email_verified(&self) -> bool {
        let named_by_email = self.username.as_ref().is_some_and(|expression| expression.uses_email);
        let extra = self.extra.iter().map(|(_, expression)| expression);
        let claims = self.claims.iter().map(|(expression, _)| expression);
        !named_by_email || self.username.iter().chain(extra).chain(claims).any(|one| one.uses_email_verified)
    }
}

impl Expression {
    /// Compiles an expression that maps claims. The error is a validation message.
    pub(crate) fn of_claims(text: &str) -> Result<Self, String> {
        Self::compile(text, &CLAIMS_ENVIRONMENT, false)
    }

    /// Compiles a validation rule for claims.
    pub(crate) fn rule_of_claims(text: &str) -> Result<Self, String> {
        Self::compile(text, &CLAIMS_ENVIRONMENT, true)
    }

    /// Compiles a validation rule for a user.
    pub(crate) fn rule_of_user(text: &str) -> Result<Self, String> {
        Self::compile(text, &USER_ENVIRONMENT, true)
    }

    fn compile(text: &str, environment: &'static Environment, is_rule: bool) -> Result<Self, String> {
        let ast = environment.compile(text).map_err(|errors| format!("compilation failed: {errors}"))?;
        if is_rule && *ast.output_type() != Type::Bool {
            return Err("must evaluate to bool".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            program: ast.program().map_err(|error| format!("program instantiation failed: {error}"))?,
            environment,
            uses_email: ast.selects(CLAIMS, "email"),
            uses_email_verified: ast.selects(CLAIMS, "email_verified"),
        })
    }

    /// Evaluates an expression that returns a string.
    pub(super) fn text(&self, claims: &Claims) -> Result<Option<String>, String> {
        self.evaluate(claims, |value| Ok(value.as_str().map(str::to_owned)))
    }

    /// Evaluates an expression that returns a string or a list of strings. Empty strings are dropped.
    pub(super) fn texts(&self, claims: &Claims) -> Result<Vec<Text>, String> {
        const NO_TEXTS: &str = "expression must return a string or a list of strings";
        let texts = self.evaluate(claims, |value| match value {
            Val::Null => Ok(Vec::new()),
            Val::Str(text) => Ok(vec![Text::from(&**text)]),
            Val::List(list) => {
                let text = |item: Result<Val<'_>, _>| match item {
                    Ok(Val::Str(text)) => Ok(Text::from(&*text)),
                    _ => Err(NO_TEXTS.to_owned()),
                };
                list.iter().map(text).collect()
            }
            _ => Err(NO_TEXTS.to_owned()),
        })?;
        Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
    }

    /// Returns an error with `message` unless the rule holds.
    pub(super) fn require(&self, input: &Claims, message: &str) -> Result<(), String> {
        match self.evaluate(input, |value| Ok(value.as_bool()))? {
            Some(true) => Ok(()),
            Some(false) => Err(format!("validation expression '{}' failed: {message}", self.text)),
            None => Err("validation expression must return a boolean".to_owned()),
        }
    }

    fn evaluate<T>(&self, input: &Claims, read: impl FnOnce(&Val<'_>) -> Result<T, String>) -> Result<T, String> {
        let activation = self.environment.activation().with(0, input.value());
        match self.program.eval(&activation, PER_CALL_LIMIT) {
            Ok(value) => read(&value),
            Err(error) => Err(format!("expression '{}' resulted in error: {error}", self.text)),
        }
    }
}
