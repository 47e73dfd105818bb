//! Who is calling: one file per authenticator, and their union.
