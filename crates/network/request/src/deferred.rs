//! Asynchronous lookups for synchronous computations.

use parking_lot::Mutex;

/// The questions of a computation that cannot await, and the answers so far.
///
/// The computation calls [`Deferred::answer_to`], and defers questions without an answer by [`Deferred::defer`].
/// [`Deferred::resolve`] answers deferred questions and repeats the computation until none is left.
///
/// ```
/// use std::convert::Infallible;
///
/// use binnacle_request::Deferred;
///
/// # tokio_test(async {
/// let lengths = Deferred::<&str, usize, &str>::default();
/// let total = || {
///     let length = |word| lengths.answer_to(&word).unwrap_or_else(|| {
///         lengths.defer(word, word);
///         0
///     });
///     length("one") + length("three")
/// };
/// let count = async |word: &str| Ok::<_, Infallible>(word.len());
/// assert_eq!(lengths.resolve(total, count).await, Ok(8));
/// # });
/// # fn tokio_test(test: impl Future) {
/// #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
/// # }
/// ```
#[derive(Debug)]
pub struct Deferred<Question, Answer, Work>(Mutex<State<Question, Answer, Work>>);

#[derive(Debug)]
struct State<Question, Answer, Work> {
    answered: Vec<(Question, Answer)>,
    /// The unanswered questions, and the work to answer each.
    open: Vec<(Question, Work)>,
}

impl<Question, Answer, Work> Default for Deferred<Question, Answer, Work> {
    fn default() -> Self {
        Self(Mutex::new(State { answered: Vec::new(), open: Vec::new() }))
    }
}

impl<Question: PartialEq, Answer: Clone, Work> Deferred<Question, Answer, Work> {
    pub fn answer_to(&self, question: &Question) -> Option<Answer> {
        let state = self.0.lock();
        state.answered.iter().find(|(asked, _)| asked == question).map(|(_, answer)| answer.clone())
    }

    pub fn is_deferred(&self, question: &Question) -> bool {
        self.0.lock().open.iter().any(|(asked, _)| asked == question)
    }

    /// Stores an answer that was found immediately.
    pub fn answer(&self, question: Question, answer: Answer) {
        self.0.lock().answered.push((question, answer));
    }

    /// Defers a question to [`Deferred::resolve`], unless it is already deferred.
    pub fn defer(&self, question: Question, work: Work) {
        let mut state = self.0.lock();
        if !state.open.iter().any(|(asked, _)| *asked == question) {
            state.open.push((question, work));
        }
    }

    /// Returns the result of a computation that has all its answers. The computation is repeated and must not have side
    /// effects. If it could defer new questions indefinitely, `find` must end it with an error.
    ///
    /// Fails with the first error of `find`.
    pub async fn resolve<T, E, Found: Future<Output = Result<Answer, E>>>(
        &self,
        mut compute: impl FnMut() -> T,
        mut find: impl FnMut(Work) -> Found,
    ) -> Result<T, E> {
        loop {
            let result = compute();
            let open = std::mem::take(&mut self.0.lock().open);
            if open.is_empty() {
                return Ok(result);
            }
            // A result without all answers is useless.
            drop(result);
            for (question, work) in open {
                let answer = find(work).await?;
                self.answer(question, answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs an answer for each number below `last`, one after the other. Returns the number of available answers.
    fn chain(numbers: &Deferred<u32, u32, u32>, last: u32) -> u32 {
        for number in 0..last {
            if numbers.answer_to(&number).is_none() {
                numbers.defer(number, number);
                numbers.defer(number, number);
                assert!(numbers.is_deferred(&number));
                return number;
            }
        }
        last
    }

    #[tokio::test]
    async fn answers_questions_that_depend_on_earlier_answers() {
        let numbers = Deferred::default();
        numbers.answer(0, 0);
        let mut found = Vec::new();
        let settled = numbers.resolve(
            || chain(&numbers, 4),
            |number: u32| {
                found.push(number);
                async move { Ok::<_, String>(number) }
            },
        );
        assert_eq!(settled.await, Ok(4));
        assert_eq!(found, [1, 2, 3]);
    }

    #[tokio::test]
    async fn returns_the_first_error() {
        let numbers = Deferred::default();
        let settled = numbers.resolve(
            || chain(&numbers, 4),
            async |number| match number {
                0 => Ok(0),
                other => Err(other),
            },
        );
        assert_eq!(settled.await, Err(1));
    }
}
