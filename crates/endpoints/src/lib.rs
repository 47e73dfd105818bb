//! HTTP to verbs and back: negotiation, parameters, bodies, lists, watches, tables, failures.
