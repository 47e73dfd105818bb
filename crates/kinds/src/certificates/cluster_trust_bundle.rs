//! ClusterTrustBundle: certificates that a signer's clients trust.

use crate::Strategy;

pub(crate) struct ClusterTrustBundle;

impl Strategy for ClusterTrustBundle {}
