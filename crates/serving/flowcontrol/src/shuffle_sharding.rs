//! Shuffle sharding: each flow gets a hand of queues. Few flows have the same hand, so a flow that fills its queues
//! leaves free queues to other flows.

/// Returns the queues of a flow: `hand_size` distinct ones out of `deck_size`.
pub(crate) fn deal(mut hash: u64, deck_size: usize, hand_size: usize) -> impl Iterator<Item = usize> {
    let hand_size = hand_size.min(deck_size);
    let mut remainders = Vec::with_capacity(hand_size);
    for at in 0..hand_size {
        let left = (deck_size - at) as u64;
        remainders.push((hash % left) as usize);
        hash /= left;
    }
    (0..hand_size).map(move |at| {
        // The remainder is an index into the remaining cards: dealt cards are skipped.
        (0..at).rev().fold(remainders[at], |card, before| if card >= remainders[before] { card + 1 } else { card })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn deals_distinct_cards() {
        for (deck, size) in [(1, 1), (8, 8), (64, 8), (128, 6), (3, 5)] {
            for hash in (0..2000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let hand: Vec<usize> = deal(hash, deck, size).collect();
                let different: HashSet<usize> = hand.iter().copied().collect();
                assert!(different.len() == size.min(deck) && hand.iter().all(|card| *card < deck), "{hand:?}");
            }
        }
    }

    #[test]
    fn deals_cards_evenly() {
        let mut counts = [0usize; 16];
        for hash in (0..16_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            deal(hash, 16, 4).for_each(|card| counts[card] += 1);
        }
        assert!(counts.iter().all(|count| (3_600..4_400).contains(count)), "{counts:?}");
    }
}
