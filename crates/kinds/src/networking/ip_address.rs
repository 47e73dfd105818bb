//! IPAddress: one address that is taken, and by whom.

use crate::Strategy;

pub(crate) struct IpAddress;

impl Strategy for IpAddress {}
