//! The messages of gnostic's OpenAPIv2 and OpenAPIv3 that documents of a Kubernetes server need.

use super::{FieldEncoding, Shape};

const TEXTS: FieldEncoding = FieldEncoding::Repeated(&FieldEncoding::Text);
const ANYS: FieldEncoding = FieldEncoding::Repeated(&FieldEncoding::Any);
/// Requirements of security schemes with their scopes.
const SECURITY: FieldEncoding = FieldEncoding::Repeated(&FieldEncoding::Named(1, &FieldEncoding::Wrapped(1, &TEXTS)));

// === Version 2 ===

/// The paths of a document of version 2, and the number of their field.
pub(crate) const V2_PATHS: FieldEncoding = FieldEncoding::Named(2, &FieldEncoding::Message(&V2_PATH));
pub(crate) const V2_PATHS_NUMBER: u32 = 8;
/// The definitions of a document of version 2, and the number of their field.
pub(crate) const V2_DEFINITIONS: FieldEncoding = FieldEncoding::Named(1, &FieldEncoding::Message(&V2_SCHEMA));
pub(crate) const V2_DEFINITIONS_NUMBER: u32 = 9;

pub(crate) static V2: Shape = Shape {
    members: &[
        ("swagger", 1, FieldEncoding::Text),
        ("info", 2, FieldEncoding::Message(&V2_INFO)),
        ("paths", V2_PATHS_NUMBER, V2_PATHS),
        ("definitions", V2_DEFINITIONS_NUMBER, V2_DEFINITIONS),
        ("parameters", 10, FieldEncoding::Named(1, &FieldEncoding::Parameter)),
        ("security", 12, SECURITY),
        (
            "securityDefinitions",
            13,
            FieldEncoding::Named(1, &FieldEncoding::Wrapped(2, &FieldEncoding::Message(&V2_API_KEY))),
        ),
    ],
    extensions: 16,
};

static V2_INFO: Shape = Shape {
    members: &[
        ("title", 1, FieldEncoding::Text),
        ("version", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
    ],
    extensions: 7,
};

static V2_PATH: Shape = Shape {
    members: &[
        ("get", 2, FieldEncoding::Message(&V2_OPERATION)),
        ("put", 3, FieldEncoding::Message(&V2_OPERATION)),
        ("post", 4, FieldEncoding::Message(&V2_OPERATION)),
        ("delete", 5, FieldEncoding::Message(&V2_OPERATION)),
        ("options", 6, FieldEncoding::Message(&V2_OPERATION)),
        ("head", 7, FieldEncoding::Message(&V2_OPERATION)),
        ("patch", 8, FieldEncoding::Message(&V2_OPERATION)),
        ("parameters", 9, FieldEncoding::Repeated(&FieldEncoding::ParameterOrReference)),
    ],
    extensions: 10,
};

static V2_OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, TEXTS),
        ("summary", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("operationId", 5, FieldEncoding::Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, FieldEncoding::Repeated(&FieldEncoding::ParameterOrReference)),
        ("responses", 9, FieldEncoding::Named(1, &FieldEncoding::Wrapped(1, &FieldEncoding::Message(&V2_RESPONSE)))),
        ("schemes", 10, TEXTS),
        ("deprecated", 11, FieldEncoding::Flag),
        ("security", 12, SECURITY),
    ],
    extensions: 13,
};

static V2_RESPONSE: Shape = Shape {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("schema", 2, FieldEncoding::Wrapped(1, &FieldEncoding::Message(&V2_SCHEMA))),
    ],
    extensions: 5,
};

pub(super) static BODY_PARAMETER: Shape = Shape {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("required", 4, FieldEncoding::Flag),
        ("schema", 5, FieldEncoding::Message(&V2_SCHEMA)),
    ],
    extensions: 6,
};

/// A parameter in a query or form: its value may be empty.
pub(super) static QUERY_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, FieldEncoding::Flag),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("name", 4, FieldEncoding::Text),
        ("allowEmptyValue", 5, FieldEncoding::Flag),
        ("type", 6, FieldEncoding::Text),
        ("format", 7, FieldEncoding::Text),
        ("uniqueItems", 20, FieldEncoding::Flag),
        ("enum", 21, ANYS),
    ],
    extensions: 23,
};

/// A parameter in a header or path.
pub(super) static HEADER_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, FieldEncoding::Flag),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("name", 4, FieldEncoding::Text),
        ("type", 5, FieldEncoding::Text),
        ("format", 6, FieldEncoding::Text),
        ("uniqueItems", 19, FieldEncoding::Flag),
        ("enum", 20, ANYS),
    ],
    extensions: 22,
};

static V2_SCHEMA: Shape = Shape {
    members: &[
        ("$ref", 1, FieldEncoding::Text),
        ("format", 2, FieldEncoding::Text),
        ("title", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
        ("default", 5, FieldEncoding::Any),
        ("multipleOf", 6, FieldEncoding::Double),
        ("maximum", 7, FieldEncoding::Double),
        ("exclusiveMaximum", 8, FieldEncoding::Flag),
        ("minimum", 9, FieldEncoding::Double),
        ("exclusiveMinimum", 10, FieldEncoding::Flag),
        ("maxLength", 11, FieldEncoding::Integer),
        ("minLength", 12, FieldEncoding::Integer),
        ("pattern", 13, FieldEncoding::Text),
        ("maxItems", 14, FieldEncoding::Integer),
        ("minItems", 15, FieldEncoding::Integer),
        ("uniqueItems", 16, FieldEncoding::Flag),
        ("maxProperties", 17, FieldEncoding::Integer),
        ("minProperties", 18, FieldEncoding::Integer),
        ("required", 19, TEXTS),
        ("enum", 20, ANYS),
        ("additionalProperties", 21, FieldEncoding::OrFlag(&FieldEncoding::Message(&V2_SCHEMA))),
        ("type", 22, FieldEncoding::Wrapped(1, &FieldEncoding::Text)),
        ("items", 23, FieldEncoding::Wrapped(1, &FieldEncoding::Message(&V2_SCHEMA))),
        ("allOf", 24, FieldEncoding::Repeated(&FieldEncoding::Message(&V2_SCHEMA))),
        ("properties", 25, FieldEncoding::Named(1, &FieldEncoding::Message(&V2_SCHEMA))),
        ("readOnly", 27, FieldEncoding::Flag),
        ("example", 30, FieldEncoding::Any),
    ],
    extensions: 31,
};

/// The only scheme in these documents.
static V2_API_KEY: Shape = Shape {
    members: &[
        ("type", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
    ],
    extensions: 5,
};

// === Version 3 ===

pub(crate) static V3: Shape = Shape {
    members: &[
        ("openapi", 1, FieldEncoding::Text),
        ("info", 2, FieldEncoding::Message(&V3_INFO)),
        ("paths", 4, FieldEncoding::Named(1, &FieldEncoding::Message(&V3_PATH))),
        ("components", 5, FieldEncoding::Message(&V3_COMPONENTS)),
    ],
    extensions: 9,
};

static V3_INFO: Shape = Shape {
    members: &[
        ("title", 1, FieldEncoding::Text),
        ("description", 2, FieldEncoding::Text),
        ("version", 6, FieldEncoding::Text),
    ],
    extensions: 7,
};

static V3_COMPONENTS: Shape = Shape {
    members: &[
        ("schemas", 1, FieldEncoding::Named(1, &FieldEncoding::OrReference(&V3_SCHEMA))),
        ("securitySchemes", 7, FieldEncoding::Named(1, &FieldEncoding::OrReference(&V3_SECURITY))),
    ],
    extensions: 10,
};

static V3_PATH: Shape = Shape {
    members: &[
        ("get", 4, FieldEncoding::Message(&V3_OPERATION)),
        ("put", 5, FieldEncoding::Message(&V3_OPERATION)),
        ("post", 6, FieldEncoding::Message(&V3_OPERATION)),
        ("delete", 7, FieldEncoding::Message(&V3_OPERATION)),
        ("options", 8, FieldEncoding::Message(&V3_OPERATION)),
        ("head", 9, FieldEncoding::Message(&V3_OPERATION)),
        ("patch", 10, FieldEncoding::Message(&V3_OPERATION)),
        ("parameters", 13, FieldEncoding::Repeated(&FieldEncoding::OrReference(&V3_PARAMETER))),
    ],
    extensions: 14,
};

static V3_OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, TEXTS),
        ("summary", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("operationId", 5, FieldEncoding::Text),
        ("parameters", 6, FieldEncoding::Repeated(&FieldEncoding::OrReference(&V3_PARAMETER))),
        ("requestBody", 7, FieldEncoding::OrReference(&V3_REQUEST_BODY)),
        ("responses", 8, FieldEncoding::Named(2, &FieldEncoding::OrReference(&V3_RESPONSE))),
        ("deprecated", 10, FieldEncoding::Flag),
    ],
    extensions: 13,
};

static V3_PARAMETER: Shape = Shape {
    members: &[
        ("name", 1, FieldEncoding::Text),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("required", 4, FieldEncoding::Flag),
        ("schema", 10, FieldEncoding::OrReference(&V3_SCHEMA)),
    ],
    extensions: 14,
};

static V3_REQUEST_BODY: Shape = Shape {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("content", 2, V3_CONTENT),
        ("required", 3, FieldEncoding::Flag),
    ],
    extensions: 4,
};

static V3_RESPONSE: Shape =
    Shape { members: &[("description", 1, FieldEncoding::Text), ("content", 3, V3_CONTENT)], extensions: 5 };

const V3_CONTENT: FieldEncoding = FieldEncoding::Named(1, &FieldEncoding::Message(&V3_MEDIA_TYPE));

static V3_MEDIA_TYPE: Shape =
    Shape { members: &[("schema", 1, FieldEncoding::OrReference(&V3_SCHEMA))], extensions: 5 };

static V3_SCHEMA: Shape = Shape {
    members: &[
        ("nullable", 1, FieldEncoding::Flag),
        ("readOnly", 3, FieldEncoding::Flag),
        ("writeOnly", 4, FieldEncoding::Flag),
        ("example", 7, FieldEncoding::Any),
        ("deprecated", 8, FieldEncoding::Flag),
        ("title", 9, FieldEncoding::Text),
        ("multipleOf", 10, FieldEncoding::Double),
        ("maximum", 11, FieldEncoding::Double),
        ("exclusiveMaximum", 12, FieldEncoding::Flag),
        ("minimum", 13, FieldEncoding::Double),
        ("exclusiveMinimum", 14, FieldEncoding::Flag),
        ("maxLength", 15, FieldEncoding::Integer),
        ("minLength", 16, FieldEncoding::Integer),
        ("pattern", 17, FieldEncoding::Text),
        ("maxItems", 18, FieldEncoding::Integer),
        ("minItems", 19, FieldEncoding::Integer),
        ("uniqueItems", 20, FieldEncoding::Flag),
        ("maxProperties", 21, FieldEncoding::Integer),
        ("minProperties", 22, FieldEncoding::Integer),
        ("required", 23, TEXTS),
        ("enum", 24, ANYS),
        ("type", 25, FieldEncoding::Text),
        ("allOf", 26, FieldEncoding::Repeated(&FieldEncoding::OrReference(&V3_SCHEMA))),
        ("oneOf", 27, FieldEncoding::Repeated(&FieldEncoding::OrReference(&V3_SCHEMA))),
        ("anyOf", 28, FieldEncoding::Repeated(&FieldEncoding::OrReference(&V3_SCHEMA))),
        ("not", 29, FieldEncoding::Message(&V3_SCHEMA)),
        ("items", 30, FieldEncoding::Wrapped(1, &FieldEncoding::OrReference(&V3_SCHEMA))),
        ("properties", 31, FieldEncoding::Named(1, &FieldEncoding::OrReference(&V3_SCHEMA))),
        ("additionalProperties", 32, FieldEncoding::OrFlag(&FieldEncoding::OrReference(&V3_SCHEMA))),
        ("default", 33, FieldEncoding::Default),
        ("description", 34, FieldEncoding::Text),
        ("format", 35, FieldEncoding::Text),
    ],
    extensions: 36,
};

static V3_SECURITY: Shape = Shape {
    members: &[
        ("type", 1, FieldEncoding::Text),
        ("description", 2, FieldEncoding::Text),
        ("name", 3, FieldEncoding::Text),
        ("in", 4, FieldEncoding::Text),
        ("scheme", 5, FieldEncoding::Text),
        ("bearerFormat", 6, FieldEncoding::Text),
    ],
    extensions: 9,
};
