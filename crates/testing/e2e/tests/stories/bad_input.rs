//! Malicious and malformed requests.
