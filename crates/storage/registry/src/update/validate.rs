//! The validation of an updated object: its metadata, then the rules of its kind (kube-apiserver's `rest.BeforeUpdate`
//! and the `ValidateUpdate` of strategies).

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_meta::{FieldErrors, FieldPath, Status};
use binnacle_schema::Value;
use binnacle_scheme::{MetadataCheck, StrategyContext};
use binnacle_validation::metadata as validate_metadata;

use super::UpdateRequest;
use crate::hooks::Review;
use crate::metadata_accessor::with_accessor_metadata;
use crate::object;
use crate::write_object::WriteObject;

/// The metadata of an object before and after an update, and its path in errors.
struct MetadataChange<'a> {
    new: &'a Value,
    old: &'a Value,
    path: FieldPath,
}

impl UpdateRequest<'_> {
    /// Validates the metadata and the object, then adds the kind's warnings.
    ///
    /// # Errors
    ///
    /// 422 with all errors.
    pub(super) async fn validate(&self, object: &WriteObject, old: &Value) -> Result<(), Status> {
        let object = &*with_accessor_metadata(object);
        let collection = &self.resource.collection;
        let ctx = self.resource.strategy_context(self.context);
        let root = FieldRef::<AnyKind>::root(object);
        let metadata = root.at(AnyKind::METADATA);
        let metadata = MetadataChange { new: metadata.value(), old: object::metadata(old), path: metadata.path() };
        let mut errors = self.check_metadata(&metadata);
        self.check_metadata_by_strategy(&ctx, object, old, &mut errors);
        let found = self.check_by_strategy(&ctx, object, old);
        let review = Review { context: self.context, subresource: &self.options.subresource, object, old: Some(old) };
        errors.extend(collection.hooks.review(review, found).await);
        if !errors.is_empty() {
            return Err(Status::invalid(&collection.kind_of(object), object::name(object), &errors));
        }
        self.warn(object, old);
        Ok(())
    }

    /// Checks the metadata and its changes by the rules of all kinds (`rest.BeforeUpdate`). The name cannot change, so
    /// it is only validated as a path segment.
    fn check_metadata(&self, metadata: &MetadataChange<'_>) -> FieldErrors {
        let MetadataChange { new, old, path } = metadata;
        let namespaced = self.resource.collection.kind.namespaced;
        let mut errors = validate_metadata::validate(new, namespaced, binnacle_validation::names::path_segment, path);
        errors.extend(validate_metadata::validate_update(new, old, path));
        errors
    }

    /// Repeats checks of the metadata as the kind's `ValidateUpdate` does before its own rules.
    fn check_metadata_by_strategy(
        &self,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
        errors: &mut FieldErrors,
    ) {
        let strategy = &*self.resource.collection.kind.strategy;
        for check in strategy.metadata_checks(ctx).of(&self.options.subresource) {
            match check {
                MetadataCheck::Change if self.resource.is_of_another_type(object) => {}
                MetadataCheck::Change => errors.extend(strategy.validate_metadata_change(object, old)),
                MetadataCheck::Whole => errors.extend(strategy.validate_whole_metadata(ctx, object)),
            }
        }
    }

    /// Checks the object by the rules of its kind (`ValidateUpdate`). Errors that are tolerated because the old object
    /// has them, too, become warnings.
    fn check_by_strategy(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let strategy = &*self.resource.collection.kind.strategy;
        let mut tolerated = Vec::new();
        let found = strategy.validate_change(&self.options.subresource, ctx, object, old, &mut tolerated);
        tolerated.into_iter().for_each(|text| self.context.warn(text));
        found
    }

    /// Adds the kind's warnings about a valid object (`WarningsOnUpdate`).
    fn warn(&self, object: &Value, old: &Value) {
        let strategy = &*self.resource.collection.kind.strategy;
        let warnings = match self.options.subresource.as_str() {
            "" => strategy.warnings(object, Some(old)),
            subresource => strategy.warnings_on_subresource(subresource, object),
        };
        warnings.into_iter().for_each(|warning| self.context.warn(warning));
    }
}
