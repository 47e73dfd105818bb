//! Error recovery of the generated parser: deleted, inserted and skipped tokens.

use super::token_set::{FollowSet, TokenSet, bit, names};
use super::{MAX_ATTEMPTS, MAX_SKIPPED, Recognizer, RuleResult, SyntaxError};
use crate::lexer::TokenKind as T;
use crate::source::Location;

impl Recognizer<'_> {
    /// Runs a rule. Its error is reported, and tokens are skipped until one may follow. The number identifies the rule,
    /// because a second error at the same position in the same rule skips a token.
    pub(super) fn rule(
        &mut self,
        follow: FollowSet,
        state: u32,
        body: impl FnOnce(&mut Self) -> RuleResult,
    ) -> RuleResult {
        self.follow.push(follow);
        let result = body(self).or_else(|error| self.catch(error, state));
        self.follow.pop();
        result
    }

    pub(super) fn catch(&mut self, error: SyntaxError, state: u32) -> RuleResult {
        let (message, token) = match error {
            SyntaxError::GiveUp => return Err(SyntaxError::GiveUp),
            SyntaxError::Mismatch(expected) => {
                let text = format!("mismatched input {} expecting {}", self.display_token(self.at), names(expected));
                (text, self.at)
            }
            SyntaxError::NoViable(start, end) => (self.no_viable(start, end), end),
        };
        self.error(token, message);
        self.count_attempt()?;
        match &mut self.last_error {
            Some((at, states)) if *at == self.at && states.contains(&state) => self.skip()?,
            _ => {}
        }
        match &mut self.last_error {
            Some((at, states)) if *at == self.at => states.push(state),
            _ => self.last_error = Some((self.at, vec![state])),
        }
        let fits = self.follow.iter().fold(0, |all, next| all | next.tokens);
        self.skip_until(fits)
    }

    /// Recovers before a choice that needs one of these tokens: a single extra token is deleted.
    pub(super) fn sync(&mut self, expected: TokenSet) -> RuleResult {
        if self.recovering || bit(self.la(1)) & expected != 0 || self.delete(expected) {
            return Ok(());
        }
        Err(SyntaxError::Mismatch(expected))
    }

    /// Recovers before another round of a loop: tokens that do not match are skipped.
    pub(super) fn sync_loop(&mut self, expected: TokenSet) -> RuleResult {
        if self.recovering || bit(self.la(1)) & expected != 0 {
            return Ok(());
        }
        self.unwanted(expected);
        let fits = self.follow.iter().fold(expected, |all, next| all | next.tokens);
        self.skip_until(fits)
    }

    /// Reads a token. A wrong token is deleted if the expected one follows; or the expected one is inserted, if the
    /// wrong one could follow it.
    pub(super) fn token(&mut self, kind: T, after: FollowSet) -> RuleResult {
        if self.la(1) == kind {
            self.consume_fitting();
            return Ok(());
        }
        self.count_attempt()?;
        if self.delete(bit(kind)) {
            self.consume_fitting();
            return Ok(());
        }
        if self.could_follow(after) & bit(self.la(1)) != 0 {
            let text = format!("missing {} at {}", kind.display(), self.display_token(self.at));
            self.error(self.at, text);
            return Ok(());
        }
        Err(SyntaxError::Mismatch(bit(kind)))
    }

    /// Returns the tokens that may come next, including those of the enclosing rules.
    pub(super) fn could_follow(&self, mut next: FollowSet) -> TokenSet {
        let mut tokens = next.tokens;
        for outer in self.follow.iter().rev() {
            if !next.end {
                return tokens;
            }
            next = *outer;
            tokens |= next.tokens;
        }
        tokens
    }

    pub(super) fn delete(&mut self, expected: TokenSet) -> bool {
        if bit(self.la(2)) & expected == 0 || self.la(1) == T::Eof {
            return false;
        }
        self.unwanted(expected);
        self.at += 1;
        self.recovering = false;
        self.last_error = None;
        true
    }

    pub(super) fn unwanted(&mut self, expected: TokenSet) {
        let text = format!("extraneous input {} expecting {}", self.display_token(self.at), names(expected));
        self.error(self.at, text);
    }

    pub(super) fn error(&mut self, token: usize, message: String) {
        if self.recovering {
            return;
        }
        self.recovering = true;
        self.notify(token, message);
    }

    pub(super) fn notify(&mut self, token: usize, message: String) {
        let token = self.tokens[token.min(self.tokens.len() - 1)];
        self.issues.add(self.source.location(token.start), format!("Syntax error: {message}"));
    }

    /// Reports a member without a name.
    pub(super) fn unnamed(&mut self, token: usize) {
        let token = self.tokens[token.min(self.tokens.len() - 1)];
        self.issues.add(self.source.location(token.start), "unsupported ident kind");
    }

    pub(super) fn count_attempt(&mut self) -> RuleResult {
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS {
            self.notify(self.at, format!("error recovery attempt limit exceeded: {MAX_ATTEMPTS}"));
            return Err(SyntaxError::GiveUp);
        }
        Ok(())
    }

    pub(super) fn skip_until(&mut self, fits: TokenSet) -> RuleResult {
        let start = self.at;
        while self.la(1) != T::Eof && bit(self.la(1)) & fits == 0 {
            if self.at - start >= MAX_SKIPPED {
                let message = format!("error recovery token lookahead limit exceeded: {MAX_SKIPPED}");
                self.issues.add(Location::NONE, message);
                return Err(SyntaxError::GiveUp);
            }
            self.at += 1;
        }
        Ok(())
    }

    pub(super) fn skip(&mut self) -> RuleResult {
        if self.la(1) != T::Eof {
            self.at += 1;
        }
        Ok(())
    }

    /// Reads a token that is known to match.
    pub(super) fn consume_fitting(&mut self) {
        self.recovering = false;
        self.last_error = None;
        if self.la(1) != T::Eof {
            self.at += 1;
        }
    }

    pub(super) fn la(&self, ahead: usize) -> T {
        self.tokens.get(self.at + ahead - 1).map_or(T::Eof, |token| token.kind)
    }

    pub(super) fn display_token(&self, token: usize) -> String {
        self.quoted(token, token)
    }

    pub(super) fn no_viable(&self, start: usize, end: usize) -> String {
        let text = if self.tokens[start].kind == T::Eof { "'<EOF>'".to_owned() } else { self.text(start, end) };
        // Keywords are never identifiers.
        let mut inner = text.trim_matches('\'').chars();
        if inner.next().is_some() && matches!(inner.as_str(), "true" | "false" | "null") {
            return format!("mismatched input '{}' expecting IDENTIFIER", inner.as_str());
        }
        format!("no viable alternative at input {text}")
    }

    pub(super) fn quoted(&self, start: usize, end: usize) -> String {
        match self.tokens[start].kind {
            T::Eof => "'<EOF>'".to_owned(),
            _ => self.text(start, end),
        }
    }

    pub(super) fn text(&self, start: usize, end: usize) -> String {
        let end = end.min(self.tokens.len() - 1);
        let last = if self.tokens[end].kind == T::Eof { end.saturating_sub(1).max(start) } else { end };
        let mut out = String::from("'");
        for c in &self.source.chars[self.tokens[start].start..self.tokens[last].end] {
            match c {
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                c => out.push(*c),
            }
        }
        out.push('\'');
        out
    }
}
