//! Reviews: objects that are sent as a question and returned with the result.

mod access;
mod attributes;
mod rules;
mod selectors;
mod self_review;
mod token;
mod user;

pub(crate) use access::{AccessReview, Subject};
pub(crate) use rules::RulesReview;
pub(crate) use self_review::SelfReview;
pub(crate) use token::TokenReview;
