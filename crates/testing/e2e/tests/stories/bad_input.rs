//! Hostile and malformed requests.
