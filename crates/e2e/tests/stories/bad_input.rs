//! Hostile and mistaken requests.
