//! The parser of label selectors, with kube-apiserver's error messages.

use super::SelectorError;
use super::label_lexer::{Token, tokens};
use super::requirement::{Operator, Requirement, check_key};
use crate::{FieldPath, Text};

/// Parses the whole text. The requirements are in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    Parser { tokens: tokens(text), position: 0 }.selector()
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

/// The set of values in a list.
type Values = std::collections::BTreeSet<Text>;

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::DoesNotExist, _) => {
                    let requirement = self
                        .requirement()
                        .map_err(|error| SelectorError::new(format!("unable to parse requirement: {error}")))?;
                    requirements.push(requirement);
                    match self.next() {
                        (Token::EndOfString, _) => return Ok(requirements),
                        (Token::Comma, _) => {
                            let (token, literal) = self.peek();
                            if !matches!(token, Token::Identifier | Token::DoesNotExist) {
                                return Err(found(literal, ", expected: identifier after ','"));
                            }
                        }
                        (_, literal) => return Err(found(literal, ", expected: ',' or 'end of string'")),
                    }
                }
                (Token::EndOfString, _) => return Ok(requirements),
                (_, literal) => return Err(found(literal, ", expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut literal) = self.next();
        let negated = token == Token::DoesNotExist;
        if negated {
            (token, literal) = self.next();
        }
        if token != Token::Identifier {
            return Err(found(literal, ", expected: identifier"));
        }
        if let Some(error) = check_key(literal, &FieldPath::root()) {
            return Err(SelectorError::new(error.to_string()));
        }
        if negated {
            return Requirement::new(literal, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::EndOfString | Token::Comma) {
            return Requirement::new(literal, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.value_set()?,
            _ => self.exact_value()?,
        };
        Requirement::new(literal, operator, values.into_iter().collect())
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let (token, literal) = self.next_operator();
        match token {
            Token::In => Ok(Operator::In),
            Token::NotIn => Ok(Operator::NotIn),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::GreaterThan => Ok(Operator::GreaterThan),
            Token::LessThan => Ok(Operator::LessThan),
            _ => Err(found(literal, ", expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value_set(&mut self) -> Result<Values, SelectorError> {
        let (token, literal) = self.next();
        if token != Token::OpenParen {
            return Err(found(literal, " expected: '('"));
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, _) => {
                let values = self.identifiers()?;
                // `identifiers` stops before the closing parenthesis.
                self.next();
                Ok(values)
            }
            (Token::ClosedParen, _) => {
                self.next();
                Ok(Values::from([Text::default()]))
            }
            (_, literal) => Err(found(literal, ", expected: ',', ')' or identifier")),
        }
    }

    /// Parses values separated by commas. A value is empty if it is missing before, between or after commas.
    fn identifiers(&mut self) -> Result<Values, SelectorError> {
        let mut values = Values::new();
        loop {
            match self.next() {
                (Token::Identifier, literal) => {
                    values.insert(Text::new(literal));
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::ClosedParen, _) => return Ok(values),
                        (_, literal) => return Err(found(literal, ", expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    let next = self.peek().0;
                    if values.is_empty() || matches!(next, Token::ClosedParen | Token::Comma) {
                        values.insert(Text::default());
                    }
                    if next == Token::ClosedParen {
                        return Ok(values);
                    }
                }
                (_, literal) => return Err(found(literal, ", expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<Values, SelectorError> {
        if matches!(self.peek().0, Token::EndOfString | Token::Comma) {
            return Ok(Values::from([Text::default()]));
        }
        match self.next() {
            (Token::Identifier, literal) => Ok(Values::from([Text::new(literal)])),
            (_, literal) => Err(found(literal, ", expected: identifier")),
        }
    }

    /// Returns the current token where a key or value is expected: keywords are identifiers there.
    fn peek(&self) -> (Token, &'a str) {
        // The last token is EndOfString and `position` never passes it, see `next_operator`.
        match self.tokens[self.position] {
            (Token::In | Token::NotIn, literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let current = self.peek();
        self.advance();
        current
    }

    fn next_operator(&mut self) -> (Token, &'a str) {
        let current = self.tokens[self.position];
        self.advance();
        current
    }

    fn advance(&mut self) {
        self.position = (self.position + 1).min(self.tokens.len() - 1);
    }
}

fn found(literal: &str, expectation: &str) -> SelectorError {
    SelectorError::new(format!("found '{literal}'{expectation}"))
}
