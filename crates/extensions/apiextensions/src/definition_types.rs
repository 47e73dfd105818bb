//! The types of one definition, as clusters share them.

use binnacle_meta::Text;
use binnacle_scheme::ResourceType;

/// The types of all served versions; for a version with an unsupported schema, its name and the reason.
pub type DefinitionTypes = Vec<Result<ResourceType, (Text, String)>>;
