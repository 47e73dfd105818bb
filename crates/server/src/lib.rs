//! The generic API server: listener, TLS, handler chain, health, shutdown.
